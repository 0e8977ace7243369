"""Search by Optuna for the trade-off between accuracy and disparity; needs ``faircil[tune]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from faircil.errors import FaircilError
from faircil.tuning.problem import Problem
from faircil.tuning.request import Overrides, Trial
from faircil.tuning.space import combination, combinations, size

if TYPE_CHECKING:
    import optuna

ROUNDS = (
    3  # in which the budget is used: each learns from those before, within each all run at once
)
PATIENCE = 10  # suggestions of what was tried already, before the next is drawn instead
WORST = (0.0, 1.0)  # accuracy and disparity of a run that diverged


class OptunaSearch:
    """Tree-structured Parzen estimators with two aims: accuracy up, disparity down.

    Nothing is tried twice: where the sampler insists on what was tried, an untried configuration is
    drawn at random. A space that is no larger than the budget is tried as a whole.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._batch = -(-problem.request.budget // ROUNDS)
        seed = problem.request.seeds[0]
        self._generator = np.random.default_rng([seed, 18])
        self._study = _new_study(seed, self._batch)
        self._asked: dict[Overrides, optuna.Trial] = {}
        self._told = 0

    def propose(self, history: Sequence[Trial]) -> list[Overrides]:
        """Tell the sampler what came out, and ask for as many as make up a round."""
        space, budget = self._problem.space, self._problem.request.budget
        if size(space) <= budget:
            return [] if history else list(combinations(space))
        for trial in history[self._told :]:
            self._study.tell(self._asked[trial.overrides], self._values(trial))
        self._told = len(history)
        return [self._next() for _ in range(min(self._batch, budget - len(history)))]

    def _next(self) -> Overrides:
        """Ask until something new comes."""
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
        return WORST if found is None else found


def _new_study(seed: int, startup: int) -> optuna.Study:
    try:
        import optuna
    except ImportError as error:
        raise FaircilError(
            f"strategy 'optuna' needs the optuna package ({error}): pip install 'faircil[tune]', "
            "or use --strategy random"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
    return optuna.create_study(sampler=sampler, directions=["maximize", "minimize"])
