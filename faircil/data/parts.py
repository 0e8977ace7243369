"""Tables larger than memory: read in parts that are the same on every machine.

A *part* is a piece of a table that can be read on its own: row groups of a Parquet file, record
batches of an Arrow file, rows of memory-mapped arrays. Parts follow from the files alone, never
from the number of workers, so that sums over parts, added in their order, are the same to the bit
wherever they are computed.

| table | a part |
|---|---|
| a ``.parquet`` file, or a folder of such | some row groups of one file |
| an ``.arrow`` or ``.feather`` file, or a folder of such, as Hugging Face datasets save themselves | some record batches of one file |
| a folder of ``.npy`` files, one for each column, (n,), or several, (n, d) | some rows |
"""  # noqa: E501

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd

from faircil.data.arrow import (
    check_content,
    frame_of,
    is_parquet,
    package,
    readable,
    without_index,
)
from faircil.data.raw_columns import frames_of_arrays, name_mistakes, without_missing_words
from faircil.engines import HERE, Engine
from faircil.errors import DataError, UsageError, raise_all, shortened

Found = TypeVar("Found")
IN_PARTS = 1_000_000  # rows from which on a table is not read into memory, if it can be avoided
PART_ROWS = 262_144  # rows of a part, at least, if its file has as many
BATCH_ROWS = 65_536  # rows that are read at a time
COUNTED_TOGETHER = 64  # pieces of work that a count is cut into, at most
SAMPLED = 32  # parts that a sample is from, at most
ENDINGS = (".parquet", ".arrow", ".feather", ".npy")
ARROW = (".arrow", ".feather")


@dataclass(frozen=True)
class TablePart:
    """A piece of a table.

    Parameters
    ----------
    path : str
        Its file; of arrays their folder.
    pieces : tuple of int
        Row groups or record batches of the file; of arrays the first row and the one after the
        last.
    first : int
        Rows of the whole table that come before it.
    rows : int
    """

    path: str
    pieces: tuple[int, ...]
    first: int
    rows: int


