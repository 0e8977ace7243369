"""Small cells, whose sums could reveal people: they are pooled before summing, or get noise.

The sums of a cell with one row are that row. Also, two versions of a model differ by the rows added
in between: a single new row in a large cell is the difference of its sums. So a minimum size K
applies to what is added at once. In each class, new rows of groups with fewer than K new rows

- count as rows of an unknown group, if together they are at least K,
- else are added to the largest group of their class, where they are a small fraction,
- or are left out, if the whole class has fewer than K.

Any two versions of a cell's sums then differ by at least K rows, or not at all. Sums of the learned
rows stay exact, and so does removal: :class:`~faircil.moments.seen_rows.SeenRows` knows the cell of
each row. A cell that a removal leaves with fewer than K rows is treated in the same way.

Noise hides single rows even from someone who knows all others. With features φ = (ψ, 1) and ``‖φ‖ ≤
C``, replacing a row by another one of its cell changes S by ``φφᵀ − φ'φ'ᵀ``, of Frobenius norm
``√(‖φ‖⁴ + ‖φ'‖⁴ − 2(φ·φ')²) ≤ √2 C²``: the *sensitivity* Δ. n and s are the last column of S. So
adding a symmetric matrix of N(0, σ²) to S gives (ε, δ)-differential privacy of a row's features,
given the feature map, the classes, the groups and their sizes, if σ satisfies (Balle and Wang 2018)

    Φ(Δ/(2σ) − εσ/Δ) − e^ε Φ(−Δ/(2σ) − εσ/Δ) ≤ δ.

Each row is in one cell of one lesson, and noise is drawn once for each, so privacy losses do not
add up, unless the same person occurs again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, sqrt

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr
from torch import Tensor

from faircil.errors import DataError
from faircil.moments.features import FeatureMap
from faircil.moments.group_moments import GroupMoments
from faircil.moments.seen_rows import Key, SeenRows, with_keys
from faircil.samples import Samples, group_counts, rows_of_groups, unique_rows


def targets_for(counts: Mapping[Key, int], least: int) -> dict[Key, Key | None]:
    """Return the target cell for rows of cells with fewer than ``least`` rows; None: left out.

    Examples
    --------
    >>> targets_for({(0, 0): 50, (0, 1): 3, (0, 2): 8, (1, 0): 20, (1, 1): 4, (2, 0): 9}, 10)
    {(0, 1): (0, -1), (0, 2): (0, -1), (1, 1): (1, 0), (2, 0): None}
    """
    found: dict[Key, Key | None] = {}
    for label in sorted({key[0] for key in counts}):
        own = {key: n for key, n in sorted(counts.items()) if key[0] == label}
        unknown = (label, *(-1 for _ in next(iter(own))[1:]))
        small = [key for key, n in own.items() if n < least]
        large = [key for key in own if key not in small]
        target = max(large, key=lambda key: own[key]) if large else None
        if sum(own[key] for key in {*small, unknown} & own.keys()) >= least:
            target = unknown
        found |= {key: target for key in small if key != target}
    return found


@dataclass(frozen=True)
class Pooled:
    """Rows to learn, none of them in a small cell.

    Parameters
    ----------
    samples : Samples
    notes : tuple of str
        Notes on what happened to the rows of small cells, if any.
    """

    samples: Samples
    notes: tuple[str, ...] = ()


def pooled(samples: Samples, least: int) -> Pooled:
    """Pool the rows of cells with fewer than ``least`` rows; leave out small classes.

    Pooling is idempotent.

    Raises
    ------
    DataError
        If no class has that many rows.
    """
    targets = targets_for(group_counts(samples), least) if least > 0 else {}
    if not targets:
        return Pooled(samples)
    keys, index = unique_rows(samples.keys())
    new, kept = samples.keys(), torch.ones(len(samples), dtype=torch.bool, device=keys.device)
    for key, rows in zip(keys.tolist(), rows_of_groups(index, len(keys)), strict=True):
        target = targets.get(tuple(key), tuple(key))
        if target is None:
            kept[rows] = False
        else:
            new[rows] = torch.tensor(target, device=new.device)
    moved = int((new[kept] != samples.keys()[kept]).any(dim=1).sum())
    notes = _pooling_notes(len(samples), moved, int((~kept).sum()), least)
    return Pooled(with_keys(samples, new).take(kept), notes)


def pool_sums(moments: GroupMoments, least: int) -> tuple[str, ...]:
    """Pool the sums of new rows as :func:`pooled` does with rows; return notes.

    Raises
    ------
    DataError
        If no class has that many rows.
    """
    counts = moments.seen.counts
    targets = targets_for(counts, least) if least > 0 else {}
    rows = sum(counts.values())
    left_out = sum(counts[key] for key, target in targets.items() if target is None)
    moved = sum(counts[key] for key in targets) - left_out
    notes = _pooling_notes(rows, moved, left_out, least)
    moments.regroup(targets)
    return notes


def _pooling_notes(rows: int, moved: int, left_out: int, least: int) -> tuple[str, ...]:
    """Describe what happened to rows of small cells; raise an error if all would be left out."""
    if left_out == rows:
        raise DataError(
            f"none of the classes has {least} rows here, the minimum that is learned in one step "
            f"with `min_cell={least}`, so nothing would be learned; collect more rows, and learn "
            "them together"
        )
    notes = []
    if moved:
        notes.append(
            f"{moved:,} row(s) of groups with fewer than {least} rows of a class count in another "
            f"group of their class, or as of an unknown one (`min_cell={least}`)"
        )
    if left_out:
        notes.append(
            f"{left_out:,} row(s) of classes with fewer than {least} rows were not learned "
            f"(`min_cell={least}`); learn them together with later ones"
        )
    return tuple(notes)


def remove_rows(
    moments: GroupMoments, rows: Samples, features: FeatureMap, least: int
) -> tuple[str, ...]:
    """Remove rows from their cells, pool cells that become small, and return notes.

    Parameters
    ----------
    moments : GroupMoments
    rows : Samples
        As :meth:`~faircil.moments.seen_rows.SeenRows.placed` returns them.
    features : FeatureMap
    least : int
    """
    notes = []
    if any(n < least for n in group_counts(rows).values()):
        notes.append(
            f"fewer than {least} rows of a group were forgotten in one step: anyone who has an "
            "earlier copy of the model can compute their sums as the difference; replace or delete "
            "earlier copies"
        )
    moments.remove(rows, features)
    targets = targets_for(moments.seen.counts, least)
    moments.regroup(targets)
    if targets:
        notes.append(
            f"groups that were left with fewer than {least} rows are pooled within their class, or "
            f"left out with it (`min_cell={least}`)"
        )
    if not len(moments):
        raise DataError(
            f"fewer than {least} rows of every class would be left, the minimum that is kept with "
            f"`min_cell={least}`; delete the model, or leave some rows out"
        )
    return tuple(notes)


class Clipped(FeatureMap):
    """Features clipped to a norm of at most ``norm``, including the constant, which is not scaled.

    Parameters
    ----------
    features : FeatureMap
    norm : float
        C, greater than 1.
    """

    def __init__(self, features: FeatureMap, norm: float) -> None:
        super().__init__()
        self.inner, self.norm, self.width = features, norm, features.width

    def forward(self, x: Tensor) -> Tensor:
        """Return features, (n, d)."""
        phi: Tensor = self.inner(x)
        length = phi[:, :-1].norm(dim=1, keepdim=True)
        room = sqrt(self.norm**2 - 1)
        phi[:, :-1] *= room / length.clamp(min=room)
        return phi

    def far(self, x: Tensor) -> float:
        """Return the fraction of inputs (n, ...) far from those of the first task."""
        return self.inner.far(x)


@dataclass(frozen=True)
class Noise:
    """The Gaussian mechanism for second moments.

    Parameters
    ----------
    epsilon, delta : float
    norm : float
        C, the largest norm of features.
    """

    epsilon: float
    delta: float
    norm: float

    @property
    def sensitivity(self) -> float:
        """Maximum change of S by a row."""
        return sqrt(2) * self.norm**2

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise of each entry."""
        return self.sensitivity * unit_deviation(self.epsilon, self.delta)

    def hide(self, moments: GroupMoments) -> None:
        """Add noise to exact sums of new rows, and discard their checksums.

        Noise is drawn from the operating system's source, not from the seed of a run: the seed is
        stored with the model, and anyone who knows the noise can subtract it. The noisy S may not
        be a matrix of second moments, so negative eigenvalues are set to 0. Then the last column is
        s, scaled so that its last entry is n, which is known.
        """
        d, generator = moments.width, np.random.default_rng()
        moments.seen = SeenRows()
        for place, flat in enumerate(moments.cells()):
            drawn = np.triu(generator.normal(0, self.deviation, (d, d)))
            drawn[-1, -1] = 0
            noise = torch.from_numpy(drawn + np.triu(drawn, 1).T)
            values, axes = torch.linalg.eigh(moments.panels.unpacked(flat).double().cpu() + noise)
            matrix = (axes * values.clamp(min=0)) @ axes.T
            scale = torch.ones(d, dtype=matrix.dtype)
            scale[-1] = sqrt(moments.count[place] / float(matrix[-1, -1]))
            matrix = (matrix * scale * scale[:, None]).to(flat)
            flat.copy_(moments.panels.packed(matrix))
            moments.first[place].copy_(matrix[:, -1])


def unit_deviation(epsilon: float, delta: float) -> float:
    """Return the smallest σ that gives (ε, δ) with a sensitivity of 1.

    Examples
    --------
    >>> round(unit_deviation(1.0, 1e-5), 2), round(unit_deviation(10.0, 1e-5), 2)
    (3.73, 0.5)
    """

    def excess(log_sigma: float) -> float:
        sigma = exp(log_sigma)
        near, far = 0.5 / sigma - epsilon * sigma, -0.5 / sigma - epsilon * sigma
        # In logarithms: e^ε overflows where Φ underflows, while their product is at most 1.
        return float(ndtr(near)) - exp(min(epsilon + float(log_ndtr(far)), 0.0)) - delta

    return exp(brentq(excess, -20.0, 40.0))
