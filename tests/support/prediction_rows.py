"""Rows of predictions as hypothesis draws them."""

from __future__ import annotations

import numpy as np
from hypothesis import settings, strategies as st

quick = settings(deadline=None, max_examples=60)

# (true class, predicted class, attribute value): classes 5 to 7 are never true, and with so few
# samples groups, values and whole classes are often absent.
samples = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 7), st.integers(0, 2)), min_size=1, max_size=60
)
binary = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 2)), max_size=60
).map(lambda rows: rows + [(y, 0, z) for y in (0, 1) for z in (0, 1, 2)])


def columns(rows):
    return tuple(np.array(column) for column in zip(*rows, strict=True))
