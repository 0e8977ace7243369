"""Tuning: strategies propose trials in rounds, and those of all requests are run together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from faircil.errors import FaircilError, UsageError, collecting, raise_all, unknown_name
from faircil.sweep.sweep import Finish
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import NotTuned, Overrides, Trial, Tuned, TuneRequest
from faircil.tuning.space import Axis, Problem, best_of, combination, combinations, problem_of, size

if TYPE_CHECKING:
    import optuna

# The budget is spent in rounds: each uses the results before it; within a round, all run at once.
ROUNDS = 3
PATIENCE = 10  # repeated suggestions after which the next one is drawn at random


class OptunaSearch:
    """Tree-structured Parzen estimators with two objectives: high accuracy, low disparity.

    A metric that should be high is maximised, too.

    No configuration is tried twice: if the sampler keeps suggesting known ones, an untried
    configuration is drawn at random. A space no larger than the budget is tried completely.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._batch = -(-problem.request.budget // ROUNDS)
        seed = problem.request.seeds[0]
        self._generator = np.random.default_rng([seed, 18])
        self._study = _new_study(seed, self._batch, problem.objective.sign)
        self._asked: dict[Overrides, optuna.Trial] = {}
        self._told = 0

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Report finished trials to the sampler, then ask it for the next round."""
        space, budget = self._problem.space, self._problem.request.budget
        if size(space) <= budget:
            return [] if history else list(combinations(space))
        for trial in history[self._told :]:
            self._study.tell(self._asked[trial.overrides], self._values(trial))
        self._told = len(history)
        return [self._next() for _ in range(min(self._batch, budget - len(history)))]

    def _next(self) -> Overrides:
        """Ask until a new configuration is suggested."""
        from optuna.trial import TrialState

        for _ in range(PATIENCE):
            trial = self._study.ask()
            point = tuple(
                f"{axis.name}={trial.suggest_categorical(axis.name, axis.values)}"
                for axis in self._problem.space
            )
            if point not in self._asked:
                self._asked[point] = trial
                return point
            self._study.tell(trial, state=TrialState.FAIL)
        return self._drawn()

    def _drawn(self) -> Overrides:
        space = self._problem.space
        while True:
            index = int(self._generator.integers(size(space)))
            if (point := combination(space, index)) not in self._asked:
                break
        values = dict(override.split("=", 1) for override in point)
        self._study.enqueue_trial(values)
        self._asked[point] = trial = self._study.ask()
        for axis in space:
            trial.suggest_categorical(axis.name, axis.values)
        return point

    def _values(self, trial: Trial) -> tuple[float, float]:
        found = None if trial.score is None else self._problem.objective.values(trial.runs)
        worst = (0.0, 0.0 if self._problem.objective.sign > 0 else 1.0)  # for diverged trials
        return worst if found is None else found


def _new_study(seed: int, startup: int, sign: int) -> optuna.Study:
    try:
        import optuna
    except ImportError as error:
        raise FaircilError(
            f"strategy 'optuna' needs the optuna package ({error}): pip install optuna, "
            "or use `strategy='random'`"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
    other: Literal["maximize", "minimize"] = "maximize" if sign > 0 else "minimize"
    return optuna.create_study(sampler=sampler, directions=["maximize", other])


class Strategy(Protocol):
    """Proposes configurations, round by round."""

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return what to try next, given all trials so far; an empty list ends the search."""


class OneByOne:
    """One setting after another, with the best values so far of the others, as in the paper.

    It starts with the shipped settings, and stops when the budget is used up.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._left = list(problem.space)

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return the values of the next setting that were not tried yet."""
        tried = {trial.overrides for trial in history}
        room = self._problem.request.budget - len(history)
        best = best_of(history)
        base = self._problem.usual if best is None else best.overrides
        while self._left and room > 0:
            axis = self._left.pop(0)
            new = [point for point in _along(axis, base) if point not in tried]
            if new:
                return new[:room]
        return []


class AtRandom:
    """As many as the budget allows, drawn from all combinations without replacement.

    The draw depends only on the first seed and on the number of values of each setting: methods
    with the same search space try the same configurations. The shipped settings have no advantage.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return all drawn configurations at once."""
        space, request = self._problem.space, self._problem.request
        if history:
            return []
        if size(space) <= request.budget:
            return list(combinations(space))
        generator = np.random.default_rng([request.seeds[0], 17])
        # One after another: a larger budget starts with the draws of a smaller one.
        drawn: dict[int, None] = {}
        while len(drawn) < request.budget:
            drawn[int(generator.integers(size(space)))] = None
        return [combination(space, index) for index in drawn]


class AllCombinations:
    """All combinations; raises an error if the budget is smaller."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        total, budget = size(problem.space), problem.request.budget
        if total > budget:
            raise UsageError(
                f"the grid of {problem.config.label} has {total:,} configurations, more than the "
                f"budget of {budget}; raise it with `budget={total}`, draw from the grid with "
                "`strategy='random'`, or try fewer values with `tried`"
            )

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return all combinations at once."""
        return [] if history else list(combinations(self._problem.space))


def _along(axis: Axis, base: Overrides) -> list[Overrides]:
    """Return ``base`` with each value of a setting."""
    own = f"{axis.name}="
    return [
        tuple(override if text.startswith(own) else text for text in base)
        for override in axis.overrides
    ]


STRATEGIES: dict[str, Callable[[Problem], Strategy]] = {
    "random": AtRandom,
    "sequential": OneByOne,
    "grid": AllCombinations,
    "optuna": OptunaSearch,
}


@dataclass
class Search:
    """Trials of a request so far; ``broken`` is the reason if one of them failed."""

    problem: Problem
    strategy: Strategy
    trials: list[Trial] = field(default_factory=list)
    broken: str | None = None

    def next(self) -> list[Overrides]:
        """Return what to try next; an empty list ends the search."""
        return [] if self.broken else self.strategy.propose(self.trials)

    def works(self, point: Overrides) -> list[Work]:
        """Return the runs of a trial, one for each seed."""
        request = self.problem.request
        return [Work(request.config(point), seed) for seed in request.seeds]

    def take(self, point: Overrides, outcomes: Sequence[Outcome]) -> None:
        """Record a trial.

        A diverged trial has lost. A trial that is missing for any other reason might have won, so
        no choice can be made without it.
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
        """Report that the target is missed, and by how much."""
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
    """Choose settings for all requests; raise an error if this fails for some.

    Parameters
    ----------
    requests : sequence of TuneRequest
    finish : callable
        Executes runs, see :func:`faircil.sweep.sweep.finish`. All trials of a round are one call.
    """
    found = tune_each(requests, finish)
    raise_all([one.problem for one in found if isinstance(one, NotTuned)], FaircilError)
    return [one for one in found if isinstance(one, Tuned)]


def tune_each(requests: Sequence[TuneRequest], finish: Finish) -> list[Tuned | NotTuned]:
    """Choose settings for all requests; failures are returned, and the others continue.

    Mistakes in a request raise an error before any run.
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
    """Prepare the searches; raise an error with all mistakes, including the caller's."""
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
    assert problem is not None  # otherwise there was a mistake
    return Search(problem, STRATEGIES[request.strategy](problem))
