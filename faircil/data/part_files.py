"""Files that are tables in parts: which they are, how they are divided, and how parts are read.

| table | a part |
|---|---|
| a ``.parquet`` file, or a folder of them | some row groups of one file |
| an ``.arrow`` or ``.feather`` file, or a folder of them, as saved by Hugging Face datasets | some record batches of one file |
| a folder of ``.npy`` files, one for each column, (n,), or several, (n, d) | some rows |
"""  # noqa: E501

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from faircil.data import parts as parts_
from faircil.data.arrow import (
    check_content,
    frame_of,
    is_parquet,
    names_in,
    package,
    readable,
)
from faircil.data.parts import PartedTable, TablePart
from faircil.data.table_columns import frames_of_arrays, name_mistakes, without_missing_words
from faircil.errors import DataError, raise_all, shortened
from faircil.files import TABLES_IN_FOLDERS, named_in_text

ARROW = (".arrow", ".feather")
EMPTY = "null"  # type of a column without any value in a file, as written by pandas


@dataclass(frozen=True)
class ArrowTable(PartedTable):
    """A table of Parquet or Arrow files.

    Parameters
    ----------
    path, names, parts
        See :class:`~faircil.data.parts.PartedTable`.
    kinds : tuple of str
        Kinds of the columns.
    """

    kinds: tuple[str, ...]

    def batches(
        self, part: TablePart, columns: list[str], labels: list[str]
    ) -> Iterator[pd.DataFrame]:
        """Read columns of some row groups or record batches."""
        arrow, file = package("pyarrow"), Path(part.path)
        with readable(file, arrow):
            part.check_size()
            if is_parquet(file):
                parquet = package("pyarrow.parquet")
                # Read once: for a file with thousands of row groups, this takes as long as a batch.
                about = parquet.read_metadata(file)
                schema = about.schema.to_arrow_schema()
                if max(part.pieces) >= about.num_row_groups or not set(columns) <= set(
                    schema.names
                ):
                    raise part.changed()
                coded = [n for n in labels if n in schema.names and _is_text(schema.field(n).type)]
                opened = parquet.ParquetFile(
                    file, metadata=about, read_dictionary=coded, memory_map=True
                )
                batches = opened.iter_batches(
                    parts_.BATCH_ROWS, row_groups=list(part.pieces), columns=columns
                )
            else:
                schema, found = _record_batches(file, part.pieces)
                if len(found) < len(part.pieces) or not set(columns) <= set(schema.names):
                    raise part.changed()
                batches = (
                    one.select(columns).slice(start, stop - start)
                    for one in found
                    for start, stop in _runs(len(one), parts_.BATCH_ROWS)
                )
        tables, kinds = _even(batches, arrow), dict(zip(self.names, self.kinds, strict=True))
        while True:
            with readable(file, arrow):
                batch = next(tables, None)
            if batch is None:
                return
            taken = {name: _of_kind(batch.column(name), kinds[name], arrow) for name in columns}
            frame = frame_of(file, taken, coded=labels)
            yield pd.DataFrame(
                {name: without_missing_words(frame[name]) for name in frame}, copy=False
            )


class ArrayTable(PartedTable):
    """A table of arrays on disk."""

    def batches(
        self, part: TablePart, columns: list[str], labels: list[str]
    ) -> Iterator[pd.DataFrame]:
        """Read columns of some rows of arrays."""
        files = table_files(Path(part.path))
        first, last = part.pieces
        if sum(file.stat().st_size for file in files) != part.size:
            raise part.changed()
        for start, stop in _runs(last - first, parts_.BATCH_ROWS):
            rows = slice(first + start, first + stop)
            read = [frames_of_arrays(file, rows) for file in files]
            raise_all([mistake for _, problem in read for mistake in problem], DataError)
            frames = [frame for frame, _ in read if frame is not None]
            # Next to longer columns, a shorter one would be padded with missing values.
            if not frames or any(len(frame) != stop - start for frame in frames):
                raise part.changed()
            table = pd.concat(frames, axis=1)
            if not set(columns) <= set(table.columns):
                raise part.changed()
            table = table[columns]
            for name in labels:
                if table[name].dtype == object:
                    table[name] = table[name].astype("category")
            yield table


def parted_table(path: Path) -> PartedTable | None:
    """Return a table that can be read in parts, or None.

    Raises
    ------
    DataError
        If a file cannot be read, or files of a folder are inconsistent; all are listed.
    """
    if path.is_dir():
        files = table_files(path)
        if not files:
            return None
        if files[0].suffix.lower() == ".npy":
            return _arrays(path, files)
    elif path.is_file() and path.suffix.lower() in (".parquet", *ARROW):
        files = [path]
    else:
        return None
    return _arrow_table(path, files)