@dataclass(frozen=True)
class PartedTable:
    """A table that is read in parts.

    Parameters
    ----------
    path : str
        Of the file or folder.
    names : tuple of str
        Of its columns.
    parts : tuple of TablePart
        In order; together they are the table.
    """

    path: str
    names: tuple[str, ...]
    parts: tuple[TablePart, ...]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(part.rows for part in self.parts)

    def read(
        self, part: TablePart, columns: Sequence[str], labels: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Read columns of a part, :data:`BATCH_ROWS` rows at a time.

        Parameters
        ----------
        part : TablePart
        columns : sequence of str
        labels : sequence of str
            Those among them whose few distinct values are wanted as such: columns of text are
            categorical then.

        Yields
        ------
        DataFrame
            Its index numbers the rows of the whole table.
        """
        first = part.first
        for frame in self.batches(part, list(columns), list(labels)):
            yield frame.set_axis(range(first, first + len(frame)), axis=0)
            first += len(frame)

    def batches(
        self, part: TablePart, columns: list[str], labels: list[str]
    ) -> Iterator[pd.DataFrame]:
        """Read columns of a part as :meth:`read` does, with any index."""
        return _reader_of(part.path)(part, columns, labels)

    def whole(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read all rows of some columns, or of all, (n, columns)."""
        names = list(self.names if columns is None else columns)
        raise_all(name_mistakes(Path(self.path), self.names, names), DataError)
        frames = [frame for part in self.parts for frame in self.read(part, names)]
        return pd.concat(frames)

    def sample(self, columns: Sequence[str], rows: int, engine: Engine = HERE) -> pd.DataFrame:
        """Read about so many rows, or all if there are fewer, from parts spread over the table.

        Rows of a part are often alike, as tables are often sorted. So they come from up to
        :data:`SAMPLED` parts at even distances, and from each batch of these at even distances.
        """
        spread = min(len(self.parts), SAMPLED)
        places = sorted({int(place) for place in np.linspace(0, len(self.parts) - 1, spread)})
        chosen = [self.parts[place] for place in places]
        share = min(rows, self.rows) / sum(part.rows for part in chosen)
        work = SampleParts(self, tuple(columns), share)
        found = engine.map(work, [(part,) for part in chosen])
        return pd.concat([frame for frames in found for frame in frames])


class PartWork(ABC, Generic[Found]):
    """Work on some parts of a table, one after the other, so that one is in memory at a time."""

    @property
    @abstractmethod
    def reads(self) -> Sequence[str]:
        """Columns that it reads."""

    @abstractmethod
    def nothing(self) -> Found:
        """Return what is found in no part."""

    @abstractmethod
    def add(self, found: Found, part: TablePart) -> Found:
        """Return what is found with one more part; it may be the same object."""

    def __call__(self, parts: Sequence[TablePart]) -> Found:
        """Return what is found in parts."""
        found = self.nothing()
        for part in parts:
            found = self.add(found, part)
        return found


@dataclass(frozen=True)
class SampleParts(PartWork[list[pd.DataFrame]]):
    """Reads a share of the rows of parts, at even distances."""

    table: PartedTable
    columns: tuple[str, ...]
    share: float

    @property
    def reads(self) -> Sequence[str]:
        """Columns that it reads."""
        return self.columns

    def nothing(self) -> list[pd.DataFrame]:
        """Return no rows."""
        return []

    def add(self, found: list[pd.DataFrame], part: TablePart) -> list[pd.DataFrame]:
        """Return rows with some of one more part."""
        for frame in self.table.read(part, self.columns):
            wanted = min(max(1, round(len(frame) * self.share)), len(frame))
            chosen = np.linspace(0, len(frame) - 1, wanted).astype(int)
            found.append(frame.iloc[np.unique(chosen)])
        return found


def gathered(parts: Sequence[TablePart], most: int) -> list[tuple[TablePart, ...]]:
    """Cut parts into at most so many runs of neighbours with about as many rows each.

    What is cut how follows from the parts alone.
    """
    if len(parts) <= most:
        return [(part,) for part in parts]
    total, number = sum(part.rows for part in parts), most
    rows = np.array([part.rows for part in parts])
    middle = np.cumsum(rows) - rows // 2  # of each part, which decides where it goes
    place = np.minimum(middle * number // total, number - 1)
    runs = [tuple(parts[i] for i in np.flatnonzero(place == one).tolist()) for one in range(number)]
    return [run for run in runs if run]


def parted_table(path: Path) -> PartedTable | None:
    """Return a table that can be read in parts; None if it cannot, or is no table.

    Raises
    ------
    DataError
        If a file cannot be read, or those of a folder do not fit together: all of them at once.
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


def refuse_sharing(path: Path, engine: Engine) -> None:
    """Raise if several workers are to share a table that cannot be read in parts."""
    if engine.asked:
        raise UsageError(
            f"{path} cannot be read in parts, so several workers cannot share it; save the table "
            "as .parquet, or leave out `jobs` and `scheduler`"
        )


def table_files(folder: Path) -> list[Path]:
    """Return the files of a folder that are a table together, sorted by path; maybe none.

    Hidden files, and those that begin with ``_`` as other systems mark theirs, are left out.

    Raises
    ------
    DataError
        If they are of several kinds, or their folders stand for columns.
    """
    found = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in ENDINGS
        and not any(one.startswith((".", "_")) for one in path.relative_to(folder).parts)
    )
    mistakes = []
    kinds = sorted({path.suffix.lower() for path in found} - {ARROW[1]})
    if len(kinds) > 1:
        mistakes.append(
            f"the folder {folder} has files that end in {', '.join(kinds)}; expected one kind, "
            "which are a table together: move the others away"
        )
    named = [path for path in found if any("=" in one for one in path.relative_to(folder).parts)]
    if named:
        mistakes.append(
            f"folders of {folder} stand for columns, as in {named[0].relative_to(folder)}, which "
            "are not read; write the table without partitions"
        )
    raise_all(mistakes, DataError)
    return found


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
        except DataError as error:
            mistakes += map(str, error.args)
            continue
        kinds = {
            name: _kind(schema.field(name).type, arrow) for name in without_index(schema.names)
        }
        mistakes += name_mistakes(file, list(kinds))
        if not kinds:
            mistakes.append(f"{file} has no columns; expected columns with names")
        elif not known:
            known = kinds
        elif kinds != known:
            mistakes.append(_difference(file, files[0], kinds, known))
        for pieces, rows in _gathered(sizes):
            parts.append(TablePart(str(file), pieces, first, rows))
            first += rows
    raise_all(list(dict.fromkeys(mistakes)), DataError)
    if not first:
        raise DataError(f"{path} has columns but no rows; add samples")
    return PartedTable(str(path), tuple(known), tuple(parts))


def _sizes_of(file: Path) -> tuple[Any, list[int]]:
    """Return the schema of a file, and the rows of its row groups or record batches."""
    if is_parquet(file):
        meta = package("pyarrow.parquet").ParquetFile(file)
        number = meta.metadata.num_row_groups
        return meta.schema_arrow, [meta.metadata.row_group(i).num_rows for i in range(number)]
    schema, batches = _record_batches(file)
    return schema, list(map(len, batches))


def _record_batches(file: Path) -> tuple[Any, list[Any]]:
    """Return the schema and the record batches of an Arrow file or stream, mapped into memory.

    A file without rows may have no batch; its columns are told by the schema alone.
    """
    arrow = package("pyarrow")
    source = arrow.memory_map(str(file))
    try:
        opened = package("pyarrow.ipc").open_file(source)
        batches = [opened.get_batch(number) for number in range(opened.num_record_batches)]
        return opened.schema, batches
    except arrow.ArrowInvalid:
        source.seek(0)
        opened = package("pyarrow.ipc").open_stream(source)
        return opened.schema, list(opened)


def _gathered(sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield neighbouring pieces that have :data:`PART_ROWS` rows together, and their rows."""
    pieces: list[int] = []
    rows = 0
    for piece, size in enumerate(sizes):
        pieces.append(piece)
        rows += size
        if rows >= PART_ROWS or (piece == len(sizes) - 1 and rows):
            yield tuple(pieces), rows
            pieces, rows = [], 0


def _kind(type_: Any, arrow: Any) -> str:
    """Return what a column is to faircil: files of one table may differ in its width."""
    is_ = arrow.types
    if is_.is_dictionary(type_):
        type_ = type_.value_type
    if is_.is_boolean(type_):
        return "booleans"
    if is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_):
        return "texts"
    numeric = (is_.is_integer, is_.is_floating, is_.is_decimal)
    return "numbers" if any(test(type_) for test in numeric) else str(type_)


def _difference(file: Path, first: Path, kinds: dict[str, str], known: dict[str, str]) -> str:
    """Say how the columns of a file differ from those of the first one."""
    said = []
    if absent := [name for name in known if name not in kinds]:
        said.append(f"lacks {shortened(absent)}")
    if more := [name for name in kinds if name not in known]:
        said.append(f"has {shortened(more)} besides")
    other = [name for name in known if kinds.get(name, known[name]) != known[name]]
    said += [f"has {kinds[name]} in '{name}' instead of {known[name]}" for name in other[:5]]
    if not said:
        said.append("has its columns in another order")
    return f"{file} {' and '.join(said)}, unlike {first.name}; give all files the same columns"


def _read_arrow(part: TablePart, columns: list[str], labels: list[str]) -> Iterator[pd.DataFrame]:
    """Read columns of some row groups or record batches."""
    arrow, file = package("pyarrow"), Path(part.path)
    with readable(file, arrow):
        if is_parquet(file):
            parquet = package("pyarrow.parquet")
            types = {field.name: field.type for field in parquet.read_schema(file)}
            coded = [name for name in labels if arrow.types.is_string(types[name])]
            opened = parquet.ParquetFile(file, read_dictionary=coded, memory_map=True)
            batches = opened.iter_batches(BATCH_ROWS, row_groups=list(part.pieces), columns=columns)
        else:
            _, every = _record_batches(file)
            batches = (
                every[piece].select(columns).slice(start, stop - start)
                for piece in part.pieces
                for start, stop in _runs(len(every[piece]), BATCH_ROWS)
            )
    batches = iter(batches)
    while True:
        with readable(file, arrow):
            batch = next(batches, None)
            if batch is None:
                return
            check_content(batch)
        taken = {name: batch.column(name) for name in columns}
        frame = frame_of(file, taken, coded=labels)
        yield pd.DataFrame({name: without_missing_words(frame[name]) for name in frame}, copy=False)


def _arrays(folder: Path, files: Sequence[Path]) -> PartedTable:
    """Return the table of arrays on disk, one file for each column or several columns."""
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
    parts = [
        TablePart(str(folder), (start, stop), start, stop - start)
        for start, stop in _runs(rows, PART_ROWS)
    ]
    return PartedTable(str(folder), tuple(names), tuple(parts))


def _read_arrays(part: TablePart, columns: list[str], labels: list[str]) -> Iterator[pd.DataFrame]:
    """Read columns of some rows of arrays."""
    files = table_files(Path(part.path))
    first, last = part.pieces
    for start, stop in _runs(last - first, BATCH_ROWS):
        rows = slice(first + start, first + stop)
        read = [frames_of_arrays(file, rows) for file in files]
        raise_all([mistake for _, problem in read for mistake in problem], DataError)
        table = pd.concat([frame for frame, _ in read if frame is not None], axis=1)
        table = table[columns]
        for name in labels:
            if table[name].dtype == object:
                table[name] = table[name].astype("category")
        yield table


def _runs(rows: int, most: int) -> list[tuple[int, int]]:
    """Return the first row of every run of neighbours, and the one after its last."""
    return [(start, min(start + most, rows)) for start in range(0, rows, most)]


def _reader_of(path: str) -> Callable[[TablePart, list[str], list[str]], Iterator[pd.DataFrame]]:
    return _read_arrays if Path(path).is_dir() else _read_arrow
