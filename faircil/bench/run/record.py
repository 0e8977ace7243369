"""What a benchmark of runs leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faircil.bench.record import Circumstances
from faircil.results.record import Seconds


@dataclass(frozen=True)
class RunCost:
    """What one whole run took.

    Parameters
    ----------
    dataset, method : str
    repeat : int
        From 1.
    seconds : Seconds
    memory : float or None
        Peak of the whole process in GiB, where the system tells it.
    accuracy : float
        Mean over tasks, to see that runs are what they should be.
    """

    dataset: str
    method: str
    repeat: int
    seconds: Seconds
    memory: float | None
    accuracy: float


@dataclass(frozen=True)
class EpochCost:
    """What the statistics of an epoch take, against one forward pass over the task.

    Parameters
    ----------
    dataset, measure : str
    task : int
        From 2.
    samples, groups : int
        Of the task, and of all groups compared.
    forward : float
        Seconds of a forward pass without gradients over the task's samples.
    statistics : mapping
        Seconds of the statistics, by kind of gradient.
    """

    dataset: str
    measure: str
    task: int
    samples: int
    groups: int
    forward: float
    statistics: Mapping[str, float]


@dataclass(frozen=True)
class Workload:
    """An epoch's task on generated data: two new classes among old ones.

    Parameters
    ----------
    samples : int
        Of the current task.
    groups : int
        Of each class: its attribute values.
    classes : int
        Old and new.
    features : int
        Inputs of the net.
    """

    samples: int = 10_000
    groups: int = 2
    classes: int = 10
    features: int = 256


@dataclass(frozen=True)
class ScalePoint:
    """What the weights of an epoch take at a workload in which one factor was varied.

    Parameters
    ----------
    factor : str
        A field of :class:`Workload`.
    workload : Workload
    statistics, lp : float
        Seconds of the statistics and of the program.
    """

    factor: str
    workload: Workload
    statistics: float
    lp: float

    @property
    def value(self) -> int:
        """Value of the factor."""
        return int(getattr(self.workload, self.factor))


RunOutcome = RunCost | EpochCost | ScalePoint


@dataclass(frozen=True)
class RunResults(Circumstances):
    """A benchmark of runs.

    Parameters
    ----------
    outcomes : tuple of RunCost, EpochCost and ScalePoint
    repeats : int
        Of whole runs.
    """

    outcomes: tuple[RunOutcome, ...]
    repeats: int

    @property
    def runs(self) -> list[RunCost]:
        """The whole runs."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, RunCost)]

    @property
    def epochs(self) -> list[EpochCost]:
        """The statistics of epochs."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, EpochCost)]

    @property
    def points(self) -> list[ScalePoint]:
        """The growth on generated data."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, ScalePoint)]