def table_files(folder: Path) -> list[Path]:
    """Return the files of a folder that form a table, sorted by path; possibly none.

    Hidden files, and files starting with ``_``, which other systems use as markers, are omitted.

    Raises
    ------
    DataError
        If they are of several kinds, or their folders represent columns.
    """
    found = sorted(
        path
        for path in _below(folder)
        if path.suffix.lower() in TABLES_IN_FOLDERS
        and not any(one.startswith((".", "_")) for one in path.relative_to(folder).parts)
    )
    named_in_text(found)
    mistakes = [
        f"{path} is a device or a pipe, which may have no end; move it away"
        for path in found
        if path.exists() and not path.is_file()
    ]
    kinds = sorted({path.suffix.lower() for path in found} - {ARROW[1]})
    if len(kinds) > 1:
        mistakes.append(
            f"the folder {folder} has files that end in {', '.join(kinds)}; expected files of one "
            "kind, which form one table; move the others away"
        )
    named = [path for path in found if any("=" in one for one in path.relative_to(folder).parts)]
    if named:
        mistakes.append(
            f"folders of {folder} stand for columns, as in {named[0].relative_to(folder)}, which "
            "are not read; write the table without partitions"
        )
    raise_all(mistakes, DataError)
    return found


def _below(folder: Path) -> Iterator[Path]:
    """Yield all files in a folder and its subfolders."""

    def fail(error: OSError) -> None:  # otherwise files would be omitted silently
        raise DataError(
            f"{error.filename or folder} cannot be read: {error.strerror or error}; check your "
            "permissions there"
        ) from None

    for place, _, names in os.walk(folder, onerror=fail):
        yield from (Path(place, name) for name in names)


def _arrow_table(path: Path, files: Sequence[Path]) -> PartedTable:
    """Return the table of Parquet or Arrow files."""
    arrow = package("pyarrow")
    known: dict[str, str] = {}
    parts: list[TablePart] = []
    mistakes: list[str] = []
    first = 0
    for file in files:
        try:
            with readable(file, arrow):
                schema, sizes = _sizes_of(file)
                names = names_in(schema)
        except DataError as error:
            mistakes += map(str, error.args)
            continue
        mistakes += name_mistakes(file, names)
        kinds = {one.name: _kind(one.type, arrow) for one in schema if one.name in names}
        if not kinds:
            mistakes.append(f"{file} has no columns; expected columns with names")
        elif not known:
            known = kinds
        elif set(kinds) != set(known) or _unlike(kinds, known):
            mistakes.append(_difference(file, files[0], kinds, known))
        known |= {name: kinds[name] for name in known if known[name] == EMPTY and name in kinds}
        for pieces, rows in _gathered(sizes):
            parts.append(TablePart(str(file), pieces, first, rows, file.stat().st_size))
            first += rows
    raise_all(list(dict.fromkeys(mistakes)), DataError)
    if not first:
        raise DataError(f"{path} has columns but no rows; add samples")
    return ArrowTable(str(path), tuple(known), tuple(parts), tuple(known.values()))


def _sizes_of(file: Path) -> tuple[Any, list[int]]:
    """Return the schema of a file, and the sizes of its row groups or record batches."""
    if is_parquet(file):
        meta = package("pyarrow.parquet").ParquetFile(file)
        number = meta.metadata.num_row_groups
        return meta.schema_arrow, [meta.metadata.row_group(i).num_rows for i in range(number)]
    schema, batches = _record_batches(file)
    return schema, list(map(len, batches))


def _record_batches(file: Path, pieces: Sequence[int] | None = None) -> tuple[Any, list[Any]]:
    """Return the schema and record batches of a memory-mapped Arrow file or stream.

    Parameters
    ----------
    file : Path
    pieces : sequence of int, optional
        Indices of batches, ascending; those that the file does not have are skipped. By default
        all of them.

    Returns
    -------
    schema : pyarrow.Schema
        A file without rows may have no batch; then only the schema has its columns.
    batches : list of pyarrow.RecordBatch
    """
    arrow = package("pyarrow")
    source = arrow.memory_map(str(file))
    try:
        opened = package("pyarrow.ipc").open_file(source)
    except arrow.ArrowInvalid:
        source.seek(0)
        opened = package("pyarrow.ipc").open_stream(source)
        if pieces is None:
            return opened.schema, list(opened)
        wanted = {*pieces}  # a stream has no index, so earlier batches must be read as well
        batches = enumerate(islice(opened, max(wanted, default=-1) + 1))
        return opened.schema, [batch for number, batch in batches if number in wanted]
    there = range(opened.num_record_batches)
    numbers = there if pieces is None else [piece for piece in pieces if piece in there]
    return opened.schema, [opened.get_batch(number) for number in numbers]


