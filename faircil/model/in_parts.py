"""Models of tables larger than memory: every pass over the rows is in parts.

A model of ``moments`` is made of sums, so no row has to stay. Parts of a table are gathered into
*shards*, neighbours of which follow from the table and the size of the sums alone. Wherever a shard
is summed, and by however many workers, the sums of all shards are added in their order: the model
is the same to the bit.

Columns are decided on, and features fitted, by a sample of rows that is spread over the table. What
is fitted on all rows of a table in memory, here is fitted on the sample: which categories there
are, medians, means and deviations.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from faircil.compute import same_bits
from faircil.data.features import feature_mistakes, fit_encoder
from faircil.data.own import OwnData
from faircil.data.parts import PartedTable, TablePart, gathered
from faircil.data.row_parts import (
    HeldOut,
    RowCounts,
    RowReader,
    count_rows,
    gap_notes,
)
from faircil.engines import HERE, Engine
from faircil.errors import DataError, UsageError, raise_all
from faircil.learners.moments import Moments
from faircil.metrics import evaluate
from faircil.model.choosing import Wish, choose_config
from faircil.model.history import Lesson, Measured, now
from faircil.model.model import LEARNED_TWICE, Floats32, Model
from faircil.moments.features import FeatureMap
from faircil.moments.group_moments import GroupMoments
from faircil.moments.seen_rows import row_sums
from faircil.moments.small_cells import pool_sums
from faircil.packing import Packed, pack, unpack
from faircil.samples import Samples

SAMPLE = 200_000  # rows that decide on columns and features
MOST_SHARDS, LEAST_SHARDS = 64, 8
ROOM = 4 * 2**30  # bytes of the sums of all shards, which travel to one place
Progress = Callable[[int, int], None]  # rows that are done, of how many


@dataclass
class ShardSums:
    """Sums over the rows of a shard.

    Parameters
    ----------
    moments : GroupMoments
    rows : int
    check : int
        Sum of the check sums of its rows, modulo 2⁶⁴: the same for the same rows in any order.
    notes : dict
        By what they begin with, the first of each.
    """

    moments: GroupMoments
    rows: int = 0
    check: int = 0
    notes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SumShard:
    """Sums the rows of a shard.

    Parameters
    ----------
    reader : RowReader
    features : FeatureMap
    empty : GroupMoments
        Moments of no rows.
    """

    reader: RowReader
    features: FeatureMap
    empty: GroupMoments

    def __call__(self, parts: Sequence[TablePart]) -> ShardSums:
        """Return the sums over parts, in their order."""
        found = ShardSums(_copy_of(self.empty))
        with torch.no_grad(), threadpool_limits(1, user_api="blas"), same_bits():
            for part in parts:
                for samples, notes in self.reader.batches(part):
                    place = samples.to(found.moments.device)
                    found.moments.add(place, self.features)
                    found.rows += len(samples)
                    found.check = (found.check + int(row_sums(samples.x).sum())) % 2**64
                    for note in notes:
                        found.notes.setdefault(note.split(" has ")[0], note)
        return found


def _copy_of(empty: GroupMoments) -> GroupMoments:
    """Return moments of no rows."""
    found = replace(empty)
    found.seen.most = empty.seen.most
    return found


def shards_of(table: PartedTable, size: int) -> list[tuple[TablePart, ...]]:
    """Cut a table into shards.

    Parameters
    ----------
    table : PartedTable
    size : int
        Bytes of the sums of one.
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
) -> Model:
    """Make a model of a table that is read in parts.

    Parameters
    ----------
    table : PartedTable
    spec : OwnData
        Roles of its columns. Rows that its test column marks are not learned; the model is measured
        on them.
    wish : Wish
    engine : Engine
    hold_out : float
        Share of the rows that are held out instead, where there is no test column.
    seed : int
    device : str
    solve : bool
        Whether the weights of groups are chosen; else the model has sums alone.
    progress : callable
        Called after every shard.
    """
    refuse_in_parts(spec)
    reader = RowReader(table, spec, HeldOut(spec.test_column, hold_out, seed))
    counts = count_rows(reader, engine)
    reader, x, labels, values = _decided(reader, engine)
    roles = replace(spec, path="")
    chosen = choose_config(wish, roles, x, labels, values, device)
    assert reader.encoder is not None
    sampled = f"columns and features are by a sample of {len(x):,} of {table.rows:,} rows"
    model = Model(
        chosen.config,
        seed,
        encoder=reader.encoder,
        measured=chosen.measured,
        notes=[*chosen.notes, *gap_notes(spec, counts), sampled, *reader.encoder.notes],
    )
    named = model.with_names(counts.labels, counts.attribute_values)
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
    model.notes += model.lessons[-1].notes
    if counts.held_out and solve:
        measure_parts(model, reader, engine, on="rows held out of fitting")
    return model


def refuse_in_parts(spec: OwnData) -> None:
    """Raise with all that cannot be done with a table in parts."""
    mistakes = []
    if spec.items is not None:
        mistakes.append(
            f"the table is read in parts, which {spec.items_kind}s cannot be yet; give a table of "
            "fewer rows, or embed them first and give the numbers"
        )
    if spec.tasks is not None or spec.classes_per_task != 2:
        mistakes.append(
            "`tasks` are given, and the table is learned in parts: the order of tasks makes no "
            "difference to moments; leave them out"
        )
    raise_all(mistakes)


