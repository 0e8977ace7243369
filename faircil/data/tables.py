"""Read a user's file into a table: named columns of numbers, booleans or text.

For every format, column names are unique and not empty, there is at least one row, and the words
of ``MISSING`` are missing values. A folder of images is a table of their paths.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

from faircil.data.arrow import read_columns
from faircil.data.part_files import parted_table
from faircil.data.parts import changed_table
from faircil.data.table_columns import (
    DAMAGE,
    MISSING,
    array_columns,
    name_mistakes,
    without_missing_words,
)
from faircil.errors import DataError, raise_all, shortened
from faircil.files import named_in_text

NOTES = "notes"  # key of a table's attrs: what was decided while reading it
MOST_HEADER = 1_000_000  # characters of a first line
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
CODE = r"[+-]?0\d+"  # leading zeros make a number a code
COMMA_NUMBER = r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?"  # 3,5 and 1.234,5 and 7
PATH, CLASS, SUBFOLDER = "path", "class", "subfolder"  # columns of a folder of images
IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm")


class Kinds(NamedTuple):
    """Columns of a text file to read as text, and columns of labels; see :func:`read_table`."""

    texts: Collection[str]
    labels: Collection[str]


def read_table(
    path: Path,
    columns: Sequence[str] | None = None,
    texts: Collection[str] = (),
    labels: Collection[str] = (),
) -> pd.DataFrame:
    """Read ``path`` by its extension (see ``READERS``).

    Parameters
    ----------
    path : Path
    columns : sequence of str, optional
        Columns to keep; others are not read if that can be avoided.
    texts : collection of str
        Columns to read as text. In other columns of a text file, ``01`` is read as a number and
        ``true`` as a boolean.
    labels : collection of str
        Columns of classes or attribute values. If such a column of a text file has numbers with
        leading zeros, it is read as text: ``01`` and ``1`` are two labels.

    Returns
    -------
    DataFrame, shape (rows, columns)
        Columns are numeric, boolean or text; missing values are NaN.

    Raises
    ------
    DataError
        The file is missing, empty, of an unknown kind, does not match its extension, or lacks one
        of the columns.
    """
    if path.is_dir():
        parted = parted_table(path)
        return read_folder(path) if parted is None else parted.whole(columns)
    reader = _reader_of(path)
    refuse_devices(path)
    if not path.is_file():
        raise DataError(f"there is no file {path}; check the path")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty; expected columns with names")
    table = reader(path, columns, Kinds(texts, labels))
    if len(table) == 0:
        raise DataError(f"{path} has columns but no rows; add samples")
    return table


@contextmanager
def unchanging(path: Path) -> Iterator[None]:
    """Raise an error if a file is modified in the block, which reads it several times.

    Otherwise, rows of different versions could be combined.
    """
    before = _written(path)
    try:
        yield
    except Exception:
        if _written(path) != before:  # the change caused the error
            raise changed_table(str(path)) from None
        raise
    if _written(path) != before:
        raise changed_table(str(path))


def _written(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def refuse_devices(path: Path) -> None:
    """Raise an error if a path exists but is neither a file nor a folder."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise DataError(
            f"{path} is a device or a pipe, which may have no end and is read once; save its "
            "content as a file"
        )


def read_as_written(path: Path) -> pd.DataFrame:
    """Read a table as :func:`read_table` does, but with every field of a text file as text."""
    reader = _reader_of(path)
    if not isinstance(reader, partial):
        return read_table(path)
    mark = _separator(path, reader.keywords["separator"])
    return pd.read_csv(path, sep=mark, dtype=str, keep_default_na=False, encoding="utf-8-sig")


def _reader_of(path: Path) -> Reader:
    reader = next((READERS[end] for end in READERS if path.name.lower().endswith(end)), None)
    if reader is None:
        raise DataError(
            f"{path} has an unknown file extension; expected one of {', '.join(READERS)}"
        )
    return reader


