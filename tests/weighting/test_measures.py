from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from faircil.errors import DataError, UsageError
from faircil.nets import MLP
from faircil.testing import check_measure
from faircil.weighting import FairSampleWeights
from faircil.weighting.groups import Floats, Groups
from faircil.weighting.measures import MEASURES, Measure, disparity_matrix, find_measure
from faircil.weighting.program import formulate
from oracles import make_samples, seeded

quick = settings(deadline=None, max_examples=60)
# Which of 3 classes × 3 values are there, and how many samples were seen of each.
pairs = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(1, 50), min_size=1
)
seeds = st.integers(0, 2**32 - 1)


def groups_of(seen: dict[tuple[int, int], int]) -> Groups:
    keys = sorted(seen)
    label, attribute = (np.array(column) for column in zip(*keys, strict=True))
    return Groups(
        label=label,
        attribute=attribute,
        current=label == label.max(),
        size=np.ones(len(keys), dtype=np.int64),
        seen=np.array([seen[key] for key in keys]),
        seen_with_attribute=np.array(
            [sum(n for (_, v), n in seen.items() if v == z) for _, z in keys]
        ),
    )


@pytest.mark.parametrize("name", ["eer", "eo", "dp", "worst"])
def test_no_groups_have_no_disparity(name: str) -> None:
    none = np.zeros(0, dtype=np.int64)
    groups = Groups(none, none, none.astype(bool), none, none, none)
    assert disparity_matrix(MEASURES[name], groups).shape == (0, 0)


@pytest.mark.parametrize("entry", [1e308, np.inf, np.nan])
def test_numbers_whose_squares_overflow_are_refused(entry: float) -> None:
    groups = groups_of({(0, 0): 1, (0, 1): 1})
    with pytest.raises(DataError, match=r"expected finite numbers .* up to 1e"):
        disparity_matrix(Measure(lambda _: np.array([[0.0, entry]])), groups)


def slow_matrix(name: str, seen: dict[tuple[int, int], int]) -> Floats:
    """The formulas of the measures, entry by entry."""
    keys = sorted(seen)
    n = len(keys)
    matrix = np.zeros((n, n))
    for row, (y, _) in enumerate(keys):
        for column, (other, z) in enumerate(keys):
            with_value = sum(count for (_, v), count in seen.items() if v == z)
            scale = seen[other, z] / with_value if name == "dp" else 1.0
            compared = [label for label, _ in keys if name == "eer" or label == y]
            mean = (name == "eer" or y == other) / len(compared)
            matrix[row, column] = scale * ((row == column) - mean) / n
    return matrix


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_keeps_the_contract(name: str) -> None:
    check_measure(name)


@pytest.mark.parametrize("name", ["eer", "eo", "dp"])
@quick
@given(seen=pairs, seed=seeds)
def test_named_measures_equal_their_formulas(
    name: str, seen: dict[tuple[int, int], int], seed: int
) -> None:
    if name == "eer":  # its groups are classes
        seen = {(y, 0): n for (y, _), n in seen.items()}
    groups = groups_of(seen)
    expected = slow_matrix(name, seen)
    measure = MEASURES[name]
    assert np.allclose(measure(groups), expected, rtol=0, atol=1e-15)
    losses = np.random.default_rng(seed).uniform(0, 5, len(groups))
    merged = disparity_matrix(measure, groups)
    assert np.abs(merged @ losses).sum() == pytest.approx(np.abs(expected @ losses).sum())
    assert (np.abs(merged).max(axis=1, initial=0) > 0).all()


def test_every_measure_names_the_metric_that_is_tuned_and_shown() -> None:
    named = [
        (find_measure(name).disparity, find_measure(name).shown)
        for name in ("eer", "eo", "dp", "eopp", "worst")
    ]
    assert named == [
        *(("eer", "eer"), ("eo", "eo_gap"), ("dp", "dp")),
        *(("eopp", "eopp_gap"), ("worst_group", "worst_group")),
    ]
    own = find_measure(Measure(MEASURES["eo"].matrix, metric="dp"))
    assert (own.disparity, own.shown) == ("dp", "dp")


