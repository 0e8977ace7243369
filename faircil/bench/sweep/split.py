"""What the time of a sweep's processes goes to, from what each said with its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faircil.bench.sweep.record import Parts, summed
from faircil.sweep.spent import Spent


@dataclass(frozen=True)
class Arrival:
    """A run that has come back.

    Parameters
    ----------
    at : float
        Seconds since the sweep began.
    spent : Spent
        What its process says.
    seconds : mapping
        What the run itself says, see :class:`faircil.results.record.Seconds`.
    """

    at: float
    spent: Spent
    seconds: Mapping[str, float]

    @property
    def preparation(self) -> float:
        """What a run needs before its first task; the first time, torch loads more of itself."""
        return self.spent.device + self.spent.run - self.seconds["total"]


def split_time(arrivals: Sequence[Arrival], wall: float) -> dict[int, Parts]:
    """Divide the time of each process, ``wall`` seconds, by the number of the process."""
    by_process: dict[int, list[Arrival]] = {}
    for arrival in arrivals:
        by_process.setdefault(arrival.spent.process, []).append(arrival)
    return {process: _split(own, wall) for process, own in by_process.items()}


def _split(arrivals: Sequence[Arrival], wall: float) -> Parts:
    first, last = arrivals[0], arrivals[-1]
    known = summed([_of_run(arrival) for arrival in arrivals])
    # Both clocks measure durations only: a process has its own zero.
    start = first.at - first.spent.total + first.preparation
    idle = wall - last.at
    rest = wall - known.total - start - idle
    return summed([known, Parts(start, 0, 0, 0, 0, 0, rest, idle)])


def _of_run(arrival: Arrival) -> Parts:
    seconds, spent = arrival.seconds, arrival.spent
    return Parts(
        start=0,
        load=spent.load,
        weights=seconds["gradient"] + seconds["lp"],
        train=seconds["train"],
        evaluate=seconds["eval"],
        write=spent.write,
        rest=0,
        idle=0,
    )
