"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faircil.weighting.groups import Floats
from faircil.weighting.program import Dual, WeightProgram

PROOF = 1e-9  # distance to the bound, relative to 1 + |objective|, that counts as proof


@dataclass(frozen=True)
class Solution:
    """Weights with their certificate.

    Parameters
    ----------
    weights : ndarray of float64, shape (n,)
        In [0, 1].
    objective : float
        Exact value of the program's objective at ``weights``.
    bound : float
        Lower bound of the optimum that ``dual`` proves; ``objective − bound`` is the certificate.
    status : str
        How the solver ended, in words.
    seconds : float
        Wall time.
    dual : Dual
        Prices of the gaps and of the floors.
    passes : int or None
        How often all columns were read, where the solver counts that.
    """

    weights: Floats
    objective: float
    bound: float
    status: str
    seconds: float
    dual: Dual
    passes: int | None = None

    @property
    def gap(self) -> float:
        """How far the weights can be from the optimum, at most."""
        return self.objective - self.bound


def certify(
    program: WeightProgram, weights: Floats, dual: Dual, status: str, seconds: float
) -> Solution:
    """Put weights, clipped into [0, 1], together with the bound that the dual proves."""
    weights = np.clip(weights, 0.0, 1.0)
    objective, bound = program.objective(weights), program.bound(dual)
    return Solution(weights, objective, bound, status, seconds, dual)
