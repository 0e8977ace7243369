"""Fabricated searches and runs for exhibits that are figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from faircil.results.record import RunSummary
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import Trial, Tuned, TuneRequest
from faircil_lab.paper.contenders import FILES_ABSENT
from faircil_lab.paper.exhibit import Exhibit, Results
from run_summaries import make_run

Make = Callable[[Work], RunSummary | None]


def run_of(work: Work, **metrics: Any) -> RunSummary:
    """Make the summary of a run with these metrics, and .5 for all others."""
    return replace(
        make_run(work.config.label, seed=work.seed, **metrics),
        config=work.config.model_dump(mode="json"),
    )


def tuned_with(
    request: TuneRequest, trials: Iterable[tuple[str, Mapping[str, float]]] = (("lr=0.1", {}),)
) -> Tuned:
    """Make a search from settings and their metrics; the first is the best."""
    made = tuple(
        Trial(
            (setting,),
            tuple(run_of(Work(request.config([setting]), s), **metrics) for s in request.seeds),
            0.5,
        )
        for setting, metrics in trials
    )
    return Tuned(request, made, made[0])


def results_of(
    exhibit: Exhibit,
    make: Make,
    tuned: Mapping[TuneRequest, Tuned] | None = None,
    *,
    diverged: bool = True,
) -> Results:
    """Make all runs of an exhibit except those on BiasBios.

    If ``make`` returns None, the run diverged, or is missing for another reason.
    """
    tuned = {} if tuned is None else tuned
    outcomes = {}
    for work in exhibit.works(tuned):
        absent = work.config.dataset == "biasbios"
        why = "it diverged" if diverged else "out of memory"
        run, problem = (None, FILES_ABSENT) if absent else (make(work), why)
        lost = diverged and run is None and not absent
        outcomes[work.key] = Outcome(work, run, None if run else problem, lost)
    return Results(outcomes, tuned, Path("runs"))
