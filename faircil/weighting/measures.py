"""Fairness measures as data: a matrix D such that the disparity is ``‖D ℓ‖₁`` for group losses ℓ.

A measure is a function from :class:`~faircil.weighting.groups.Groups` to D, of shape (rows,
groups). A new measure is such a function, passed directly or registered under a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from faircil.errors import DataError
from faircil.registry import Loaded, Registry, summary_of

if TYPE_CHECKING:
    from faircil.weighting.groups import Floats, Groups

MeasureFunction: TypeAlias = "Callable[[Groups], Floats]"


@dataclass(frozen=True)
class Measure:
    """A fairness measure of group losses.

    Parameters
    ----------
    matrix : callable
        Maps :class:`~faircil.weighting.groups.Groups` to D, of shape (rows, groups).
    by_attribute : bool
        Whether groups are pairs of class and attribute value; otherwise they are classes.
    needs_seen : bool
        Whether it needs the number of samples seen in each group.
    summary : str
        One-line description.
    metric : str or None
        The corresponding disparity of predictions, which ``faircil tune`` minimises; None: ``eo``
        if groups have an attribute, else ``eer``.
    shown_as : str or None
        The metric that progress and figures show; None: the same.
    """

    matrix: Loaded[MeasureFunction] = Loaded()
    by_attribute: bool = True
    needs_seen: bool = False
    summary: str = ""
    metric: str | None = None
    shown_as: str | None = None

    @property
    def disparity(self) -> str:
        """Name of the corresponding metric."""
        return self.metric or ("eo" if self.by_attribute else "eer")

    @property
    def shown(self) -> str:
        """Name of the metric that progress and figures show."""
        return self.shown_as or self.disparity

    def __call__(self, groups: Groups) -> Floats:
        """Return D, of shape (rows, groups)."""
        return self.matrix(groups)


def as_measure(piece: Any) -> Measure:
    """Build a registry row from a function: groups by attribute, its docstring as summary."""
    if isinstance(piece, Measure):
        return piece
    if not callable(piece):
        raise TypeError(f"expected a Measure or a function of the groups, got {piece!r}")
    return Measure(piece, summary=summary_of(piece))


def equal_error_rate(groups: Groups) -> Floats:
    """Compare each class loss with the mean over classes: ``(I − 11ᵀ/n)/n``."""
    n = len(groups)
    matrix: Floats = (np.eye(n) - 1 / n) / n
    return matrix


def equalized_odds(groups: Groups) -> Floats:
    """Compare each group's loss with the mean over the groups of its class; divide by N groups."""
    same_class = groups.label[:, None] == groups.label[None, :]
    matrix: Floats = np.eye(len(groups)) - same_class / same_class.sum(axis=1)
    return matrix / len(groups)


def demographic_parity(groups: Groups) -> Floats:
    """Equalized odds of losses scaled by ``s_yz = m_yz / m_*z``, counted over all data seen."""
    if groups.seen is None or groups.seen_with_attribute is None:
        raise DataError(
            "measure 'dp' needs the counts of samples seen so far: pass seen={(y, z): count}"
        )
    return equalized_odds(groups) * (groups.seen / groups.seen_with_attribute)


_BUILT_IN = {
    "eer": Measure(
        equal_error_rate, by_attribute=False, summary="equal error rate: compares classes"
    ),
    "eo": Measure(
        equalized_odds,
        summary="equalized odds: compares attribute values within each class",
        shown_as="eo_gap",
    ),
    "dp": Measure(
        demographic_parity,
        needs_seen=True,
        summary="demographic parity: compares prediction rates between attribute values",
        metric="dp",
    ),
}
MEASURES: Registry[Measure] = Registry("measure", "faircil.measures", as_measure, _BUILT_IN)


def find_measure(measure: str | Measure | MeasureFunction) -> Measure:
    """Look up a measure by name; accept a Measure or a function."""
    return MEASURES.find(measure) if isinstance(measure, str) else as_measure(measure)


def disparity_matrix(measure: Measure, groups: Groups) -> Floats:
    """Evaluate a measure; return D with parallel rows merged and zero rows removed.

    ``|c·dᵀℓ| + |dᵀℓ| = (|c| + 1)·|dᵀℓ|``, so rows that differ by a factor are merged. With two
    attribute values this halves the rows of ``eo`` and ``dp``.

    Returns
    -------
    ndarray of float64, shape (rows, G)
    """
    matrix = np.asarray(measure.matrix(groups), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != len(groups) or not np.isfinite(matrix).all():
        raise DataError(
            f"the measure gave an array of shape {matrix.shape} for {len(groups)} groups; "
            "expected finite numbers of shape (rows, groups)"
        )
    norms = np.linalg.norm(matrix, axis=1)
    kept = norms > 1e-12 * max(1.0, norms.max(initial=0.0))
    directions: Floats = matrix[kept] / norms[kept, None]
    if not len(directions):
        return directions
    first_entry = (np.abs(directions) > 1e-9).argmax(axis=1)[:, None]
    directions *= np.sign(np.take_along_axis(directions, first_entry, axis=1))
    # Rounding merges rows that differ only in the last bits; the first one is the direction.
    _, first, merged = np.unique(
        directions.round(10), axis=0, return_index=True, return_inverse=True
    )
    lengths = np.zeros(len(first))
    np.add.at(lengths, merged.reshape(-1), norms[kept])
    return directions[first] * lengths[:, None]
