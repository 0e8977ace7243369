from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from fairlearn.metrics import equalized_odds_difference
from hypothesis import given, settings

from faircil.auditing import audit
from faircil.errors import DataError
from faircil.metrics import ClassAccuracy, eo_gap, evaluate
from prediction_rows import binary, columns, quick, samples


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([0, 1], [0, 1, 1], [0, 0]), r"y_true has shape \(2,\), y_pred has shape \(3,\)"),
        (([], [], []), r"y_true has shape \(0,\).*at least 1"),
        (([[0], [1]], [[0], [1]], [[0], [1]]), r"y_true has shape \(2, 1\).*expected shape \(n,\)"),
        (
            ([0, 1], [0.1, 1.0], ["a", "b"]),
            r"(?s)y_pred has values such as 0.1, expected labels.*task has .* 'a', expected int",
        ),
        (([0, 1], [0, np.inf], [0, 0]), "y_pred has values such as inf, expected labels"),
        (([0, None], ["0", "1"], [0, 0]), "y_true has 1 missing values"),
        (
            (["no", "yes"], [0, 1], [0, 0]),
            "y_true is 'no', 'yes' and y_pred 0, 1, so that no prediction could be right",
        ),
        (([0, {}], [0, 1], [0, 0]), "y_true has values that are not labels: unhashable"),
        (([0, [1]], [0, 1], [0, 0]), "y_true has values that are not labels: unhashable"),
        (([0, 2**63], [0, 1], [0, 0]), "y_true has numbers such as 9223372036854775808, expected"),
        (
            (np.array([0, 2**63], dtype=np.uint64), [0, 1], [0, 0]),
            "y_true has numbers such as 9223",
        ),
        ((None, [0, 1], [0, 0]), "y_true is None; give a class"),
        (([0, 1], None, None), "y_pred is None; give a class"),
        (([0, 0, 1], [0, 0, 1], [4, 5, 5]), "class 0 is in tasks 4, 5; put it in one"),
    ],
)
def test_mistakes_in_the_arrays_are_named(arrays, message):
    y, p, task = arrays
    with pytest.raises(DataError, match=message):
        evaluate(y, p, task=task)


@pytest.mark.parametrize("favoured", ["ab", [[1]], 5])
@pytest.mark.parametrize("function", [evaluate, audit])
def test_favoured_classes_that_are_none(function, favoured):
    with pytest.raises(DataError, match=r"favoured .* list of"):
        function(["a", "b"], ["a", "b"], favoured=favoured)


def test_negative_numbers_are_unknown_among_words_too():
    after = evaluate([0] * 4, [0, 0, 1, 0], sensitive=["a", 1, -1, None])
    assert after.eo_gap == 0
    assert [group.attribute for group in after.groups] == [1, "a"]


NAMES = ["ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay"]
CONTAINERS = {
    "list": list,
    "numpy": np.array,
    "objects": lambda values: np.array(values, dtype=object),
    "pandas": lambda values: pd.Series(values, index=range(7, 7 + len(values))),
    "categories": lambda values: pd.Series(values, dtype="category"),
    "tuples": lambda values: [(value, 1) for value in values],
}


@pytest.mark.parametrize("container", CONTAINERS)
@settings(quick, max_examples=15)
@given(samples)
def test_names_give_what_numbers_give(container, rows):
    made = CONTAINERS[container]
    y, p, z = columns(rows)
    task = y // 2
    expected = evaluate(y, p, task=task, sensitive=z, favoured=[1])
    names = [made([NAMES[value] for value in column]) for column in (y, p, z)]
    favoured = [("bee", 1)] if container == "tuples" else ["bee"]
    got = evaluate(*names[:2], task=task, sensitive=names[2], favoured=favoured)
    assert got.values == expected.values
    assert [group.n for group in got.groups] == [group.n for group in expected.groups]
    assert got.classes[0].label in (NAMES[y.min()], (NAMES[y.min()], 1))


@pytest.mark.parametrize(
    "sensitive",
    [
        [0, 1, -1, 1],
        [0.0, 1.0, np.nan, 1.0],
        ["f", "m", None, "m"],
        pd.Series([0, 1, None, 1], dtype="Int64"),
        pd.Series(["f", "m", None, "m"]),
        torch.tensor([0, 1, -1, 1]),
    ],
    ids=["negative", "nan", "none", "nullable", "words", "tensor"],
)
def test_missing_attribute_values_are_unknown(sensitive):
    got = evaluate([0, 0, 0, 1], [0, 1, 0, 1], sensitive=sensitive)
    assert got.values == evaluate([0, 0, 0, 1], [0, 1, 0, 1], sensitive=[0, 1, -1, 1]).values
    assert [group.n for group in got.groups] == [1, 1, 1]


def test_tensors_and_floats_are_labels():
    y = torch.tensor([0.0, 1.0, 1.0], requires_grad=True)
    assert evaluate(y, [False, True, False]).classes[1] == ClassAccuracy(1, 2, 0.5)


@settings(quick, max_examples=10)
@given(binary)
def test_fairlearn_agrees_on_words(rows):
    y, p, z = columns(rows)
    sex = [("f", "m", "x")[value] for value in z]
    words = [["no" if value == 0 else "yes" for value in column] for column in (y, p)]
    odds = equalized_odds_difference(y, p, sensitive_features=sex, agg="mean")
    assert eo_gap(*words, sex) == pytest.approx(odds, abs=1e-12)