def read_folder(folder: Path) -> pd.DataFrame:
    """Return the images in a folder and its subfolders as a table.

    Hidden files are left out. Other files without the extension of an image are left out, too, and
    a note lists them.

    Returns
    -------
    DataFrame, shape (images, columns)
        ``path``, relative to the folder; ``class``, the first folder in the path, missing if there
        is none; and ``subfolder``, the second one, if any path has one. Sorted by path.
    """
    try:
        below = sorted(path.relative_to(folder) for path in _files_below(folder))
    except OSError as error:
        place = error.filename or folder
        raise DataError(f"{place} cannot be read: {error.strerror or error}") from None
    found = [path for path in below if not any(part.startswith(".") for part in path.parts)]
    images = [path for path in found if path.suffix.lower() in IMAGES]
    if not images:
        raise DataError(
            f"the folder {folder} has no images, files that end in {', '.join(IMAGES)}; expected "
            f"{folder}/CLASS/IMAGE, or a table of their paths"
        )
    named_in_text(images)
    others = [str(path) for path in found if path not in set(images)]
    columns: dict[str, list[Any]] = {PATH: [path.as_posix() for path in images]}
    for place, name in enumerate((CLASS, SUBFOLDER)):
        folders = [path.parts[place] if len(path.parts) > place + 1 else None for path in images]
        if name == CLASS or any(folders):
            columns[name] = folders
    table = pd.DataFrame(columns, dtype=object)
    note = f"files whose names do not end like those of images, left out: {shortened(others)}"
    table.attrs[NOTES] = [note] if others else []
    return table


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield all files in a folder and its subfolders; follow links, except those to its parents.

    A broken link counts as a file, so that it is reported with all other unreadable files.
    """

    def fail(error: OSError) -> None:
        raise error

    for place, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        here = Path(place)
        above = {here.resolve(), *here.resolve().parents}
        folders[:] = [name for name in folders if (here / name).resolve() not in above]
        yield from (here / name for name in names)


def _separator(path: Path, usual: str) -> str:
    """Return the separator in the first line: ``usual`` if it occurs, else the most frequent."""
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig") as file:
        first = file.readline(MOST_HEADER)
    counts = {mark: first.count(mark) for mark in SEPARATORS}
    return usual if counts[usual] else max(counts, key=lambda mark: counts[mark])


def _with_commas(table: pd.DataFrame, texts: Collection[str]) -> dict[str, pd.Series]:
    """Return columns of numbers such as 3,5 and 1.234,5 as numbers; ``texts`` are excluded."""
    found = {}
    for name, column in table.items():
        known = column.dropna()
        if is_numeric_dtype(column) or name in texts or not len(known):
            continue
        if known.astype(str).str.fullmatch(COMMA_NUMBER).all():
            plain = known.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
            found[str(name)] = pd.to_numeric(plain).reindex(column.index)
    return found


def _labels(column: pd.Series) -> pd.Series:
    """Convert labels read as text to the type that pandas would infer, unless some are codes."""
    codes, found = pd.factorize(column)
    texts = pd.Series(found, dtype=object)
    if not len(texts) or texts.str.fullmatch(CODE).any():
        return column
    values = pd.to_numeric(texts, errors="coerce")
    if values.isna().any():
        if not texts.str.lower().isin(("true", "false")).all():
            return column
        values = texts.str.lower() == "true"
    if (codes < 0).any() and values.dtype == bool:
        values = values.astype(object)
    return pd.Series(values.reindex(codes).to_numpy(), index=column.index)


def _is_row_number(column: pd.Series) -> bool:
    """Return whether a column counts the rows, from 0 or 1."""
    if not is_numeric_dtype(column) or len(column) < 2 or column.iloc[0] not in (0, 1):
        return False
    return bool((column.diff().iloc[1:] == 1).all())


def _read_text(
    path: Path, columns: Sequence[str] | None, kinds: Kinds, separator: str
) -> pd.DataFrame:
    options: dict[str, Any] = {
        "encoding": "utf-8-sig",
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": list(MISSING),
        "low_memory": False,
    }
    notes: list[str] = []
    try:
        options["sep"] = mark = _separator(path, separator)
        # Without a header pandas neither renames duplicate names nor takes an extra first field of
        # the rows as an index: this read sees the names as written and rejects longer rows.
        peek = pd.read_csv(path, header=None, nrows=2, dtype=str, **options)
        names = peek.iloc[0].fillna("").tolist()
        if any("\0" in name for name in names):
            raise DataError(f"{path} is not text; expected a header row and rows of values")
        numbered = names[0] == "" and _is_row_number(
            pd.read_csv(path, usecols=[0], **options).iloc[:, 0]
        )
        told = ["row number" if numbered else names[0], *names[1:]]
        raise_all(name_mistakes(path, told, columns), DataError)
        texts = {name for name in (*kinds.labels, *kinds.texts) if name in (columns or names)}
        options |= {"usecols": columns, "dtype": dict.fromkeys(texts, str)}
        table: pd.DataFrame = pd.read_csv(path, **options)
        table = table.assign(**{n: _labels(table[n]) for n in texts.difference(kinds.texts)})
        if mark == ";" and (written := _with_commas(table, kinds.texts)):
            table = table.assign(**written)
            notes.append("numbers are written with decimal commas")
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{path} has only blank lines; expected a header row and rows") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}); save it as UTF-8") from error
    except DAMAGE as error:
        raise DataError(
            f"cannot read {path}: {str(error).strip()}; expected as many fields in each row as in "
            "the header row, a closing quotation mark where a field begins with one (and gzip data "
            "if the name ends in .gz)"
        ) from error
    if mark == "\t":
        raise_all(_swallowed(path, table), DataError)
    if mark != separator:
        notes.append(f"columns are separated by {SEPARATORS[mark]}")
    if numbered:
        notes.append("the first column has no name and counts the rows: left out")
    table = table.iloc[:, int(numbered) :] if columns is None else table[list(columns)]
    table.attrs[NOTES] = notes
    return table


def _swallowed(path: Path, table: pd.DataFrame) -> list[str]:
    """Find fields with tabs and line breaks, which look like several rows read as one."""
    mistakes: list[str] = []
    for name in table.columns:
        values = enumerate(table[name], start=1)
        rows = (n for n, x in values if isinstance(x, str) and "\n" in x and "\t" in x)
        if row := next(rows, None):
            mistakes.append(
                f"column '{name}' of {path} has tabs and line breaks in row {row} (counted from 1, "
                "without the header): a quotation mark at the beginning of a field makes all up to "
                "the next one a single field; double such marks, or save the table as .csv"
            )
    return mistakes


def _read_parquet(path: Path, columns: Sequence[str] | None, kinds: Kinds) -> pd.DataFrame:
    del kinds  # columns have types
    table = read_columns(path, columns, lambda names: name_mistakes(path, names, columns))
    return pd.DataFrame({name: without_missing_words(table[name]) for name in table}, copy=False)


def _read_npz(path: Path, columns: Sequence[str] | None, kinds: Kinds) -> pd.DataFrame:
    del kinds  # arrays have types
    frames: dict[str, pd.DataFrame] = {}
    mistakes = []
    with path.open("rb") as file, _archive(file, path) as archive:
        for name in archive.files:
            try:
                frames[name] = array_columns(archive[name], name)
            except MemoryError as error:
                mistakes.append(
                    f"array '{name}' of {path} claims more than fits in memory: {error}; it is "
                    "damaged, or for another machine"
                )
            except DAMAGE as error:
                hint = "; save texts with .astype(str)" * ("Object arrays" in str(error))
                mistakes.append(f"array '{name}' of {path} cannot be read: {error}{hint}")
            except DataError as error:
                mistakes.append(f"array '{name}' of {path} {error}")
    lengths = {name: len(frame) for name, frame in frames.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        mistakes.append(f"the arrays of {path} differ in length: {listed}; make them equal")
    if not frames and not mistakes:
        mistakes.append(f"{path} holds no arrays; save one array per column")
    names = [str(name) for frame in frames.values() for name in frame]
    mistakes += name_mistakes(path, names, columns)
    raise_all(mistakes, DataError)
    table = pd.concat(frames.values(), axis=1)
    return table if columns is None else table[list(columns)]


def _archive(file: BinaryIO, path: Path) -> np.lib.npyio.NpzFile:
    """Return the arrays of an opened file."""
    try:
        found = np.load(file, allow_pickle=False)
    except DAMAGE:
        found = None
    if not isinstance(found, np.lib.npyio.NpzFile):
        raise DataError(f"{path} is not an .npz archive, or damaged; write it with numpy.savez")
    return found


Reader = Callable[[Path, Sequence[str] | None, Kinds], pd.DataFrame]
READERS: dict[str, Reader] = {
    ".csv": partial(_read_text, separator=","),
    ".csv.gz": partial(_read_text, separator=","),
    ".tsv": partial(_read_text, separator="\t"),
    ".tsv.gz": partial(_read_text, separator="\t"),
    ".npz": _read_npz,
    ".parquet": _read_parquet,
    ".feather": _read_parquet,
    ".arrow": _read_parquet,
}