def test_equal_opportunity_is_equalized_odds_of_the_favoured_classes() -> None:
    groups = groups_of({(y, z): 1 for y in range(4) for z in (0, 1)})
    favoured = MEASURES["eopp"].favouring([3, 1, 1])
    assert favoured.favoured == (1, 3)
    matrix = disparity_matrix(favoured, groups)
    losses = np.array([9, 1, 2, 5, 9, 2, 4, 4])
    assert np.abs(matrix @ losses).sum() == pytest.approx((1.5 + 1.5 + 0 + 0) / 4)
    alone = groups_of({(y, z): 1 for y in (1, 3) for z in (0, 1)})
    assert np.allclose(favoured(groups)[:, [2, 3, 6, 7]], MEASURES["eo"](alone))
    assert disparity_matrix(MEASURES["eopp"].favouring([7]), groups).shape == (0, 8)
    every = MEASURES["eopp"].favouring(range(4))
    assert np.array_equal(every(groups), MEASURES["eo"](groups))


def test_favoured_classes_are_given_where_they_are_needed() -> None:
    groups = groups_of({(0, 0): 1, (0, 1): 1})
    with pytest.raises(UsageError, match=r"favoured classes alone, and none are given; give them"):
        disparity_matrix(MEASURES["eopp"], groups)
    with pytest.raises(UsageError, match="compares all classes"):
        MEASURES["eo"].favouring([0])


def test_sample_weights_follow_equal_opportunity() -> None:
    net = seeded(lambda: MLP(6, 3, (8,)))
    current = make_samples([2] * 8 + [1] * 8, [0, 1] * 8, seed=1)
    memory = make_samples([0] * 6, [0, 1] * 3, seed=2)
    weigh = FairSampleWeights(measure=MEASURES["eopp"].favouring([2]), alpha=0.1, lam=0.3)
    result = weigh(net, current, memory)
    predicted = result.groups.predicted_losses.reshape(3, 2)
    disparity = abs(predicted[2, 0] - predicted[2, 1]) / 2
    assert result.objective == pytest.approx(disparity + 0.3 * predicted[1:].mean())


def test_the_program_refuses_the_largest_loss() -> None:
    matrix = disparity_matrix(MEASURES["worst"], groups_of({(0, 0): 1, (0, 1): 1}))
    assert np.array_equal(matrix, np.eye(2))
    with pytest.raises(UsageError, match=r"minimises a sum .* largest loss of a group; choose"):
        FairSampleWeights(measure="worst")(MLP(6, 2, (8,)), make_samples([1] * 4, [0, 1] * 2), None)


def test_two_values_of_eo_are_one_row_per_class() -> None:
    matrix = disparity_matrix(
        MEASURES["eo"], groups_of({(y, z): 1 for y in range(3) for z in (0, 1)})
    )
    difference = np.kron(np.eye(3), [1, -1]) / 6  # (e_y0 − e_y1) / (2 · 3 classes)
    assert matrix.shape == (3, 6)
    rows = sorted(matrix.tolist(), key=lambda row: np.abs(row).argmax())
    assert np.allclose(rows, difference, rtol=0, atol=1e-15)


def test_a_class_with_one_value_and_a_single_class_are_not_compared() -> None:
    one_value = disparity_matrix(MEASURES["eo"], groups_of({(0, 0): 1, (1, 0): 1, (1, 1): 1}))
    assert np.allclose(one_value, [[0, 1 / 3, -1 / 3]])
    assert disparity_matrix(MEASURES["eer"], groups_of({(4, 0): 1})).shape == (0, 1)


@quick
@given(seeds, st.integers(0, 4), st.integers(1, 5))
def test_merging_parallel_rows_keeps_the_disparity(seed: int, rows: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(rows, n))
    factors = rng.choice([-2.0, -1.0, 1 / 3, 1.0, 0.0], (3 * rows, 1))
    matrix = np.tile(base, (3, 1)) * factors
    merged = disparity_matrix(Measure(lambda _: matrix), groups_of({(y, 0): 1 for y in range(n)}))
    assert len(merged) <= rows
    losses = rng.uniform(0, 5, (n, 10))
    assert np.allclose(np.abs(merged @ losses).sum(axis=0), np.abs(matrix @ losses).sum(axis=0))


