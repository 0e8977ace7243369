"""Models of tables larger than memory: every pass over the rows is in parts.

A model of ``moments`` consists of sums, so no rows need to be kept. Parts of a table are grouped
into *shards* of neighbouring parts, which depend only on the table and the size of the sums. The
sums of all shards are added in order, wherever and by however many workers they are computed, so
the model is the same bit for bit.

Columns and features are fitted on a sample of rows that is spread over the table. This applies to
everything that is fitted on all rows of a table in memory: categories, medians, means and
deviations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from faircil.data.features import TableEncoder
from faircil.data.mapped import mapped_samples
from faircil.data.own import OwnData
from faircil.data.part_files import parted_table
from faircil.data.parts import (
    IN_PARTS,
    PartedTable,
    PartWork,
    TablePart,
    changed_table,
    gathered,
    refuse_sharing,
)
from faircil.data.row_parts import (
    HeldOut,
    RowCounts,
    RowReader,
    by_number,
    count_rows,
    decided,
    gap_notes,
)
from faircil.data.table_columns import name_mistakes
from faircil.engines import HERE, Engine, Here
from faircil.errors import DataError, UsageError, raise_all, shortened
from faircil.learners.moments import Moments
from faircil.model.choosing import Wish, choose_config
from faircil.model.history import Lesson, Measured
from faircil.model.model import Model
from faircil.model.predict_parts import measure_parts
from faircil.model.row_sums import Gathering, RowSums, learns_sums
from faircil.model.table_rows import left_out_notes
from faircil.moments.features import FeatureMap
from faircil.moments.group_moments import GroupMoments
from faircil.results.record import EpochRecord
from faircil.samples import Samples

MOST_SHARDS, LEAST_SHARDS = 1024, 8
ROOM = 4 * 2**30  # bytes of the sums of all shards, which are sent to one process
Progress = Callable[[int, int], None]  # number of processed rows, and their total


@dataclass(frozen=True)
class SumShard(PartWork[RowSums]):
    """Sums the rows of a shard.

    Parameters
    ----------
    reader : RowReader
    features : FeatureMap
    empty : GroupMoments
        Moments without rows.
    """

    reader: RowReader
    features: FeatureMap
    empty: GroupMoments

    @property
    def reads(self) -> Sequence[str]:
        """Columns to read."""
        return self.reader.reads

    def nothing(self) -> RowSums:
        """Return empty sums."""
        return RowSums(deepcopy(self.empty))

    def add(self, found: RowSums, part: TablePart) -> RowSums:
        """Return the sums with the rows of one part added."""
        for samples, new in self.reader.batches(part):
            found.add(samples, self.features)
            found.new.update(new)
        return found


def shards_of(table: PartedTable, size: int) -> list[tuple[TablePart, ...]]:
    """Divide a table into shards.

    Parameters
    ----------
    table : PartedTable
    size : int
        Size of the sums of one shard in bytes.
    """
    fitting = min(max(ROOM // max(size, 1), LEAST_SHARDS), MOST_SHARDS)
    return gathered(table.parts, fitting)


def fit_parts(
    table: PartedTable,
    spec: OwnData,
    wish: Wish,
    *,
    engine: Engine = HERE,
    hold_out: float = 0.0,
    seed: int = 0,
    device: str = "cpu",
    solve: bool = True,
    progress: Progress = lambda *_: None,
    listener: Callable[[EpochRecord], None] = lambda _: None,
) -> Model:
    """Fit a model to a table that is read in parts.

    Parameters
    ----------
    table : PartedTable
    spec : OwnData
        Roles of its columns. Rows marked by its test column are not learned; the model is
        measured on them.
    wish : Wish
    engine : Engine
    hold_out : float
        Fraction of rows to hold out if there is no test column.
    seed : int
    device : str
    solve : bool
        Whether the group weights are chosen; otherwise the model has only sums.
    progress : callable
        Called after every shard.
    listener : callable
        Called after every epoch of a method that trains a net.
    """
    reader = RowReader(table, spec, HeldOut(spec.test_column, hold_out, seed))
    counts = count_rows(reader, engine)
    if spec.test_column is not None:
        counts.refuse_untested(counts.labels)
    reader, rows = decided(reader, engine)
    x, labels, values = rows
    roles = replace(spec, path="")
    chosen = choose_config(wish, roles, x, labels, values, device)
    assert reader.encoder is not None
    learned = sum(counts.learned.values())
    sampled = f"columns and features are determined from a sample of {len(x):,} of {learned:,} rows"
    model = Model(
        chosen.config,
        seed,
        encoder=reader.encoder,
        measured=chosen.measured,
        notes=[
            *chosen.notes,
            *gap_notes(spec, counts),
            *[sampled] * (len(x) < learned),
            *reader.encoder.notes,
        ],
    )
    named = model.with_names(counts.labels, counts.attribute_values)
    if learns_sums(model):
        learn_parts(
            model,
            reader,
            counts,
            engine,
            first=named.samples_of(x, labels, values),
            device=device,
            solve=solve,
            progress=progress,
        )
    else:
        learn_mapped(model, reader, counts, device=device, listener=listener)
    model.notes += model.lessons[-1].notes
    if counts.held_out and solve:
        measure_parts(model, reader, engine, on="rows held out of fitting")
    return model


def table_in_parts(spec: OwnData, engine: Engine) -> PartedTable | None:
    """Return the table of a file or folder if it is to be learned in parts, else None.

    A table that can be read in parts is, from :data:`IN_PARTS` rows on, or if workers share it.

    Raises
    ------
    UsageError
        If workers are requested for a table that cannot be read in parts.
    """
    path = Path(spec.path)
    table = None if spec.items is not None else parted_table(path)
    if table is None:
        refuse_sharing(path, engine)
        return None
    return None if isinstance(engine, Here) and table.rows < IN_PARTS else table


def refuse_in_parts(spec: OwnData, *, task_by_task: bool = False) -> None:
    """Raise an error if a table is to be learned both in parts and task by task."""
    if spec.tasks is not None or task_by_task:
        raise UsageError(
            f"`tasks` are given, and a table of {IN_PARTS:,} rows or more, or of several workers, "
            "is learned in one step; leave them out: their order makes no difference to moments"
        )


def learn_mapped(
    model: Model,
    reader: RowReader,
    counts: RowCounts,
    *,
    device: str = "cpu",
    listener: Callable[[EpochRecord], None] = lambda _: None,
) -> Lesson:
    """Train a model that needs all rows at once on a memory-mapped file of the rows."""
    after = model.with_names(counts.labels, counts.attribute_values)
    reader = replace(reader, labels=after.names, values=tuple(after.values))
    (samples,), notes = mapped_samples(reader, [sum(counts.learned.values())])
    lesson = model.learn_samples(after, samples, device=device, listener=listener)
    model.lessons[-1] = replace(lesson, notes=(*notes, *lesson.notes))
    return model.lessons[-1]


def update_parts(
    model: Model,
    table: PartedTable,
    spec: OwnData,
    *,
    engine: Engine = HERE,
    solve: bool = True,
    progress: Progress = lambda *_: None,
    listener: Callable[[EpochRecord], None] = lambda _: None,
) -> Lesson:
    """Train a model on the rows of another table in parts; its classes may be new.

    Parameters
    ----------
    model : Model
    table : PartedTable
    spec : OwnData
        Roles of its columns. Rows marked by the test column, if the table has it, are not learned;
        the model is measured on them.
    engine, solve, progress, listener
        As for :func:`fit_parts`.
    """
    reader = reader_for(model, table, spec)
    counts = count_rows(reader, engine, new_rows=True)
    if not counts.learned:
        raise DataError("no row is left to learn: all are marked as test rows")
    if learns_sums(model):
        lesson = learn_parts(model, reader, counts, engine, solve=solve, progress=progress)
    else:
        lesson = learn_mapped(model, reader, counts, listener=listener)
    left_out = left_out_notes(model, table.names)
    model.notes += [*model.kept(gap_notes(spec, counts)), *lesson.notes, *left_out]
    if counts.held_out and solve:
        measure_parts(model, reader, engine, on="rows held out of an update")
    return lesson


def measure_table_parts(
    model: Model, table: PartedTable, spec: OwnData, *, engine: Engine = HERE, on: str
) -> tuple[Measured, list[str]]:
    """Measure a model on the rows of another table in parts, and record the result.

    Parameters
    ----------
    model, table, spec, engine
        As for :func:`update_parts`. If the test column marks any rows, only these are used,
        otherwise all are.
    on : str
        Description of the rows, in plain language.

    Returns
    -------
    measured : Measured
    notes : list of str
    """
    reader = reader_for(model, table, spec)
    counts = count_rows(reader, engine, new_rows=True, learned=False)
    meant = counts.held_out or counts.learned
    model.check_known({name for name, _ in meant} - {*model.names})
    if not counts.held_out:
        reader = replace(reader, held_out=HeldOut(share=1))
    measured, new_values = measure_parts(model, reader, engine, on=on)
    return measured, [
        *gap_notes(spec, counts),
        *new_values,
        *left_out_notes(model, table.names),
        *unlearned_notes(model, [value for _, value in meant]),
    ]


def unlearned_notes(model: Model, values: Iterable[str | None]) -> list[str]:
    """Report attribute values that the model has not learned, so that they are not compared."""
    new = sorted({value for value in values if value is not None} - {*model.values})
    if not new or not model.has_attribute:
        return []
    return [
        f"attribute value(s) {shortened(new)} were never learned: rows with them count as of an "
        "unknown group, which is compared with no other"
    ]


def reader_for(model: Model, table: PartedTable, spec: OwnData) -> RowReader:
    """Return a reader of a table for a model that was fitted to another one."""
    if not isinstance(model.encoder, TableEncoder):
        raise UsageError(
            "the model was not fitted on columns of a table, so it cannot learn a table in parts"
        )
    absent = [name for name in model.encoder.names if name not in table.names]
    needed = {one.name for one in model.encoder.columns if one.kind != "identifier"}
    raise_all(name_mistakes(Path(table.path), table.names, sorted(needed.intersection(absent))))
    marks = spec.test_column if spec.test_column in table.names else None
    plain = replace(spec, path=table.path, tasks=None, test_column=marks)
    return RowReader(table, plain, HeldOut(marks), model.encoder, model.names, tuple(model.values))


def learn_parts(
    model: Model,
    reader: RowReader,
    counts: RowCounts,
    engine: Engine = HERE,
    *,
    first: Samples | None = None,
    device: str = "cpu",
    solve: bool = True,
    progress: Progress = lambda *_: None,
) -> Lesson:
    """Train a model on the rows of a table in parts; on failure it is unchanged.

    Parameters
    ----------
    model : Model
        A model of method ``moments``.
    reader : RowReader
        Has the encoder of the model.
    counts : RowCounts
        Counts of the table.
    engine : Engine
    first : Samples, optional
        Rows to which features are fitted, if the model is new.
    device : str
    solve : bool
        Whether the group weights are chosen; otherwise the model has only sums.
    progress : callable
        Called after every shard.
    """
    encoder = reader.encoder
    assert encoder is not None
    gathering = Gathering(model, encoder.width, device)
    gathering.name(counts.labels, counts.attribute_values)
    if first is not None:
        gathering.begin(first)
    names, values = gathering.after.names, tuple(gathering.after.values)
    reader = replace(reader, labels=names, values=values)
    rows = sum(counts.learned.values())
    sums = sum_parts(gathering.learner, reader, rows, engine, progress)
    if sums.moments.seen.counts != by_number(
        counts.learned, names, values if reader.spec.sensitive else None
    ):
        raise changed_table(reader.table.path)
    return gathering.finish(sums, notes=encoder.notes_on(sums.new), solve=solve)


def sum_parts(
    learner: Moments, reader: RowReader, rows: int, engine: Engine, progress: Progress
) -> RowSums:
    """Return the sums over all rows of a table, added in the order of shards."""
    assert learner.moments is not None
    place = learner.moments.device
    # Workers compute in main memory, so their results are there.
    empty = learner.empty_sums(place if isinstance(engine, Here) else torch.device("cpu"))
    work = SumShard(reader, deepcopy(learner.summed).to(empty.device), empty)
    total = RowSums(learner.empty_sums(place))
    progress(0, rows)
    for found in engine.map(work, shards_of(reader.table, learner.plan.second)):
        total.merge(found)
        progress(total.rows, rows)
    total.moments.seen.settle()
    return total
