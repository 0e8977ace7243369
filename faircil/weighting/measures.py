"""Fairness measures as data: a matrix D such that the disparity is ``‖D ℓ‖₁`` for group losses ℓ.

A measure is a function from :class:`~faircil.weighting.groups.Groups` to D, of shape (rows,
groups). A new measure is such a function, passed directly or registered under a name. Fields of
:class:`Measure` select two variants: the largest entry of ``D ℓ`` instead of the sum of absolute
values, and a comparison within the favoured classes only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from faircil.errors import DataError, UsageError
from faircil.registry import Loaded, Registry, summary_of

if TYPE_CHECKING:
    from faircil.weighting.groups import Floats, Groups

MeasureFunction: TypeAlias = "Callable[[Groups], Floats]"
Combine = Literal["sum", "largest"]
LARGEST = 1e100  # entry of a measure, as of a program: sums of squares stay finite


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
        The corresponding metric of predictions, which ``faircil tune`` improves; None: ``eo`` if
        groups are by attribute, else ``eer``.
    shown_as : str or None
        The metric shown by progress and figures; None: that of ``metric``.
    combine : {"sum", "largest"}
        How rows are combined: ``‖D ℓ‖₁``, or the largest entry of ``D ℓ``. The program of sample
        weights supports only the sum.
    needs_favoured : bool
        Whether it compares only groups of the favoured classes, which :meth:`favouring` sets.
    favoured : tuple of int, or None
        The favoured classes; None: not set.
    """

    matrix: Loaded[MeasureFunction] = Loaded()
    by_attribute: bool = True
    needs_seen: bool = False
    summary: str = ""
    metric: str | None = None
    shown_as: str | None = None
    combine: Combine = "sum"
    needs_favoured: bool = False
    favoured: tuple[int, ...] | None = None

    @property
    def disparity(self) -> str:
        """Name of the corresponding metric."""
        return self.metric or ("eo" if self.by_attribute else "eer")

    @property
    def shown(self) -> str:
        """Name of the metric shown by progress and figures."""
        return self.shown_as or self.disparity

    @property
    def needs_attribute(self) -> bool:
        """Whether it needs a sensitive attribute; the worst group is a class if there is none."""
        return self.by_attribute and self.combine == "sum"

    def packed(self) -> dict[str, Any]:
        """Return the name and the favoured classes as a JSON document."""
        usual = replace(self, favoured=None)
        name = next((name for name, row in MEASURES.items() if row == usual), None)
        if name is None:
            raise UsageError(
                "a measure that is not registered cannot be saved; register it with "
                "`faircil.register('measure', name, measure)`"
            )
        return {"name": name, "favoured": self.favoured}

    @classmethod
    def from_packed(cls, document: Mapping[str, Any]) -> Measure:
        """Return the measure described by :meth:`packed`."""
        measure = find_measure(document["name"])
        favoured = document["favoured"]
        return measure if favoured is None else measure.favouring(favoured)

    def favouring(self, classes: Collection[int]) -> Measure:
        """Return the measure with these favoured classes."""
        if not self.needs_favoured:
            raise UsageError("this measure compares all classes; leave out the favoured ones")
        return replace(self, favoured=tuple(sorted(set(classes))))

    def __call__(self, groups: Groups) -> Floats:
        """Return D, of shape (rows, groups); groups of other classes have columns of 0."""
        if not self.needs_favoured:
            return self.matrix(groups)
        if self.favoured is None:
            raise UsageError(
                "this measure compares groups of the favoured classes alone, and none are given; "
                "give them with `measure.favouring([...])`"
            )
        compared = np.isin(groups.label, self.favoured)
        part = np.asarray(self.matrix(groups.take(compared)), dtype=np.float64)
        whole = np.zeros((len(part), len(groups)))
        whole[:, compared] = part
        return whole


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
    matrix: Floats = (np.eye(n) - 1 / max(n, 1)) / max(n, 1)
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


def each_group(groups: Groups) -> Floats:
    """Take the loss of each group as it is: the identity."""
    return np.eye(len(groups))


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
    "eopp": Measure(
        equalized_odds,
        summary="equal opportunity: equalized odds within the favoured classes alone",
        metric="eopp",
        shown_as="eopp_gap",
        needs_favoured=True,
    ),
    "worst": Measure(
        each_group,
        summary="worst group: the largest loss of a group (class and attribute value)",
        metric="worst_group",
        combine="largest",
    ),
}
MEASURES: Registry[Measure] = Registry("measure", "faircil.measures", as_measure, _BUILT_IN)


def find_measure(measure: str | Measure | MeasureFunction) -> Measure:
    """Look up a measure by name; accept a Measure or a function."""
    return MEASURES.find(measure) if isinstance(measure, str) else as_measure(measure)


def disparity_matrix(measure: Measure, groups: Groups) -> Floats:
    """Evaluate a measure; return D with parallel rows merged and zero rows removed.

    ``|c·dᵀℓ| + |dᵀℓ| = (|c| + 1)·|dᵀℓ|``, so rows that differ by a factor are merged. With two
    values, this halves the rows of ``eo`` and ``dp``. If the largest row counts, rows are kept as
    they are.

    Returns
    -------
    ndarray of float64, shape (rows, G)
    """
    matrix = np.asarray(measure(groups), dtype=np.float64)
    fits = matrix.ndim == 2 and matrix.shape[1] == len(groups)
    if not (fits and (np.abs(matrix) <= LARGEST).all()):  # also rejects NaN
        raise DataError(
            f"the measure gave an array of shape {matrix.shape} for {len(groups)} groups; "
            f"expected finite numbers of shape (rows, groups), up to {LARGEST:g}"
        )
    if measure.combine == "largest":
        return matrix
    norms = np.linalg.norm(matrix, axis=1)
    kept = norms > 1e-12 * max(1.0, norms.max(initial=0.0))
    directions: Floats = matrix[kept] / norms[kept, None]
    if not len(directions):
        return directions
    first_entry = (np.abs(directions) > 1e-9).argmax(axis=1)[:, None]
    directions *= np.sign(np.take_along_axis(directions, first_entry, axis=1))
    # Rounding merges rows that differ only in the last bits; the first one gives the direction.
    _, first, merged = np.unique(
        directions.round(10), axis=0, return_index=True, return_inverse=True
    )
    lengths = np.zeros(len(first))
    np.add.at(lengths, merged.reshape(-1), norms[kept])
    return directions[first] * lengths[:, None]
