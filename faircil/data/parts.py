"""Tables larger than memory: read in parts that are the same on every machine.

A *part* is a piece of a table that can be read separately: row groups of a Parquet file, record
batches of an Arrow file, rows of memory-mapped arrays. Parts depend only on the files, never on the
number of workers, so that sums over parts, added in order, are bit-identical wherever they are
computed.

:mod:`faircil.data.part_files` defines which files can be read in parts, and how.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import pandas as pd

from faircil.data.table_columns import name_mistakes
from faircil.engines import HERE, Engine
from faircil.errors import DataError, UsageError, raise_all

Found = TypeVar("Found")
IN_PARTS = 1_000_000  # rows from which a table is not read into memory, if avoidable
PART_ROWS = 262_144  # minimum number of rows of a part, if its file has as many
BATCH_ROWS = 65_536  # rows that are read at a time
COUNTED_TOGETHER = 64  # tasks into which a count is divided, at most
SAMPLED = 32  # parts from which a sample is taken, at most


@dataclass(frozen=True)
class TablePart:
    """A piece of a table.

    Parameters
    ----------
    path : str
        Its file; for arrays, their folder.
    pieces : tuple of int
        Row groups or record batches of the file; for arrays, the first row and the one after the
        last.
    first : int
        Number of rows of the whole table before it.
    rows : int
    size : int
        Size in bytes of the file, or of all arrays; another size reveals a replaced file.
    """

    path: str
    pieces: tuple[int, ...]
    first: int
    rows: int
    size: int = 0

    def check_size(self) -> None:
        """Raise an error if the file's size has changed since it was divided into parts."""
        try:
            size = Path(self.path).stat().st_size
        except OSError:
            raise self.changed() from None
        if size != self.size:
            raise self.changed()

    def changed(self) -> DataError:
        """Return the error for a file that was replaced since it was divided into parts."""
        return changed_table(self.path)


@dataclass(frozen=True)
class PartedTable(ABC):
    """A table that is read in parts.

    Parameters
    ----------
    path : str
        Path of the file or folder.
    names : tuple of str
        Names of its columns.
    parts : tuple of TablePart
        In order; together they form the table.
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
            Columns of labels, that is, with few distinct values; text among them is returned as
            categorical.

        Yields
        ------
        DataFrame
            Its index numbers the rows of the whole table.

        Raises
        ------
        DataError
            If the part cannot be read, or has changed since the table was divided into parts.
        """
        first = part.first
        for frame in self.batches(part, list(columns), list(labels)):
            yield frame.set_axis(range(first, first + len(frame)), axis=0)
            first += len(frame)
        if first != part.first + part.rows:
            raise part.changed()

    @abstractmethod
    def batches(
        self, part: TablePart, columns: list[str], labels: list[str]
    ) -> Iterator[pd.DataFrame]:
        """Read columns of a part as :meth:`read` does, with any index."""

    def whole(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read all rows of some columns, or of all, (n, columns)."""
        names = list(self.names if columns is None else columns)
        raise_all(name_mistakes(Path(self.path), self.names, names), DataError)
        frames = [frame for part in self.parts for frame in self.read(part, names)]
        return pd.concat(frames)

    def sample(self, columns: Sequence[str], rows: int, engine: Engine = HERE) -> pd.DataFrame:
        """Read about ``rows`` rows, or all if there are fewer, from parts spread over the table.

        Tables are often sorted, so rows of a part are often similar. The rows are therefore taken
        from up to :data:`SAMPLED` evenly spaced parts, and from each of their batches at even
        spacing.
        """
        spread = min(len(self.parts), SAMPLED)
        places = sorted({int(place) for place in np.linspace(0, len(self.parts) - 1, spread)})
        chosen = [self.parts[place] for place in places]
        share = min(rows, self.rows) / sum(part.rows for part in chosen)
        work = SampleParts(self, tuple(columns), share)
        found = engine.map(work, [(part,) for part in chosen])
        return pd.concat([frame for frames in found for frame in frames])


class PartWork(ABC, Generic[Found]):
    """Work on some parts of a table, one by one, so that only one is in memory at a time."""

    @property
    @abstractmethod
    def reads(self) -> Sequence[str]:
        """Columns to read."""

    @abstractmethod
    def nothing(self) -> Found:
        """Return the result for no parts."""

    @abstractmethod
    def add(self, found: Found, part: TablePart) -> Found:
        """Return the result with one more part; it may be the same object."""

    def __call__(self, parts: Sequence[TablePart]) -> Found:
        """Return the result for some parts."""
        found = self.nothing()
        for part in parts:
            found = self.add(found, part)
        return found


@dataclass(frozen=True)
class SampleParts(PartWork[list[pd.DataFrame]]):
    """Reads a fraction of the rows of parts, evenly spaced."""

    table: PartedTable
    columns: tuple[str, ...]
    share: float

    @property
    def reads(self) -> Sequence[str]:
        """Columns to read."""
        return self.columns

    def nothing(self) -> list[pd.DataFrame]:
        """Return no rows."""
        return []

    def add(self, found: list[pd.DataFrame], part: TablePart) -> list[pd.DataFrame]:
        """Return the rows with some of one more part."""
        for frame in self.table.read(part, self.columns):
            wanted = min(max(1, round(len(frame) * self.share)), len(frame))
            chosen = np.linspace(0, len(frame) - 1, wanted).astype(int)
            found.append(frame.iloc[np.unique(chosen)])
        return found


def changed_table(path: str) -> DataError:
    """Return the error for a file or folder that has changed since it was first read."""
    return DataError(
        f"{path} changed while it was being read; start again, and do not change the files of a "
        "table until the end"
    )


def gathered(parts: Sequence[TablePart], most: int) -> list[tuple[TablePart, ...]]:
    """Group parts into at most ``most`` runs of consecutive parts with about as many rows each.

    The groups depend only on the parts.
    """
    if len(parts) <= most:
        return [(part,) for part in parts]
    rows = np.array([part.rows for part in parts])
    middle = np.cumsum(rows) - rows // 2  # of each part, which determines its group
    place = np.minimum(middle * most // rows.sum(), most - 1)
    runs = [tuple(parts[i] for i in np.flatnonzero(place == one).tolist()) for one in range(most)]
    return [run for run in runs if run]


def refuse_sharing(path: Path, engine: Engine) -> None:
    """Raise an error if several workers are to share a table that cannot be read in parts."""
    if engine.asked:
        raise UsageError(
            f"{path} cannot be read in parts, so several workers cannot share it; save the table "
            "as .parquet, or leave out `jobs` and `scheduler`"
        )
