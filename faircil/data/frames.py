"""Dask data frames as tables in parts: a partition is a part, read on the worker that has it.

The order of partitions is the order of parts, so sums over them are bit-identical wherever they are
computed. Only samples of rows are sent to the calling process, and a worker holds few partitions at
a time: work on several of them is a chain of tasks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from faircil.cluster import Dask, carry_out_alone, package
from faircil.data import parts as parts_
from faircil.data.arrow import frame_of, package as arrow_package
from faircil.data.parts import PartedTable, PartWork, TablePart
from faircil.data.table_columns import same_names, without_missing_words
from faircil.errors import DataError, UsageError, raise_all
from faircil.sending import Order, packed, unpacked

Result = TypeVar("Result")


@dataclass(frozen=True)
class Lent:
    """The context of a task.

    Parameters
    ----------
    frame : DataFrame
        The partition of the task.
    before : bytes or None
        The answer of the previous task in its chain.
    """

    frame: pd.DataFrame
    before: bytes | None = None


_LENT: ContextVar[Lent] = ContextVar("lent")


@dataclass(frozen=True)
class FrameTable(PartedTable):
    """A table whose parts are partitions of a Dask data frame.

    They can only be read in tasks of :class:`DaskFrames`.
    """

    def batches(
        self, part: TablePart, columns: list[str], labels: list[str]
    ) -> Iterator[pd.DataFrame]:
        """Read columns of the task's partition."""
        lent, most = _LENT.get(None), parts_.BATCH_ROWS
        if lent is None:
            raise UsageError(
                "rows of a data frame of Dask stay on its workers, and this method needs them in "
                "one place; choose the method 'moments' with other features than trained ones"
            )
        frame = lent.frame
        for start in range(0, len(frame), most):
            rows = frame.iloc[start : start + most]
            taken = {name: _array(rows[name], part, name in labels) for name in columns}
            read = frame_of(Path(part.path), taken, coded=labels)
            yield pd.DataFrame(
                {name: without_missing_words(read[name]) for name in read}, copy=False
            )


def _array(column: pd.Series, part: TablePart, coded: bool) -> Any:
    """Return a pandas column as an Arrow array; labels are dictionary-encoded."""
    arrow = arrow_package("pyarrow")
    try:
        found = arrow.array(column, from_pandas=True)
    except arrow.ArrowException as error:
        raise DataError(
            f"column '{column.name}' of {part.path} has values of several kinds ({error}); make "
            "them numbers, or texts"
        ) from None
    is_ = arrow.types
    words = is_.is_string(found.type) or is_.is_large_string(found.type)
    return found.cast(arrow.string()).dictionary_encode() if coded and words else found


class DaskFrames(Dask):
    """Computes tasks on the workers of a Dask cluster that have a data frame's partitions.

    Parameters
    ----------
    frame : dask.dataframe.DataFrame
    client : distributed.Client, optional
        By default the current one.

    Raises
    ------
    UsageError
        If there is no client, or ``frame`` is not a Dask data frame.
    """

    def __init__(self, frame: Any, client: Any = None) -> None:
        raise_all(_frame_mistakes(frame))
        if client is None:
            try:
                client = package("distributed").get_client()
            except ValueError:
                raise UsageError(
                    "there is no Dask client; create one with distributed.Client(), or with the "
                    "address of a scheduler, distributed.Client(address)"
                ) from None
        super().__init__(client)
        self._frame = frame

    def table(self) -> FrameTable:
        """Return the data frame as a table in parts, without empty partitions."""
        names = tuple(map(str, self._frame.columns))
        parts = [TablePart(f"partition {n}", (n,), 0, 0) for n in range(self._frame.npartitions)]
        found, first = [], 0
        for part, rows in zip(parts, self._each(CountLength(), names[:1], parts), strict=True):
            if rows:
                found.append(TablePart(part.path, part.pieces, first, rows))
                first += rows
        if not first:
            raise DataError("the data frame has columns but no rows; add samples")
        return FrameTable("the data frame", names, tuple(found))

    def map(self, work: Callable[[Any], Result], tasks: Sequence[Any]) -> Iterator[Result]:
        """Yield the results of all tasks, in order.

        Parameters
        ----------
        work : PartWork
        tasks : sequence of sequences of TablePart
        """
        assert isinstance(work, PartWork)
        chains = [deque(parts) for parts in tasks]
        order = self.order(Step(work))
        last: dict[int, Any] = {}  # the last task of each chain
        done = 0
        try:
            while done < len(chains):
                window = range(done, min(done + self.workers, len(chains)))
                for number in window:
                    if chains[number] and (number not in last or last[number].done()):
                        part = chains[number].popleft()
                        before = last.get(number)
                        last[number] = self._begin_at(order, work.reads, part, before)
                busy = [last[number] for number in window if not last[number].done()]
                if not chains[done] and last[done].done():
                    yield self.result(last.pop(done))
                    done += 1
                elif busy:
                    self.wait(busy)
        finally:
            self.cancel([*last.values(), order])

    def _each(
        self, work: Callable[[TablePart], Result], reads: Sequence[str], parts: Sequence[TablePart]
    ) -> Iterator[Result]:
        """Yield the results of work on each part."""
        order = self.order(work)
        futures = [self._begin_at(order, reads, part) for part in parts]
        try:
            for future in futures:
                self.wait([future])
                yield self.result(future)
        finally:
            self.cancel([*futures, order])

    def _begin_at(
        self, order: Any, reads: Sequence[str], part: TablePart, before: Any = None
    ) -> Any:
        """Start a task on the worker of its partition, after another task."""
        # One partition at a time: Dask combines small ones if few columns are requested.
        (number,) = part.pieces
        wanted = self._frame.partitions[number][list(dict.fromkeys(reads))]
        with self._present():
            frame = self.client.compute(wanted)
            return self.client.submit(
                _carry_out_lent, order, packed(part), frame, before, pure=False
            )


@dataclass(frozen=True)
class CountLength:
    """Counts the rows of a partition."""

    def __call__(self, _: TablePart) -> int:
        """Return the number of rows."""
        return len(_LENT.get().frame)


@dataclass(frozen=True)
class Step:
    """A link of a chain: work on one part."""

    work: PartWork[Any]

    def __call__(self, part: TablePart) -> Any:
        """Return the result for this part and those before it."""
        before = _LENT.get().before  # or the error of the previous task
        return self.work.add(self.work.nothing() if before is None else unpacked(before), part)


def _carry_out_lent(order: Order, task: bytes, frame: pd.DataFrame, before: bytes | None) -> bytes:
    """Carry out work with access to a partition."""
    token = _LENT.set(Lent(frame, before))
    try:
        return carry_out_alone(order, task)
    finally:
        _LENT.reset(token)


def _frame_mistakes(frame: Any) -> list[str]:
    """Return why an object cannot be read as a Dask data frame."""
    if not (hasattr(frame, "partitions") and hasattr(frame, "columns")):
        return [
            f"a {type(frame).__name__} is given, expected a data frame of Dask, as "
            "dask.dataframe.read_parquet(folder) returns it"
        ]
    names = [str(name) for name in frame.columns if not isinstance(name, str)]
    mistakes = [f"the name of column {name} is not text; rename it" for name in names]
    twice = same_names(list(map(str, frame.columns)))
    return mistakes + [f"the data frame has {mistake}" for mistake in twice]
