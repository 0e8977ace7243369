"""A request under way: its trials, and what is chosen from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from faircil.sweep.work import Outcome, Work
from faircil.tuning.problem import Problem, best_of
from faircil.tuning.request import NotTuned, Overrides, Trial, Tuned
from faircil.tuning.space import size
from faircil.tuning.strategies import Strategy


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
        """Note a trial.

        One that diverged has lost. One that is missing for any other reason might have won, so
        that nothing can be chosen without it.
        """
        objective = self.problem.objective
        runs = tuple(outcome.run for outcome in outcomes if outcome.run is not None)
        problem = next((o.problem or "no run" for o in outcomes if o.run is None), None)
        diverged = any(outcome.diverged for outcome in outcomes)
        score = None
        if problem is None:
            values = objective.values(runs)
            if values is None:
                problem = f"{objective.disparity} cannot be told on this data"
            else:
                score = objective.score(*values)
        if problem is not None and not diverged:
            self.broken = self.broken or problem
        self.trials.append(Trial(point, runs, score, problem, diverged))

    def result(self) -> Tuned | NotTuned:
        """Choose the best, if it will do."""
        request, trials = self.problem.request, tuple(self.trials)
        best = best_of(trials)
        if best is None or self.broken or not self.problem.objective.is_met(best.score or 0.0):
            why = f"{self.problem.config.label} on {request.data}: {self._failure(best)}"
            return NotTuned(request, trials, why)
        return Tuned(request, trials, best)

    def _failure(self, best: Trial | None) -> str:
        objective, tried = self.problem.objective, len(self.trials)
        if self.broken:
            missing = sum(t.problem is not None and not t.diverged for t in self.trials)
            return (
                f"nothing is chosen, since {missing} of {tried} trials are missing: {self.broken}"
            )
        if best is None:
            return (
                f"all {tried} trials diverged; try other values, e.g. smaller learning rates "
                "(--try lr=0.0001,0.001)"
            )
        accuracy, disparity = objective.values(best.runs) or (0.0, 0.0)
        return (
            f"none of {tried} configurations, of {size(self.problem.space):,} in all, meets "
            f"{objective.disparity} <= {objective.bound:g}; "
            f"{objective.shortfall(accuracy, disparity)} ({' '.join(best.overrides)}). Allow that "
            "much, or try more (--budget) or other values (--try)"
        )
