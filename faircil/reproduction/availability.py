"""Whether runs can be made here: their data, and a GPU for those that last days without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from faircil.data.datasets import DATASETS
from faircil.sweep.sweep import Finish, SweepOptions, finish
from faircil.sweep.work import Outcome, Work

FILES_ABSENT = "files absent"
NO_GPU = (
    "an encoder is trained, which takes days without a GPU; give --gpu-jobs 1 where there is one"
)


def files_absent(dataset: str) -> bool:
    """Tell whether a file of a dataset is missing."""
    return bool(DATASETS[dataset].missing_files())


def where_possible(make: Finish, options: SweepOptions) -> Finish:
    """Return ``make`` for runs that can be made here; of others, finished runs are found.

    Parameters
    ----------
    make : callable
        Makes runs, as :func:`faircil.sweep.sweep.finish` does.
    options : SweepOptions
        Where finished runs are, and whether a GPU takes part.
    """

    def finish_some(works: Sequence[Work]) -> list[Outcome]:
        names = {work.config.dataset for work in works}
        absent = {name for name in names if files_absent(name)}

        def obstacle(work: Work) -> str | None:
            if work.config.dataset in absent:
                return FILES_ABSENT
            return NO_GPU if work.config.trains_encoder and not options.gpu_jobs else None

        obstacles = [obstacle(work) for work in works]
        impossible = [work for work, why in zip(works, obstacles, strict=True) if why]
        found = iter(finish(impossible, replace(options, run_missing=False)))
        made = iter(make([work for work, why in zip(works, obstacles, strict=True) if not why]))
        return [_explained(next(found), why) if why else next(made) for why in obstacles]

    return finish_some


def _explained(outcome: Outcome, obstacle: str) -> Outcome:
    return outcome if outcome.run else replace(outcome, problem=obstacle)
