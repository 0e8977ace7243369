from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from faircil.counts import Answers, answers_by_group, certain_enough
from faircil.errors import DataError, UsageError
from prediction_rows import quick, samples


@quick
@given(samples, st.floats(0, 0.99), st.integers(0, 2**31))
def test_answers_are_those_of_a_loop(rows: list[tuple[int, int, int]], share: float, seed: int):
    y_true, y_pred, value = np.array(rows).T
    value = value - 1  # the first is unknown
    certain = np.random.default_rng(seed).integers(0, 5, len(rows)) / 4  # with ties
    answered = certain_enough(certain, share)
    # As few as allowed, but none is withheld that is as certain as another that is answered.
    assert answered.sum() >= (1 - share) * len(rows) - 1e-9
    assert certain[answered].min() > max([*certain[~answered], -1])
    least = certain[answered].min()
    assert (certain > least).sum() < len(rows) - int(share * len(rows))
    whole, *groups = answers_by_group(y_true, y_pred, certain, share, value)
    assert (whole.n, whole.answered) == (len(rows), answered.sum())
    assert {(one.label, one.attribute) for one in groups} == {
        (y, z) for y, z in zip(y_true, value, strict=True) if z >= 0
    }
    for one in groups:
        own = [i for i in range(len(rows)) if (y_true[i], value[i]) == (one.label, one.attribute)]
        there = [i for i in own if answered[i]]
        assert (one.n, one.answered) == (len(own), len(there))
        assert one.accuracy == pytest.approx(np.mean([y_true[i] == y_pred[i] for i in own]))
        if there:
            right = np.mean([y_true[i] == y_pred[i] for i in there])
            assert one.answered_accuracy == pytest.approx(right)
        else:
            assert one.answered_accuracy is None


def test_answers_need_a_probability_for_each_sample_and_a_share() -> None:
    with pytest.raises(DataError, match=r"shape \(1,\) and y_true \(2,\)"):
        answers_by_group([0, 1], [0, 1], [0.5], 0.1)
    with pytest.raises(DataError, match="from 0 to 1 for each sample"):
        answers_by_group([0, 1], [0, 1], [0.5, 1.5], 0.1)
    with pytest.raises(UsageError, match="`abstain` is 1, expected a share"):
        answers_by_group([0, 1], [0, 1], [0.5, 0.5], 1.0)
    assert answers_by_group([0, 1], [0, 0], [0.5, 0.9], 0.5)[1:] == (
        Answers(0, None, 1, 1.0, 0, None),
        Answers(1, None, 1, 0.0, 1, 0.0),
    )
