"""Whole runs in medians."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from faircil.bench.run.contenders import REFERENCE
from faircil.bench.run.record import RunCost
from faircil.results.record import Seconds


@dataclass(frozen=True)
class MethodCost:
    """A method on a dataset, medians over repeats.

    Parameters
    ----------
    dataset, method : str
    repeats : int
    seconds : Seconds
    ratio : float or None
        Total time against the reference, where that was measured.
    lp_share : float
        Of the total time.
    memory : float or None
        Peak in GiB.
    """

    dataset: str
    method: str
    repeats: int
    seconds: Seconds
    ratio: float | None
    lp_share: float
    memory: float | None


def summarise_runs(runs: Sequence[RunCost]) -> list[MethodCost]:
    """Return a row per dataset and method, in the order measured."""
    parts: dict[tuple[str, str], list[RunCost]] = {}
    for run in runs:
        parts.setdefault((run.dataset, run.method), []).append(run)
    seconds = {key: _medians([run.seconds for run in part]) for key, part in parts.items()}
    rows = []
    for (dataset, method), part in parts.items():
        own, reference = seconds[dataset, method], seconds.get((dataset, REFERENCE))
        memory = [run.memory for run in part if run.memory is not None]
        rows.append(
            MethodCost(
                dataset,
                method,
                len(part),
                own,
                own.total / reference.total if reference else None,
                own.lp / own.total,
                median(memory) if memory else None,
            )
        )
    return rows


def _medians(parts: Sequence[Seconds]) -> Seconds:
    columns = [asdict(part) for part in parts]
    return Seconds(**{name: median(column[name] for column in columns) for name in columns[0]})