def _decided(
    reader: RowReader, engine: Engine
) -> tuple[RowReader, Floats32, list[str], list[str | None] | None]:
    """Decide on columns by a sample; return its inputs, classes and attribute values."""
    frame, y, z = reader.sample(SAMPLE, engine)
    columns = frame[reader.features]
    mistakes = [mistake for name in columns for mistake in feature_mistakes(columns[name])]
    if not reader.features:
        mistakes.append(f"{reader.table.path} has no column left for features; add some")
    raise_all(mistakes, DataError)
    rows = np.arange(len(frame))
    encoder = fit_encoder(columns, rows, rows)
    labels = [str(name) for name in y.values]
    values = None if z is None else z.values
    return replace(reader, encoder=encoder), encoder.inputs(columns), labels, values


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
    """Let a model learn the rows of a table in parts; nothing changes if that fails.

    Parameters
    ----------
    model : Model
        Of method ``moments``.
    reader : RowReader
        With the encoder of the model.
    counts : RowCounts
        Of the table.
    engine : Engine
    first : Samples, optional
        Rows that features are fitted on, of a model that has learned nothing.
    device : str
    solve : bool
        Whether the weights of groups are chosen; else the model has sums alone.
    progress : callable
        Called after every shard.
    """
    start = time.perf_counter()
    known = len(model.labels)
    after = model.with_names(counts.labels, counts.attribute_values)
    assert reader.encoder is not None
    after.prepare(known, reader.encoder.width, device)
    state, learner = after.state, after.learner
    assert state is not None
    if not isinstance(learner, Moments) or learner.settings.features == "trained":
        raise UsageError(
            f"{model.config.label} needs all rows at once, and the table is learned in parts; "
            "choose the method 'moments' with other features than trained ones"
        )
    if learner.moments is None:
        assert first is not None
        learner.begin(first.to(device))
    reader = replace(reader, labels=after.names, values=tuple(after.values))
    sums = sum_parts(learner, reader, sum(counts.learned.values()), engine, progress)
    digest = hashlib.sha256(f"{sums.rows} {sums.check}".encode()).hexdigest()
    twice = any(one.digest == digest for one in model.lessons)
    left_out = pool_sums(sums.moments, learner.settings.min_cell)
    groups = dict(sums.moments.seen.counts)
    with threadpool_limits(1, user_api="blas"), same_bits():
        passed = learner.absorb(sums.moments, solve=solve)
    state.tasks += 1
    state.seen = dict(Counter(state.seen) + Counter(groups))
    lesson = Lesson(
        at=now(),
        rows=sum(groups.values()),
        new_classes=after.names[known:],
        groups=tuple(after.groups_of(groups)),
        seconds=time.perf_counter() - start,
        notes=(*sums.notes.values(), *left_out, *(LEARNED_TWICE,) * twice, *passed.notes),
        passed=passed if solve else None,
        digest="" if learner.noise is not None else digest,
    )
    model.become(after, lesson)
    return lesson


def sum_parts(
    learner: Moments, reader: RowReader, rows: int, engine: Engine, progress: Progress
) -> ShardSums:
    """Return the sums over all rows of a table, shard by shard in their order."""
    assert learner.moments is not None
    place = learner.moments.device
    empty = learner.empty_sums(place if engine.workers == 1 else torch.device("cpu"))
    work = SumShard(reader, learner.net.features.to(empty.device), empty)
    total = ShardSums(learner.empty_sums(place))
    progress(0, rows)
    for found in engine.map(work, shards_of(reader.table, learner.plan.second)):
        total.moments.merge(found.moments)
        total.rows += found.rows
        total.check = (total.check + found.check) % 2**64
        total.notes = found.notes | total.notes
        progress(total.rows, rows)
    learner.net.features.to(place)
    total.moments.seen.settle()
    return total


@dataclass(frozen=True)
class PredictParts:
    """Counts what a model, packed without its sums, predicts of rows that are held out."""

    packed: Packed
    reader: RowReader

    def __call__(self, parts: Sequence[TablePart]) -> Counter[tuple[int, int, int]]:
        """Return rows by class, attribute value (−1: unknown) and predicted class."""
        found, model = Counter[tuple[int, int, int]](), unpack(self.packed)
        for part in parts:
            for samples, _ in self.reader.batches(part, held_out=True):
                z = torch.full_like(samples.y, -1) if samples.z is None else samples.z
                predicted = torch.from_numpy(model.predict(samples.x.numpy()))
                cells = torch.stack([samples.y, z, predicted], dim=1).numpy()
                rows, times = np.unique(cells, axis=0, return_counts=True)
                found.update(dict(zip(map(tuple, rows.tolist()), times.tolist(), strict=True)))
        return found


def measure_parts(model: Model, reader: RowReader, engine: Engine = HERE, *, on: str) -> Measured:
    """Measure a model on the rows of a table that are held out; it remembers that.

    Parameters
    ----------
    model, reader, engine
    on : str
        Which rows these are, in plain words.
    """
    reader = replace(reader, labels=model.names, values=tuple(model.values))
    found = Counter[tuple[int, int, int]]()
    work = PredictParts(pack(model.without_sums()), reader)
    for counts in engine.map(work, gathered(reader.table.parts, MOST_SHARDS)):
        found.update(counts)
    cells = np.array(sorted(found), dtype=np.int64)
    times = np.array([found[tuple(cell)] for cell in cells.tolist()], dtype=np.int64)
    y_true, z, y_pred = cells.T
    sensitive = z if model.has_attribute else None
    favoured = model.learner.measure.favoured
    metrics = evaluate(y_true, y_pred, sensitive=sensitive, favoured=favoured, times=times)
    return model.remember(metrics, y_true, y_pred, sensitive, on, times)
