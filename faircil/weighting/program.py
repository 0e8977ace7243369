"""The weighting program (a linear program), its formulation, and a solver's solution.

With predicted group losses ``ℓ̃(w) = ℓ − α A w`` (A: alignment, groups × samples) the method
minimises ``‖D ℓ̃(w)‖₁ + λ cᵀ ℓ̃(w)``, where c averages the groups of each current class and then
the current classes. In numbers only:

    minimise   Σ_k |gap_offsets − gap_rows w|_k + cost · w
    subject to floor_rows w ≤ floor_offsets,  0 ≤ w ≤ 1

with ``gap_rows = α D A``, ``gap_offsets = D ℓ``, ``cost = −λ α cᵀ A``; the constant ``λ cᵀ ℓ`` is
omitted. The floor keeps the predicted loss of every current class nonnegative.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from faircil.errors import DataError, raise_all

if TYPE_CHECKING:  # solvers can be listed without torch
    from faircil.weighting.groups import Floats, Groups

LARGEST = 1e100  # limit of a program's entries, so that sums of squares stay finite
PROOF = 1e-9  # gap to the bound, relative to 1 + |objective|, that counts as proof of optimality


@dataclass(frozen=True)
class Dual:
    """Dual variables (prices): ``gap`` (K,) in [−1, 1], ``floor`` (m,) ≥ 0."""

    gap: Floats
    floor: Floats


@dataclass(frozen=True)
class WeightProgram:
    """The arrays of the program in float64: K gap rows, m floor rows, n variables.

    Parameters
    ----------
    gap_rows : ndarray, shape (K, n)
    gap_offsets : ndarray, shape (K,)
    cost : ndarray, shape (n,)
    floor_rows : ndarray, shape (m, n)
    floor_offsets : ndarray, shape (m,)
    """

    gap_rows: Floats
    gap_offsets: Floats
    cost: Floats
    floor_rows: Floats
    floor_offsets: Floats

    def __post_init__(self) -> None:
        mistakes = []
        for name in ("gap_rows", "gap_offsets", "cost", "floor_rows", "floor_offsets"):
            array = np.asarray(getattr(self, name), dtype=np.float64, order="C")
            object.__setattr__(self, name, array)
            mistakes += _entry_mistakes(name, array)
        for name in ("gap_offsets", "cost", "floor_offsets"):
            if getattr(self, name).ndim != 1:
                mistakes.append(f"{name} has shape {getattr(self, name).shape}, expected one axis")
        for kind in ("gap", "floor"):
            rows, offsets = getattr(self, f"{kind}_rows"), getattr(self, f"{kind}_offsets")
            if rows.shape != (offsets.size, self.cost.size):
                mistakes.append(
                    f"{kind}_rows has shape {rows.shape}, expected "
                    f"({offsets.size}, {self.cost.size}): "
                    f"one row per entry of {kind}_offsets, one column per entry of cost"
                )
        raise_all(mistakes, DataError)

    def __len__(self) -> int:
        return len(self.cost)

    @property
    def offsets(self) -> Floats:
        """Offsets of the dual, (K + m,): those of the gaps, then those of the floors negated."""
        return np.concatenate([self.gap_offsets, -self.floor_offsets])

    def stacked(self) -> Floats:
        """Copy the arrays into one, (K + m + 1, n): gap rows, floor rows negated, cost."""
        return np.vstack([self.gap_rows, -self.floor_rows, self.cost])

    def objective(self, weights: Floats) -> float:
        """Return the objective at ``weights``, (n,)."""
        gaps = self.gap_offsets - self.gap_rows @ weights
        return float(np.abs(gaps).sum() + self.cost @ weights)

    def violation(self, weights: Floats) -> float:
        """Return the largest violation of a floor by ``weights``; 0 if they are feasible."""
        return float(np.max(self.floor_rows @ weights - self.floor_offsets, initial=0.0))

    def reduced_cost(self, dual: Dual) -> Floats:
        """Return the reduced costs, (n,): ``cost − yᵀR + μᵀF``, in one pass over the arrays."""
        return self.cost - dual.gap @ self.gap_rows + dual.floor @ self.floor_rows

    def bound(self, dual: Dual) -> float:
        """Return the lower bound of the optimum that a dual vector proves.

        For ``|y_k| ≤ 1`` and ``μ ≥ 0`` every feasible w has ``|o − Rw| ≥ y·(o − Rw)`` and
        ``μ·(Fw − f) ≤ 0``, so the optimum is at least
        ``y·o − μ·f + Σ_i min(0, cost − yᵀR + μᵀF)_i``. Duals outside these limits are clipped,
        so the bound holds for any input.
        """
        inside = Dual(np.clip(dual.gap, -1, 1), np.maximum(dual.floor, 0))
        fixed = inside.gap @ self.gap_offsets - inside.floor @ self.floor_offsets
        return float(fixed + np.minimum(self.reduced_cost(inside), 0).sum())

    def columns(self, chosen: NDArray[np.intp], scale: float = 1.0) -> WeightProgram:
        """Return the program of some columns, each of which represents ``scale`` equal columns."""
        return WeightProgram(
            self.gap_rows[:, chosen] * scale,
            self.gap_offsets,
            self.cost[chosen] * scale,
            self.floor_rows[:, chosen] * scale,
            self.floor_offsets,
        )

    def without(self, weights: Floats) -> WeightProgram:
        """Return the program of the increments to ``weights``, (n,), up to a constant."""
        return replace(
            self,
            gap_offsets=self.gap_offsets - self.gap_rows @ weights,
            floor_offsets=self.floor_offsets - self.floor_rows @ weights,
        )


def _entry_mistakes(name: str, array: Floats) -> list[str]:
    # A small sum of squares implies small entries; otherwise, each entry is checked.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.vdot(array, array) <= LARGEST**2:
            return []
    if not np.isfinite(array).all():
        return [f"{name} has NaN or infinite entries"]
    size = np.abs(array).max()
    if size <= LARGEST:
        return []
    return [
        f"{name} has entries up to {size:.1e}, expected at most {LARGEST:g}: products of larger "
        "ones are not finite; scale all arrays of the program"
    ]


@dataclass(frozen=True)
class Formulation:
    """A program, with the constant that its objective omits.

    Parameters
    ----------
    program : WeightProgram
    constant : float
        ``objective + constant`` is the objective of the method.
    """

    program: WeightProgram
    constant: float


def program_rows(disparity: Floats, groups: Groups) -> Floats:
    """Return the program's combinations of groups: gaps, then the mean of each current class.

    Parameters
    ----------
    disparity : ndarray, shape (K, G)
        The measure's matrix D.
    groups : Groups
        G groups.

    Returns
    -------
    ndarray, shape (K + current classes, G)
    """
    labels = np.unique(groups.label[groups.current])
    averages = np.zeros((len(labels), len(groups)))
    for row, label in enumerate(labels):
        members = groups.current & (groups.label == label)
        averages[row, members] = 1 / members.sum()
    return np.vstack([disparity, averages])


def formulate(
    alignment: Floats,
    losses: Floats,
    groups: Groups,
    disparity: Floats,
    *,
    alpha: float,
    lam: float,
    floor: bool = True,
    combined: bool = False,
) -> Formulation:
    """Formulate the program of the method.

    Parameters
    ----------
    alignment : ndarray, shape (G, n)
        Cosine of each variable's gradient with each group's.
    losses : ndarray, shape (G,)
        Mean loss of each group.
    groups : Groups
        G groups.
    disparity : ndarray, shape (K, G)
        The measure's matrix D.
    alpha, lam : float
        Step size α of the prediction, and weight λ of the current classes' loss.
    floor : bool
        Whether the predicted loss of a current class must not be negative.
    combined : bool
        Whether ``alignment`` is already multiplied by :func:`program_rows`.
    """
    # One product for all rows: D for the gaps, the class averages for cost and floor.
    rows = program_rows(disparity, groups)
    offsets, steps = rows @ losses, alpha * (alignment if combined else rows @ alignment)
    k = len(disparity)
    kept = len(rows) if floor else k
    program = WeightProgram(
        gap_rows=steps[:k],
        gap_offsets=offsets[:k],
        cost=-lam * steps[k:].mean(axis=0),
        floor_rows=steps[k:kept],
        floor_offsets=offsets[k:kept],
    )
    return Formulation(program, constant=lam * float(offsets[k:].mean()))


@dataclass(frozen=True)
class Solution:
    """Weights with a certificate of optimality.

    Parameters
    ----------
    weights : ndarray of float64, shape (n,)
        In [0, 1].
    objective : float
        Exact value of the program's objective at ``weights``.
    bound : float
        Lower bound of the optimum that ``dual`` proves; ``objective − bound`` is the certificate.
    status : str
        Status of the solver, as text.
    seconds : float
        Wall time.
    dual : Dual
        Dual variables of the gaps and floors.
    passes : int or None
        Number of passes over all columns, if the solver counts them.
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
        """Upper bound of the distance from the optimum."""
        return self.objective - self.bound


def certify(
    program: WeightProgram, weights: Floats, dual: Dual, status: str, seconds: float
) -> Solution:
    """Build a solution from weights, clipped to [0, 1], and the bound that the dual proves."""
    weights = np.clip(weights, 0.0, 1.0)
    objective, bound = program.objective(weights), program.bound(dual)
    return Solution(weights, objective, bound, status, seconds, dual)
