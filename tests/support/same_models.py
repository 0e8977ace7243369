"""Whether models produced in different ways have learned the same."""

from __future__ import annotations

import numpy as np
import torch

from faircil.model.model import Floats32, Model
from faircil.moments.evening import TOLERANCE

ROUNDING = 1e-11  # of float64 sums, relative to the largest, for another order of additions
SAME_SEARCH = 1e-6  # relative difference of objectives below which searches ended at one point
ALIKE = 1e-3  # of probabilities, as group weights are searched up to a tolerance


def assert_same_sums(mine: Model, theirs: Model) -> None:
    """Assert that two models have learned the same rows with the same features."""
    for field in ("labels", "values"):
        assert set(getattr(mine, field)) == set(getattr(theirs, field)), field
    found, wanted = (_sums(model) for model in (mine, theirs))
    assert found.keys() == wanted.keys()
    for key, (count, sums) in wanted.items():
        assert found[key][0] == count, key
        size = float(sums.abs().max())
        torch.testing.assert_close(found[key][1], sums, rtol=ROUNDING, atol=ROUNDING * (1 + size))
    rows = [{(one.label, one.value): one.rows for one in model.seen} for model in (mine, theirs)]
    assert rows[0] == rows[1]


def assert_alike(mine: Model, theirs: Model, x: Floats32) -> None:
    """Assert that two models predict the same, but for the tolerance of their solution.

    Where rounding lets the searches for weights end at different points, both objectives are
    within the tolerance of the search, and predictions are not compared.
    """
    passed = [model.lessons[-1].passed for model in (mine, theirs)]
    reached = [None if one is None else one.objective for one in passed]
    if None not in reached and not np.isclose(*reached, rtol=SAME_SEARCH, atol=0, equal_nan=True):
        assert np.isclose(*reached, rtol=TOLERANCE, atol=0), reached
        return
    found, wanted = (model.probabilities(x) for model in (mine, theirs))
    order = [mine.names.index(name) for name in theirs.names]
    np.testing.assert_allclose(found[:, order], wanted, rtol=0, atol=ALIKE)


def _sums(model: Model) -> dict[tuple[str | None, ...], tuple[float, torch.Tensor]]:
    """Return the rows and sums of each cell, keyed by the names of class and attribute value."""
    moments = model.learner.moments
    names = {-1: None} | dict(enumerate(model.values))
    return {
        (model.names[key[0]], *(names[z] for z in key[1:])): (
            count,
            torch.cat([first, second]),
        )
        for key, count, first, second in zip(
            moments.keys, moments.count, moments.first, moments.cells(), strict=True
        )
    }