def largest_gap_to_first(groups: Groups) -> Floats:
    matrix = np.eye(len(groups)) / len(groups)
    for row, label in enumerate(groups.label):
        matrix[row, (groups.label == label).argmax()] -= 1 / len(groups)
    return matrix


def test_an_own_measure_works_end_to_end() -> None:
    net = seeded(lambda: MLP(6, 3, (8,)))
    current = make_samples([2] * 8 + [1] * 4, [0, 1, 2] * 4, seed=1)
    memory = make_samples([0] * 6, [0, 1, 2] * 2, seed=2)
    weigh = FairSampleWeights(measure=largest_gap_to_first, alpha=0.1, lam=0.3)
    result = weigh(net, current, memory)
    losses = dict(
        zip(
            zip(result.groups.label.tolist(), result.groups.attribute.tolist(), strict=True),
            result.groups.predicted_losses.tolist(),
            strict=True,
        )
    )
    disparity = sum(abs(loss - losses[y, 0]) for (y, _), loss in losses.items()) / len(losses)
    classes = [np.mean([losses[y, z] for z in range(3)]) for y in (1, 2)]
    assert result.objective == pytest.approx(disparity + 0.3 * np.mean(classes))
    assert result.weights.max() > 0


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 3)), np.zeros(2), np.zeros((1, 2, 2)), np.array([[np.nan, 1.0]])]
)
def test_a_measure_of_the_wrong_shape_is_refused(matrix: Floats) -> None:
    with pytest.raises(
        DataError, match=r"for 2 groups; expected finite numbers of shape \(rows, g"
    ):
        disparity_matrix(Measure(lambda _: matrix), groups_of({(0, 0): 1, (1, 0): 1}))


def test_measures_are_found_by_name_or_taken_as_they_are() -> None:
    assert find_measure("eer") is MEASURES["eer"]
    assert find_measure(largest_gap_to_first).matrix is largest_gap_to_first
    with pytest.raises(UsageError, match="unknown measure 'eoo': did you mean 'eo'"):
        find_measure("eoo")


def test_dp_needs_counts() -> None:
    groups = groups_of({(0, 0): 1, (0, 1): 1})
    without = Groups(groups.label, groups.attribute, groups.current, groups.size)
    with pytest.raises(DataError, match=r"pass seen=\{\(y, z\): count\}"):
        disparity_matrix(MEASURES["dp"], without)


@pytest.mark.parametrize(("name", "keys"), [("eer", [(0, 0), (1, 0)]), ("eo", [(0, 0), (0, 1)])])
@quick
@given(
    low=st.floats(0, 5),
    more=st.floats(1e-3, 5),
    helps=st.floats(1e-3, 1),
    harms=st.floats(-1, -1e-3),
    alpha=st.floats(1e-3, 1),
)
def test_a_sample_for_the_better_group_widens_the_gap(
    name: str,
    keys: list[tuple[int, int]],
    low: float,
    more: float,
    helps: float,
    harms: float,
    alpha: float,
) -> None:
    # Theorem 1 of the paper: ℓ₁ < ℓ₂ and cos(i, G₁) > 0 > cos(i, G₂) make training on i unfair.
    groups = groups_of(dict.fromkeys(keys, 1))
    program = formulate(
        np.array([[helps], [harms]]),
        np.array([low, low + more]),
        groups,
        disparity_matrix(MEASURES[name], groups),
        alpha=alpha,
        lam=0.0,
    ).program
    without, half, whole = (program.objective(np.array([w])) for w in (0.0, 0.5, 1.0))
    assert without < half < whole


def test_two_attributes_are_compared_by_their_combinations() -> None:
    net = seeded(lambda: MLP(6, 2, (8,)))
    z = torch.tensor([[0, 0], [0, 1], [1, 0]]).repeat(4, 1)
    current = make_samples([1] * 12, z.tolist())
    result = FairSampleWeights(measure="eo", alpha=0.1)(net, current, None)
    assert result.groups.attribute.tolist() == [[0, 0], [0, 1], [1, 0]]
    predicted = result.groups.predicted_losses
    disparity = np.abs(predicted - predicted.mean()).sum() / 3
    assert result.objective == pytest.approx(disparity + 0.5 * predicted.mean())