def _gathered(sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield consecutive pieces that form a part, and their number of rows."""
    pieces: list[int] = []
    rows = 0
    for piece, size in enumerate(sizes):
        pieces.append(piece)
        rows += size
        if rows >= parts_.PART_ROWS or (piece == len(sizes) - 1 and rows):
            yield tuple(pieces), rows
            pieces, rows = [], 0


def _kind(type_: Any, arrow: Any) -> str:
    """Return the kind of a column, ignoring its width, in which files of a table may differ."""
    is_ = arrow.types
    if is_.is_dictionary(type_):
        type_ = type_.value_type
    if is_.is_boolean(type_):
        return "booleans"
    if _is_text(type_):
        return "text"
    numeric = (is_.is_integer, is_.is_floating, is_.is_decimal)
    return "numbers" if any(test(type_) for test in numeric) else str(type_)


def _of_kind(column: Any, kind: str, arrow: Any) -> Any:
    """Return a column; one without values in its file gets its kind in the other files."""
    if _kind(column.type, arrow) != EMPTY:
        return column
    types = {"booleans": arrow.bool_(), "numbers": arrow.float64(), EMPTY: arrow.float64()}
    return arrow.nulls(len(column), types.get(kind, arrow.string()))


def _is_text(type_: Any) -> bool:
    """Return whether a type is text; programs write it as different types."""
    return str(type_) in ("string", "large_string", "string_view")


def _unlike(kinds: dict[str, str], known: dict[str, str]) -> list[str]:
    """Return the columns of a file with another kind; one without values matches any kind."""
    return [
        name
        for name in known
        if kinds.get(name, EMPTY) != known[name]
        and EMPTY not in (kinds.get(name, EMPTY), known[name])
    ]


def _difference(file: Path, first: Path, kinds: dict[str, str], known: dict[str, str]) -> str:
    """Describe how the columns of a file differ from those of the first one."""
    said = []
    if absent := [name for name in known if name not in kinds]:
        said.append(f"lacks {shortened(absent)}")
    if more := [name for name in kinds if name not in known]:
        said.append(f"has {shortened(more)} besides")
    said += [
        f"has {kinds[name]} in '{name}' instead of {known[name]}"
        for name in _unlike(kinds, known)[:5]
    ]
    return f"{file} {' and '.join(said)}, unlike {first.name}; give all files the same columns"


def _even(batches: Iterable[Any], arrow: Any) -> Iterator[Any]:
    """Yield the rows of batches as tables of equal size, except for the last one.

    Arrow ends a batch at the end of a row group if texts are dictionary-encoded, as every row group
    has its own dictionary. Sums must not depend on that.
    """
    held: list[Any] = []
    rows = 0
    for batch in batches:
        check_content(batch)
        held.append(batch)
        rows += len(batch)
        while rows >= parts_.BATCH_ROWS:
            table = arrow.Table.from_batches(held)
            yield table.slice(0, parts_.BATCH_ROWS).unify_dictionaries()
            held, rows = table.slice(parts_.BATCH_ROWS).to_batches(), rows - parts_.BATCH_ROWS
    if rows:
        yield arrow.Table.from_batches(held).unify_dictionaries()


def _arrays(folder: Path, files: Sequence[Path]) -> PartedTable:
    """Return the table of arrays on disk, with one or several columns per file."""
    mistakes: list[str] = []
    lengths: dict[str, int] = {}
    names: list[str] = []
    for file in files:
        frames, problem = frames_of_arrays(file, slice(0, 1))
        mistakes += problem
        if frames is not None:
            names += map(str, frames.columns)
            lengths[file.name] = len(np.load(file, mmap_mode="r", allow_pickle=False))
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        mistakes.append(f"the arrays of {folder} differ in length: {listed}; make them equal")
    raise_all([*mistakes, *name_mistakes(folder, names)], DataError)
    rows = next(iter(lengths.values()))
    if not rows:
        raise DataError(f"{folder} has columns but no rows; add samples")
    size = sum(file.stat().st_size for file in files)
    parts = [
        TablePart(str(folder), (start, stop), start, stop - start, size)
        for start, stop in _runs(rows, parts_.PART_ROWS)
    ]
    return ArrayTable(str(folder), tuple(names), tuple(parts))


def _runs(rows: int, most: int) -> list[tuple[int, int]]:
    """Return the first row of each run of consecutive rows, and the row after its last."""
    return [(start, min(start + most, rows)) for start in range(0, rows, most)]
