from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from faircil.data.table_columns import Coded, code_values, cross, cross_all, draw_test, marked_test
from faircil.errors import DataError


@pytest.mark.parametrize(
    ("values", "codes", "names"),
    [
        ([10, 9, 10], [1, 0, 1], ("9", "10")),
        ([2.0, -1.0, 0.5], [2, 0, 1], ("-1", "0.5", "2")),
        ([True, False], [1, 0], ("False", "True")),
        (["b", "a", "b", None], [1, 0, 1, -1], ("a", "b")),
        ([1, b"x", None, 0.0], [1, 2, -1, 0], ("0", "1", "b'x'")),
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


def test_a_missing_value_makes_a_combination_missing() -> None:
    sex = Coded(np.array([0, -1, 1, 1]), ("F", "M"))
    race = Coded(np.array([0, 1, -1, 1]), ("black", "white"))
    both = cross(sex, race)
    assert both.names == ("F × black", "M × white")
    assert both.codes.tolist() == [0, -1, -1, 1]
    assert both.with_missing.names == ("F × black", "M × white", "unknown")
    assert both.with_missing.codes.tolist() == [0, 2, 2, 1]


def test_blanks_around_names_are_no_part_of_them() -> None:
    coded = code_values(pd.Series(["b ", "a", " b", "  ", None, "a"]))
    assert coded.names == ("a", "b")
    assert coded.codes.tolist() == [1, 0, 1, -1, -1, 0]


def test_values_with_the_sign_between_values_cannot_be_combined() -> None:
    odd, plain = Coded(np.array([0]), ("a × b",)), Coded(np.array([0]), ("c",))
    assert cross_all([odd]).names == ("a × b",)
    with pytest.raises(DataError, match=r"'a × b' have ' × ' in them.*rename them"):
        cross_all([plain, odd])


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
