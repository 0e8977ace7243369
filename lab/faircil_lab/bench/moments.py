"""What learning from moments costs: memory and time with many groups, and the removal of rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators
from faircil.learners.moments import Moments
from faircil.learners.moments_options import MomentsOptions
from faircil.moments.sketch import MEMORY, Plan
from faircil.nets import build_mlp
from faircil.report import Table
from faircil.samples import Samples
from faircil.weighting.measures import MEASURES
from faircil_lab.bench.benchmark import Benchmark, sections, table_of
from faircil_lab.bench.measuring import Circumstances, medians
from faircil_lab.bench.whole_runs import outcome_of
from faircil_lab.wording import seconds_text

INPUTS = 64
COMPRESSED = 100  # directions of each group
EXACT = "full"
REMOVAL = "removal"
AGAIN = "fitting again"


@dataclass(frozen=True)
class MomentsWorkload:
    """A stream of normal clusters, two groups a class.

    Parameters
    ----------
    classes, tasks : int
        Tasks have equally many classes, as far as possible.
    rows : int
        Of each group.
    width : int
        Number of features.
    rank : str
        ``full``, or a number of directions.
    """

    classes: int
    tasks: int
    rows: int
    width: int
    rank: str = EXACT

    def learner(self) -> Moments:
        """Return a learner that has seen nothing."""
        rank = EXACT if self.rank == EXACT else int(self.rank)
        settings = MomentsOptions.model_validate({"width": self.width, "rank": rank})
        net = build_mlp(INPUTS, self.classes, (), 0)
        learner = Moments(net, settings, Generators.from_seed(0))
        learner.measure, learner.lam = MEASURES["eo"], 1.0
        return learner

    def stream(self) -> Iterator[Samples]:
        """Yield the samples of each task; the second group of a class has more noise."""
        generator = torch.Generator().manual_seed(0)
        centres = torch.randn((self.classes, INPUTS), generator=generator)
        for part in torch.arange(self.classes).tensor_split(self.tasks):
            y = part.repeat_interleave(2 * self.rows)
            z = torch.arange(len(y)) % 2
            noise = torch.randn((len(y), INPUTS), generator=generator)
            yield Samples(centres[y] + (1 + z)[:, None] * noise, y, z)


@dataclass(frozen=True)
class LearningCost:
    """What learning a stream took, in a process of its own.

    Parameters
    ----------
    workload : MomentsWorkload
    summing, solving : float
        Seconds of all tasks.
    solved : int
        Solutions to choose the weights, of all tasks.
    objective : float
        Of the last task: what was minimised.
    memory : float or None
        Peak of the process in GiB, where the system reports it.
    """

    workload: MomentsWorkload
    summing: float
    solving: float
    solved: int
    objective: float
    memory: float | None


@dataclass(frozen=True)
class RemovalCost:
    """What the removal of rows takes, compared with fitting all others again.

    Parameters
    ----------
    workload : MomentsWorkload
        Exact, one task.
    removed : int
        Rows.
    removal, refit : float
        Seconds, medians.
    """

    workload: MomentsWorkload
    removed: int
    removal: float
    refit: float


@dataclass(frozen=True)
class MomentsResults(Circumstances):
    """A benchmark of learning from moments.

    Parameters
    ----------
    outcomes : tuple of LearningCost and RemovalCost
    """

    outcomes: tuple[LearningCost | RemovalCost, ...]

    @property
    def learned(self) -> list[LearningCost]:
        """The streams."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, LearningCost)]

    @property
    def removals(self) -> list[RemovalCost]:
        """The removals."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, RemovalCost)]


def workloads_of(
    classes: Sequence[int], *, tasks: int, rows: int, width: int
) -> list[MomentsWorkload]:
    """Return each number of classes with compressed sums, and with exact ones where these fit."""
    found = []
    for number in dict.fromkeys(classes):
        exact = MomentsWorkload(number, min(tasks, number), rows, width)
        if Plan(width, 2 * number).second <= MEMORY:
            found.append(exact)
        found.append(replace(exact, rank=str(min(COMPRESSED, width))))
    return found


def measure_costs(
    workloads: Sequence[MomentsWorkload], removal: MomentsWorkload, removed: int, repeats: int
) -> Iterator[LearningCost | RemovalCost]:
    """Measure learning, then the removal of rows.

    The processes come first: the peak of one counts what its parent held by then.
    """
    yield from measure_learning(workloads)
    yield measure_removal(removal, removed, repeats)


def measure_learning(workloads: Sequence[MomentsWorkload]) -> Iterator[LearningCost]:
    """Learn each stream in a process of its own, so that each has its own peak of memory."""
    for workload in workloads:
        command = [sys.executable, "-m", __name__, json.dumps(asdict(workload))]
        taken, memory = outcome_of(command)
        yield LearningCost(workload, memory=memory, **taken)


def learned(workload: MomentsWorkload) -> dict[str, float]:
    """Learn a stream; return what of a :class:`LearningCost` the process itself knows."""
    learner = workload.learner()
    summing, solving, solved, objective = 0.0, 0.0, 0, 0.0
    with threadpool_limits(1, user_api="blas"):
        for train in workload.stream():
            learner.begin_task(train, ReplayBuffer(0))
            record = learner.learn(train)
            summing, solving = summing + record.summing, solving + record.solving
            solved, objective = solved + record.solved, record.objective
    return {"summing": summing, "solving": solving, "solved": solved, "objective": objective}


def measure_removal(workload: MomentsWorkload, removed: int, repeats: int) -> RemovalCost:
    """Remove rows, others each time, and learn the rest again, in turns."""
    (train,) = replace(workload, tasks=1).stream()
    order = torch.randperm(len(train), generator=torch.Generator().manual_seed(1))
    parts = iter(torch.split(order, removed))
    learner = workload.learner()
    learner.learn(train)
    rest = train.take(order[removed:])
    functions = {
        REMOVAL: lambda: learner.forget(train.take(next(parts))),
        AGAIN: lambda: workload.learner().learn(rest),
    }
    with threadpool_limits(1, user_api="blas"):
        seconds = medians(functions, repeats)
    return RemovalCost(workload, removed, seconds[REMOVAL], seconds[AGAIN])


def learning_table(costs: Sequence[LearningCost]) -> Table:
    """Make a table of streams, a row for each."""
    header = ["classes", "groups", "second moments", "tasks", "sums", "weights"]
    header += ["solutions", "objective", "peak memory"]
    return table_of("Many groups", header, map(_learning_texts, costs))


def _learning_texts(cost: LearningCost) -> tuple[str, ...]:
    workload = cost.workload
    return (
        f"{workload.classes:,}",
        f"{2 * workload.classes:,}",
        "exact" if workload.rank == EXACT else f"{workload.rank} directions",
        str(workload.tasks),
        seconds_text(cost.summing),
        seconds_text(cost.solving),
        str(cost.solved),
        f"{cost.objective:.3f}",
        "–" if cost.memory is None else f"{cost.memory:.2f} GiB",
    )


def removal_table(costs: Sequence[RemovalCost]) -> Table:
    """Make a table of removals, a row for each."""
    header = ("rows learned", "removed", REMOVAL, AGAIN, f"{REMOVAL} against {AGAIN}")
    return table_of("Removal", header, map(_removal_texts, costs))


def _removal_texts(cost: RemovalCost) -> tuple[str, ...]:
    rows = 2 * cost.workload.classes * cost.workload.rows
    return (
        f"{rows:,}",
        f"{cost.removed:,}",
        seconds_text(cost.removal),
        seconds_text(cost.refit),
        f"{cost.removal / cost.refit:.2f}",
    )


ABOUT = """
Streams of normal clusters, {inputs} inputs, two groups a class, measure `eo`, `width={width}`,
`{rows}` rows a group. *Sums* is one pass over all rows, *weights* all solutions to choose penalty
and weights, after every task; *solutions* is their number, without those for the penalty. Each
stream has its own process, whose peak memory is shown; exact sums where they fit in 2 GiB.
"""
REMOVED = """
Removal of rows from exact sums including the choice of weights after it, compared with learning all
other rows again, in turns; medians.
"""


def _tables(results: MomentsResults) -> list[Table]:
    tables = [learning_table(results.learned)] if results.learned else []
    return tables + ([removal_table(results.removals)] if results.removals else [])


def _text(results: MomentsResults, pictures: Mapping[str, str]) -> str:
    del pictures  # there are none
    text = ""
    if results.learned:
        first = results.learned[0].workload
        text += ABOUT.format(inputs=INPUTS, width=first.width, rows=first.rows)
        text += sections([learning_table(results.learned)])
    if results.removals:
        text += sections([removal_table(results.removals)]) + REMOVED
    return text


def _document(results: MomentsResults) -> dict[str, Any]:
    return {
        "learned": [asdict(cost) for cost in results.learned],
        "removals": [asdict(cost) for cost in results.removals],
    }


def _rows(results: MomentsResults) -> Iterator[dict[str, Any]]:
    for outcome in results.outcomes:
        values = asdict(outcome)
        workload = values.pop("workload")
        for quantity, value in values.items():
            yield workload | {"quantity": quantity, "value": value}


def _line(outcome: LearningCost | RemovalCost) -> str:
    workload = outcome.workload
    if isinstance(outcome, LearningCost):
        texts = _learning_texts(outcome)
        return (
            f"{texts[0]} classes, {texts[2]}: sums {texts[4]}, weights {texts[5]}, peak {texts[-1]}"
        )
    rows, removed, removal, refit, _ = _removal_texts(outcome)
    where = f"{removed} of {rows} rows at width {workload.width:,}"
    return f"{where}: {REMOVAL} {removal}, {AGAIN} {refit}"


MOMENTS_COSTS = Benchmark[MomentsResults](
    title="Cost of learning from moments",
    line=_line,
    document=_document,
    rows=_rows,
    tables=_tables,
    figures=lambda _: {},
    text=_text,
    besides=lambda results: f"; {results.environment['threads']} threads",
)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(learned(MomentsWorkload(**json.loads(sys.argv[1])))))
