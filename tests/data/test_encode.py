from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from faircil.data.encode import Coded, code_values, cross, fit_inputs


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        ([10, 9, 10], [1, 0, 1], ("9", "10")),
        ([2.0, -1.0, 0.5], [2, 0, 1], ("-1", "0.5", "2")),
        ([True, False], [1, 0], ("False", "True")),
        (["b", "a", "b", None], [1, 0, 1, -1], ("a", "b")),
    ],
)
def test_values_are_numbered_in_order(
    values: list[object], codes: list[int], names: tuple[str, ...]
) -> None:
    coded = code_values(pd.Series(values))
    assert coded.codes.tolist() == codes
    assert coded.names == names


def test_cross_numbers_only_combinations_that_occur() -> None:
    sex = Coded(np.array([1, 0, 1, 1]), ("F", "M"))
    race = Coded(np.array([0, 1, 0, 1]), ("black", "white"))
    both = cross(sex, race)
    assert both.names == ("F × white", "M × black", "M × white")
    assert both.codes.tolist() == [1, 0, 1, 2]


def test_inputs_equal_those_computed_by_hand() -> None:
    table = pd.DataFrame(
        {
            "job": ["cook", "cook", "baker", "smith"],
            "age": [20, 40, 90, 35],
            "ok": [True, False, True, True],
            "same": [0.1, 0.1, 5.1, 0.1],
        }
    )
    inputs = fit_inputs(table, train=np.array([0, 1, 2]), first_task=np.array([0, 1]))
    # age: mean 30, deviation 10; same: constant in the first task, so centred only;
    # categories baker, cook; smith is unseen in training.
    expected = [
        [-1.0, 1, 0, 0, 1],
        [1.0, 0, 0, 0, 1],
        [6.0, 1, 5, 1, 0],
        [0.5, 1, 0, 0, 0],
    ]
    rows = np.array([3, 0, 2, 1])
    encoded = inputs(rows)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(encoded, np.array(expected)[rows], atol=1e-6)


@pytest.mark.parametrize("column", [[1.0, 3.0], ["u", "v"], [False, True]])
def test_one_kind_of_feature_is_enough(column: list[object]) -> None:
    rows = np.array([0, 1])
    encoded = fit_inputs(pd.DataFrame({"x": column}), rows, rows)(rows)
    expected = {float: [[-1], [1]], str: [[1, 0], [0, 1]], bool: [[0], [1]]}[type(column[0])]
    assert encoded.tolist() == expected
