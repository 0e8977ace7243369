"""What a benchmark of sweeps leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, fields

from faircil.bench.record import Circumstances


@dataclass(frozen=True)
class Case:
    """How many processes make the runs.

    Parameters
    ----------
    jobs, gpu_jobs : int
        Processes that compute on the CPU, and that share the GPU.
    alone : bool
        Whether every run has a process of its own, one after another: no sweep at all.
    """

    jobs: int = 1
    gpu_jobs: int = 0
    alone: bool = False

    @property
    def name(self) -> str:
        """What people call it."""
        if self.alone:
            return "a new process for each run"
        numbers = {"CPU": self.jobs, "GPU": self.gpu_jobs}
        parts = [_counted(number, device) for device, number in numbers.items() if number]
        return " and ".join(parts)


def _counted(number: int, device: str) -> str:
    return f"{number} process{'es' if number > 1 else ''} on the {device}"


@dataclass(frozen=True)
class Parts:
    """What the time of processes goes to, in seconds or in shares of all.

    Parameters
    ----------
    start : float
        Until a process is ready for its first run: Python, imports, the device.
    load : float
        The data.
    weights : float
        Statistics of the groups and linear program.
    train, evaluate : float
    write : float
        The files of the runs.
    rest : float
        All else: nets, buffers, locks, waiting for the next piece of work.
    idle : float
        From the last run of a process to the end of the sweep.
    """

    start: float
    load: float
    weights: float
    train: float
    evaluate: float
    write: float
    rest: float
    idle: float

    @property
    def total(self) -> float:
        """All of it."""
        return float(sum(astuple(self)))

    @property
    def runs(self) -> float:
        """The runs themselves, as they would be without any sweep."""
        return self.weights + self.train + self.evaluate

    def times(self, factor: float) -> Parts:
        """Return all parts ``factor`` times as long."""
        return Parts(**{name: factor * value for name, value in asdict(self).items()})


PARTS = tuple(field.name for field in fields(Parts))


def summed(parts: Sequence[Parts]) -> Parts:
    """Add up, part by part."""
    return Parts(**{name: sum(getattr(part, name) for part in parts) for name in PARTS})


@dataclass(frozen=True)
class SweepCost:
    """What one sweep took.

    Parameters
    ----------
    case : Case
    repeat : int
        From 1.
    runs, processes : int
    wall : float
        Seconds from the beginning to the end.
    parts : Parts
        Seconds of all processes; together ``processes * wall``.
    cores : float
        That a process had while it worked; less than 1 where others were in its way, or it waited.
    """

    case: Case
    repeat: int
    runs: int
    processes: int
    wall: float
    parts: Parts
    cores: float


@dataclass(frozen=True)
class SweepResults(Circumstances):
    """A benchmark of sweeps.

    Parameters
    ----------
    costs : tuple of SweepCost
    works : tuple of str
        Names of the runs that each sweep makes.
    """

    costs: tuple[SweepCost, ...]
    works: tuple[str, ...]
