"""A measure: old groups against current ones."""

import numpy as np

from faircil.weighting.groups import Floats, Groups


def old_against_new(groups: Groups) -> Floats:
    """Compare the mean loss of the old groups with that of the current ones.

    It is zero where nothing is forgotten in favour of the current task, whoever is in it.
    """
    old, new = ~groups.current, groups.current
    row = old / max(old.sum(), 1) - new / max(new.sum(), 1)
    return np.asarray(row)[None, :]
