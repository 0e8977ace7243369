from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from faircil.data.encode import draw_test, marked_test


@pytest.mark.parametrize("share", [0.01, 0.3, 0.99])
def test_each_group_gives_its_share(share: float) -> None:
    sizes = [1, 2, 3, 10, 100]
    groups = np.random.default_rng(0).permutation(np.repeat(np.arange(5), sizes))
    counts = np.bincount(groups[draw_test(groups, share, seed=0)], minlength=5)
    assert counts.tolist() == [
        0 if size == 1 else min(max(round(share * size), 1), size - 1) for size in sizes
    ]


def test_the_draw_follows_the_seed() -> None:
    groups = np.zeros(100, dtype=np.int64)
    first, again, other = (draw_test(groups, 0.3, seed) for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    "marks", [[1, 0], [1.0, 0.0], [True, False], ["test", "train"], ["TRUE", "False"]]
)
def test_marks_are_understood(marks: list[object]) -> None:
    assert marked_test(pd.Series(marks)).tolist() == [True, False]
