"""Fair learning from moments: a group's contribution to a ridge solution is a sum, and sums add up.

:mod:`~faircil.moments.features` maps inputs to fixed features.
:mod:`~faircil.moments.group_moments` sums them by group, and :mod:`~faircil.moments.sketch` does so
in less memory. :mod:`~faircil.moments.ridge` computes the solution for any group weights, with the
loss of each group, and probabilities. :mod:`~faircil.moments.criterion` defines what the weights
minimise, and :mod:`~faircil.moments.evening` chooses them. :mod:`~faircil.moments.seen_rows` knows
which rows may be removed, and :mod:`~faircil.moments.small_cells` keeps sums from disclosing very
few people. :mod:`~faircil.moments.classifiers` builds other classifiers from the same sums, for
comparison. This module defines the records that a run stores.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)  # a run keeps one per group and task
class GroupChange:
    """The effect of a one-pass method's weights on a group.

    Parameters
    ----------
    label : int
        Class.
    attribute : tuple of int
        Attribute values; empty if groups are classes. Negative values are unknown.
    samples : int
        Number seen so far; with decay, the sum of their decayed counts, rounded.
    weight : float
        Weight relative to the one with all groups of a class weighted equally.
    before, after : float
        Its loss with equal weights, and with the chosen weights.
    error : float
        Standard error of ``after``.
    """

    label: int
    attribute: tuple[int, ...]
    samples: int
    weight: float
    before: float
    after: float
    error: float


@dataclass(frozen=True)
class Price:
    """The cost of a smaller disparity.

    Parameters
    ----------
    largest : bool
        Whether the disparity is the largest loss of a group.
    mean, disparity : float
        Mean loss, and disparity of losses, with the chosen weights.
    counted : float
        The part of the disparity beyond statistical uncertainty.
    lam : float
        A smaller weight of the mean loss.
    mean_then, disparity_then : float
        Mean loss and disparity with the weights chosen for that ``lam``.
    """

    largest: bool
    mean: float
    disparity: float
    counted: float
    lam: float
    mean_then: float
    disparity_then: float


@dataclass(frozen=True)
class PassRecord:
    """The choices of a one-pass method after a task.

    Parameters
    ----------
    objective, promise : float
        The minimised value, and its possible gain by further search, to first order.
    bound : float or None
        Maximum gain of any other head of no larger norm; see
        :func:`faircil.moments.evening.proven_bound`. Only after the last task, if weights are
        chosen; else None.
    solved : int
        Number of solutions computed to choose the weights.
    ridge, temperature : float
        Chosen penalty, and the divisor of scores for probabilities.
    groups : tuple of GroupChange
        Empty if the method has no weights.
    notes : tuple of str
        Notes for the user.
    summing, solving : float
        Seconds spent on summing and on solving.
    price : Price or None
        Only after the last task, if weights were chosen; else None.
    chance : float or None
        Probability of differences between groups as large as those with equal weights if their true
        losses were equal; None if weights are not chosen for such differences.
    """

    objective: float
    promise: float
    solved: int
    ridge: float
    temperature: float
    groups: tuple[GroupChange, ...]
    notes: tuple[str, ...] = ()
    summing: float = 0.0
    solving: float = 0.0
    bound: float | None = None
    price: Price | None = None
    chance: float | None = None
