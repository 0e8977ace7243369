"""How evenly a model treats the values of a sensitive attribute.

Every function returns None where nothing can be compared, never 0: 0 means measured and equal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from faircil.metrics.counts import Counts, Floats, count, deviations


def eo(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return equalized odds: the mean over groups (y, z) of ``|a_{y,z} − a_y|``.

    a_y is the mean of a_{y,z} over the values z present with class y. A class with only one value
    present takes no part; if every class is such, or there is no attribute, the result is None.

    Parameters
    ----------
    y_true, y_pred : array of int, shape (n,)
        True and predicted classes.
    sensitive : array of int, shape (n,), or None
        Attribute value of each sample.
    """
    return eo_of(count(y_true, y_pred, sensitive=sensitive))


def eo_gap(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return the mean over classes of max_z a_{y,z} − min_z a_{y,z}.

    Exactly 2 · :func:`eo` for two attribute values. For the classes 0 and 1, with every group
    present, it is fairlearn's ``equalized_odds_difference(..., agg="mean")`` for any number of
    values: a_{1,z} is the true positive rate and a_{0,z} is 1 − the false positive rate.
    None as for :func:`eo`.
    """
    return eo_gap_of(count(y_true, y_pred, sensitive=sensitive))


def dp(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return demographic parity: the mean over y and z of ``|P(ŷ=y | z) − P(ŷ=y)|``.

    The classes y are those of ``y_true``; a prediction of another class counts in the number of
    samples only. None with fewer than two attribute values.

    Notes
    -----
    With two values p = (n_0 p_0 + n_1 p_1)/n lies between p_0 and p_1: ``|p_0 − p| + |p_1 − p|`` is
    ``|p_0 − p_1|`` whatever the sizes n_z. If all predictions are one of two seen classes, both
    classes give the same difference: fairlearn's ``demographic_parity_difference`` is 2 · ``dp``.
    """
    return dp_of(count(y_true, y_pred, sensitive=sensitive))


def dp_predicted(y_true: ArrayLike, y_pred: ArrayLike, sensitive: ArrayLike | None) -> float | None:
    """Return :func:`dp` with the mean over the classes predicted at least once, seen or not."""
    return dp_predicted_of(count(y_true, y_pred, sensitive=sensitive))


def eo_of(counts: Counts) -> float | None:
    """See :func:`eo`."""
    rates = _comparable(counts)
    if not len(rates):
        return None
    # Summed by class first: the two deviations of a class with two values add up to its gap
    # without rounding, which keeps eo_gap = 2 eo exact.
    per_class = np.nansum(deviations(rates), axis=1)
    return float(per_class.sum() / np.isfinite(rates).sum())


def eo_gap_of(counts: Counts) -> float | None:
    """See :func:`eo_gap`."""
    rates = _comparable(counts)
    if not len(rates):
        return None
    return float((np.nanmax(rates, axis=1) - np.nanmin(rates, axis=1)).mean())


def dp_of(counts: Counts) -> float | None:
    """See :func:`dp`."""
    return None if len(counts.attributes) < 2 else _parity(counts, counts.seen)


def dp_predicted_of(counts: Counts) -> float | None:
    """See :func:`dp_predicted`."""
    chosen = counts.predicted.sum(axis=1) > 0
    return None if len(counts.attributes) < 2 else _parity(counts, chosen)


def _comparable(counts: Counts) -> Floats:
    """Group accuracies of the classes with two or more values present, NaN for absent groups."""
    compared: NDArray[np.bool_] = (counts.samples > 0).sum(axis=1) > 1
    return counts.group_accuracies[compared]


def _parity(counts: Counts, classes: NDArray[np.bool_]) -> float:
    per_value = counts.samples.sum(axis=0)
    given_value = counts.predicted / per_value
    overall = counts.predicted.sum(axis=1, keepdims=True) / per_value.sum()
    return float(np.abs(given_value - overall)[classes].mean())
