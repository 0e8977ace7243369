"""In which order configurations are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from faircil.errors import UsageError
from faircil.tuning.optuna_search import OptunaSearch
from faircil.tuning.problem import Problem, best_of
from faircil.tuning.request import Overrides, Trial
from faircil.tuning.space import Axis, combination, combinations, size


class Strategy(Protocol):
    """Proposes configurations, round by round."""

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return what to try next, given all trials so far; nothing when done."""


class Sequential:
    """One setting after another, the others at the best so far: the way of the paper.

    It begins with the shipped settings, and stops when the budget is used up.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._left = list(problem.space)

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return the values of the next setting that are not tried yet."""
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

    The draw depends on the first seed and on the number of values of each setting alone: methods
    with the same settings up for choice try the same ones. The shipped settings have no advantage.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return all of the draw at once."""
        space, request = self._problem.space, self._problem.request
        if history:
            return []
        if size(space) <= request.budget:
            return list(combinations(space))
        generator = np.random.default_rng([request.seeds[0], 17])
        # One after another: a larger budget begins with the draws of a smaller one.
        drawn: dict[int, None] = {}
        while len(drawn) < request.budget:
            drawn[int(generator.integers(size(space)))] = None
        return [combination(space, index) for index in drawn]


class Grid:
    """All combinations; an error if they are more than the budget."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        total, budget = size(problem.space), problem.request.budget
        if total > budget:
            raise UsageError(
                f"the grid of {problem.config.label} has {total:,} configurations, more than the "
                f"budget of {budget}; raise it (--budget {total}), draw from the grid (--strategy "
                "random), or try fewer values (--try)"
            )

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Return all of them at once."""
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
    "sequential": Sequential,
    "grid": Grid,
    "optuna": OptunaSearch,
}
