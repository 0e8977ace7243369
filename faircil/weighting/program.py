"""The weighting program: its arrays, how they are made, and what a solver returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from faircil.errors import DataError, raise_all

if TYPE_CHECKING:  # torch is not needed to list solvers
    from faircil.weighting.groups import Floats, Groups

PROOF = 1e-9  # distance to the bound, relative to 1 + |objective|, that counts as proof


@dataclass(frozen=True)
class Dual:
    """A price for each row: ``gap`` (K,) in [−1, 1], ``floor`` (m,) ≥ 0."""

    gap: Floats
    floor: Floats


@dataclass(frozen=True)
class WeightProgram:
    """The arrays of the program, float64: K gap rows, m floor rows, n variables.

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
            if not _all_finite(array):
                mistakes.append(f"{name} has NaN or infinite entries")
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
        """Offsets of the dual, (K + m,): of the gaps, then of the floors negated."""
        return np.concatenate([self.gap_offsets, -self.floor_offsets])

    def stacked(self) -> Floats:
        """Copy the arrays into one, (K + m + 1, n): gap rows, floor rows negated, cost."""
        return np.vstack([self.gap_rows, -self.floor_rows, self.cost])

    def objective(self, weights: Floats) -> float:
        """Value of the objective at ``weights``, shape (n,)."""
        gaps = self.gap_offsets - self.gap_rows @ weights
        return float(np.abs(gaps).sum() + self.cost @ weights)

    def violation(self, weights: Floats) -> float:
        """Largest amount by which ``weights`` break a floor; 0 if they keep all of them."""
        return float(np.max(self.floor_rows @ weights - self.floor_offsets, initial=0.0))

    def reduced_cost(self, dual: Dual) -> Floats:
        """Price of raising each weight, (n,): ``cost − yᵀR + μᵀF``, in one pass over the arrays."""
        return self.cost - dual.gap @ self.gap_rows + dual.floor @ self.floor_rows

    def bound(self, dual: Dual) -> float:
        """Lower bound of the optimum that a dual vector proves.

        For ``|y_k| ≤ 1`` and ``μ ≥ 0`` every feasible w has ``|o − Rw| ≥ y·(o − Rw)`` and
        ``μ·(Fw − f) ≤ 0``, so the optimum is at least
        ``y·o − μ·f + Σ_i min(0, cost − yᵀR + μᵀF)_i``. Duals outside these limits are clipped
        into them, so the bound holds whatever comes in.
        """
        inside = Dual(np.clip(dual.gap, -1, 1), np.maximum(dual.floor, 0))
        fixed = inside.gap @ self.gap_offsets - inside.floor @ self.floor_offsets
        return float(fixed + np.minimum(self.reduced_cost(inside), 0).sum())

    def columns(self, chosen: NDArray[np.intp], scale: float = 1.0) -> WeightProgram:
        """Return the program of some columns, each standing for ``scale`` of its kind."""
        return WeightProgram(
            self.gap_rows[:, chosen] * scale,
            self.gap_offsets,
            self.cost[chosen] * scale,
            self.floor_rows[:, chosen] * scale,
            self.floor_offsets,
        )

    def without(self, weights: Floats) -> WeightProgram:
        """Return the program of what is left to add to ``weights``, (n,); a constant drops out."""
        return replace(
            self,
            gap_offsets=self.gap_offsets - self.gap_rows @ weights,
            floor_offsets=self.floor_offsets - self.floor_rows @ weights,
        )


def _all_finite(array: Floats) -> bool:
    # A sum is finite only if all entries are; only a sum that is not needs a closer look.
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(array.sum())) or bool(np.isfinite(array).all())


@dataclass(frozen=True)
class Formulation:
    """A program and what it takes to read its solution.

    Parameters
    ----------
    program : WeightProgram
    constant : float
        What the program leaves out: ``objective + constant`` is the value of the method's formula.
    """

    program: WeightProgram
    constant: float


def program_rows(disparity: Floats, groups: Groups) -> Floats:
    """Return what the program adds up over groups: the gaps, then the mean of each current class.

    Parameters
    ----------
    disparity : ndarray, shape (K, G)
        The measure's matrix D.
    groups : Groups
        G of them.

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
    """Write the program of the method.

    Parameters
    ----------
    alignment : ndarray, shape (G, n)
        Cosine of each variable's gradient with each group's.
    losses : ndarray, shape (G,)
        Mean loss of each group.
    groups : Groups
        G of them.
    disparity : ndarray, shape (K, G)
        The measure's matrix D.
    alpha, lam : float
        Step size of the prediction, and weight of the current classes' loss.
    floor : bool
        Whether the predicted loss of a current class must stay above zero.
    combined : bool
        Whether ``alignment`` is multiplied by :func:`program_rows` already.
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
