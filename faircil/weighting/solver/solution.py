"""What a solver returns."""

from __future__ import annotations

from dataclasses import dataclass

from faircil.weighting.groups import Floats
from faircil.weighting.program import Dual


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
    """

    weights: Floats
    objective: float
    bound: float
    status: str
    seconds: float
    dual: Dual

    @property
    def gap(self) -> float:
        """How far the weights can be from the optimum, at most."""
        return self.objective - self.bound
