"""Tuning: rounds of trials, with the trials of all requests run together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from faircil.errors import FaircilError, collecting, raise_all, unknown_name
from faircil.sweep.sweep import Finish
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import NotTuned, Overrides, Trial, Tuned, TuneRequest
from faircil.tuning.space import Problem, best_of, problem_of, size
from faircil.tuning.strategies import STRATEGIES, Strategy


@dataclass
class Search:
    """Trials of a request so far; ``broken`` says why one of them could not be made."""

    problem: Problem
    strategy: Strategy
    trials: list[Trial] = field(default_factory=list)
    broken: str | None = None

    def next(self) -> list[Overrides]:
        """Return what to try next; nothing when done."""
        return [] if self.broken else self.strategy.propose(self.trials)

    def works(self, point: Overrides) -> list[Work]:
        """Return the runs of a trial, one for each seed."""
        request = self.problem.request
        return [Work(request.config(point), seed) for seed in request.seeds]

    def take(self, point: Overrides, outcomes: Sequence[Outcome]) -> None:
        """Record a trial.

        A trial that diverged has lost. A trial that is missing for any other reason might have
        won, so nothing can be chosen without it.
        """
        objective = self.problem.objective
        runs = tuple(outcome.run for outcome in outcomes if outcome.run is not None)
        problem = next((o.problem or "no run" for o in outcomes if o.run is None), None)
        diverged = any(outcome.diverged for outcome in outcomes)
        score = None
        if problem is None:
            values = objective.values(runs)
            if values is None:
                problem = f"{objective.metric} is undefined on this data"
            else:
                score = objective.score(*values)
        if problem is not None and not diverged:
            self.broken = self.broken or problem
        self.trials.append(Trial(point, runs, score, problem, diverged))

    def result(self) -> Tuned | NotTuned:
        """Choose the best trial if it meets the objective."""
        request, trials = self.problem.request, tuple(self.trials)
        best, objective = best_of(trials), self.problem.objective
        met = best is not None and objective.is_met(best.score or 0.0)
        if best is None or self.broken or not (met or request.target):
            why = f"{self.problem.config.label} on {request.data}: {self._failure(best)}"
            return NotTuned(request, trials, why)
        return Tuned(request, trials, best, "" if met else self._miss(best))

    def _miss(self, best: Trial) -> str:
        """Say that the target is not reached, and how near it is."""
        objective = self.problem.objective
        values = objective.values(best.runs) or (0.0, 0.0)
        return (
            f"the target {objective.requirement} is not reached on held-out training data: "
            f"{objective.shortfall(*values)} ({' '.join(best.overrides)})"
        )

    def _failure(self, best: Trial | None) -> str:
        objective, tried = self.problem.objective, len(self.trials)
        if self.broken:
            missing = sum(t.problem is not None and not t.diverged for t in self.trials)
            return (
                f"nothing is chosen, since {missing} of {tried} trials are missing: {self.broken}"
            )
        if best is None:
            return (
                f"all {tried} trials diverged; try other values with `tried`, such as smaller "
                "learning rates (lr=0.0001,0.001)"
            )
        values = objective.values(best.runs) or (0.0, 0.0)
        return (
            f"none of {tried} configurations, of {size(self.problem.space):,} in all, meets "
            f"{objective.requirement}; "
            f"{objective.shortfall(*values)} ({' '.join(best.overrides)}). Allow that "
            "much with `objective`, or try more configurations with `budget` or other values with "
            "`tried`"
        )


def tune(request: TuneRequest, finish: Finish) -> Tuned:
    """Choose settings for one request; see :func:`tune_all`."""
    return tune_all([request], finish)[0]


def tune_all(requests: Sequence[TuneRequest], finish: Finish) -> list[Tuned]:
    """Choose settings for all requests; an error if that fails for some.

    Parameters
    ----------
    requests : sequence of TuneRequest
    finish : callable
        Makes runs, see :func:`faircil.sweep.sweep.finish`. All trials of a round are one call.
    """
    found = tune_each(requests, finish)
    raise_all([one.problem for one in found if isinstance(one, NotTuned)], FaircilError)
    return [one for one in found if isinstance(one, Tuned)]


def tune_each(requests: Sequence[TuneRequest], finish: Finish) -> list[Tuned | NotTuned]:
    """Choose settings for all requests; where that fails, say why and go on with the others.

    Mistakes in a request are an error before any run is made.
    """
    searches = check_requests(requests)
    while proposals := [(search, point) for search in searches.values() for point in search.next()]:
        works = [search.works(point) for search, point in proposals]
        outcomes = iter(finish([work for some in works for work in some]))
        for (search, point), some in zip(proposals, works, strict=True):
            search.take(point, [next(outcomes) for _ in some])
    return [searches[request].result() for request in requests]


def check_requests(
    requests: Sequence[TuneRequest], mistakes: Sequence[str] = ()
) -> dict[TuneRequest, Search]:
    """Prepare the searches; raises with all mistakes at once, those of the caller too."""
    mistakes = list(mistakes)
    searches: dict[TuneRequest, Search] = {}
    for request in dict.fromkeys(requests):
        with collecting(mistakes):
            searches[request] = _start(request)
    raise_all(list(dict.fromkeys(mistakes)))
    return searches


def _start(request: TuneRequest) -> Search:
    mistakes: list[str] = []
    problem = None
    if request.strategy not in STRATEGIES:
        mistakes.append(unknown_name("strategy", request.strategy, STRATEGIES))
    with collecting(mistakes):
        problem = problem_of(request)
    raise_all(list(dict.fromkeys(mistakes)))
    assert problem is not None  # else there was a mistake
    return Search(problem, STRATEGIES[request.strategy](problem))
