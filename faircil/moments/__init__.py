"""Fair learning from moments: what a group adds to a ridge solution are sums, and sums add up.

:mod:`~faircil.moments.features` maps inputs to fixed features,
:mod:`~faircil.moments.group_moments` sums them for each group and :mod:`~faircil.moments.sketch`
does so in less memory, :mod:`~faircil.moments.ridge` gives the solution for any group weights with
the loss of every group, and probabilities, :mod:`~faircil.moments.criterion` says what the weights
minimise, and :mod:`~faircil.moments.evening` chooses them.
:mod:`~faircil.moments.seen_rows` knows which rows may be removed, and
:mod:`~faircil.moments.small_cells` keeps sums from being those of very few people.
:mod:`~faircil.moments.classifiers` makes other classifiers of the same sums, for comparison. Here
is what a run keeps of it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)  # a run keeps one of each group after each task
class GroupChange:
    """What the weights of a one-pass method did to a group.

    Parameters
    ----------
    label : int
        Class.
    attribute : tuple of int
        Attribute values; empty if groups are classes. A negative one is unknown.
    samples : int
        Seen so far; those that have decayed by what they still count, rounded.
    weight : float
        By the weight that it would have if all groups of a class counted equally.
    before, after : float
        Its loss with equal weights, and with the chosen ones.
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
    """What more evenness would cost.

    Parameters
    ----------
    largest : bool
        Whether the disparity is the largest loss of a group.
    mean, disparity : float
        Mean loss, and disparity of the losses, with the chosen weights.
    counted : float
        The part of the disparity beyond what does not count, being uncertain.
    lam : float
        A smaller weight of the mean loss.
    mean_then, disparity_then : float
        With the weights chosen for it.
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
    """What a one-pass method chose after a task.

    Parameters
    ----------
    objective, promise : float
        What was minimised, and what further search could gain, to first order.
    bound : float or None
        What any other head of no larger norm could gain at most; see
        :func:`faircil.moments.evening.proven_bound`. After the last task, where weights are chosen;
        else None.
    solved : int
        Number of solutions computed to choose the weights.
    ridge, temperature : float
        Chosen penalty, and divisor of the scores for probabilities.
    groups : tuple of GroupChange
        Empty if it has no weights.
    notes : tuple of str
        What the user should know.
    summing, solving : float
        Seconds.
    price : Price or None
        After the last task, where weights were chosen; else None.
    chance : float or None
        Probability of differences between the groups as large as those with equal weights, if their
        true losses were even; None where no weights are chosen for such differences.
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
