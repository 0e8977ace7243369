"""Whether the data of a target is there; where it is not, nothing is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from faircil.data.datasets import DATASETS
from faircil.sweep.sweep import Finish, SweepOptions, finish
from faircil.sweep.work import Outcome, Work

FILES_ABSENT = "files absent"


def files_absent(dataset: str) -> bool:
    """Tell whether a file of a dataset is missing."""
    return bool(DATASETS[dataset].missing_files())


def where_files_are(make: Finish, options: SweepOptions) -> Finish:
    """Return ``make`` for runs whose data is there; of others, finished runs are found.

    Parameters
    ----------
    make : callable
        Makes runs, as :func:`faircil.sweep.sweep.finish` does.
    options : SweepOptions
        Where finished runs are.
    """

    def finish_some(works: Sequence[Work]) -> list[Outcome]:
        names = {work.config.dataset for work in works}
        absent = {name for name in names if files_absent(name)}
        without = [work for work in works if work.config.dataset in absent]
        found = iter(finish(without, replace(options, run_missing=False)))
        made = iter(make([work for work in works if work.config.dataset not in absent]))
        return [
            _absent(next(found)) if work.config.dataset in absent else next(made) for work in works
        ]

    return finish_some


def _absent(outcome: Outcome) -> Outcome:
    return outcome if outcome.run else replace(outcome, problem=FILES_ABSENT)
