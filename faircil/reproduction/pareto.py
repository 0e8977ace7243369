"""Which points of accuracy and disparity are beaten by others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]


def dominated(points: Points, others: Points) -> NDArray[np.bool_]:
    """Return which points some other beats in both.

    Parameters
    ----------
    points : ndarray, shape (n, 2)
        Accuracy and disparity.
    others : ndarray, shape (m, 2)

    Returns
    -------
    ndarray of bool, shape (n,)
        True where another has the higher accuracy and the lower disparity.
    """
    better = (others[None, :, 0] > points[:, None, 0]) & (others[None, :, 1] < points[:, None, 1])
    return np.asarray(better.any(axis=1))


def front(points: Points) -> Points:
    """Return the points that none of the others beats in both, by accuracy."""
    kept = points[~dominated(points, points)]
    return kept[np.argsort(kept[:, 0], kind="stable")]
