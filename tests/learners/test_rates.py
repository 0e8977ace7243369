from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from faircil.learners.fairl import drift, rate, rate_reduction


def features(n: int, width: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(n, width, generator=generator, dtype=torch.float64)
    return layer_norm(values, (width,)).requires_grad_()


def naive_rate(part: Tensor) -> Tensor:
    """By the formula, over the features: ``½ log det(I + d/(n ε²) ZᵀZ)``, ε² = ½."""
    n, width = part.shape
    return torch.logdet(torch.eye(width).double() + 2 * width / n * part.T @ part) / 2


def naive_reduction(rows: Tensor, groups: list[list[int]]) -> Tensor:
    """One group at a time."""
    return naive_rate(rows) - sum(len(g) / len(rows) * naive_rate(rows[g]) for g in groups)


def agree(fast: Tensor, slow: Tensor, *inputs: Tensor) -> None:
    torch.testing.assert_close(fast, slow)
    for one, other in zip(
        torch.autograd.grad(fast, inputs), torch.autograd.grad(slow, inputs), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("n", [1, 5, 20])
@pytest.mark.parametrize("width", [2, 8])
def test_rate_is_that_of_the_formula(n: int, width: int) -> None:
    rows = features(n, width)
    agree(rate(rows), naive_rate(rows), rows)


@pytest.mark.parametrize("width", [3, 16])
def test_rate_reduction_is_that_of_a_loop_over_the_groups(width: int) -> None:
    rows, keys = features(9, width), torch.tensor([4, 0, 4, 7, 0, 4, 4, 0, 4])
    groups = [[1, 4, 7], [0, 2, 5, 6, 8], [3]]
    agree(rate_reduction(rows, keys), naive_reduction(rows, groups), rows)


def test_several_columns_make_a_group_of_each_combination() -> None:
    rows, keys = features(6, 4), torch.tensor([[0, 1], [1, 0], [0, 1], [1, 1], [1, 0], [0, 1]])
    agree(rate_reduction(rows, keys), naive_reduction(rows, [[0, 2, 5], [1, 4], [3]]), rows)


def test_one_group_has_nothing_to_reduce() -> None:
    rows = features(7, 5)
    reduction = rate_reduction(rows, torch.full((7,), 3))
    assert reduction.item() == pytest.approx(0)
    assert torch.autograd.grad(reduction, rows)[0].abs().max() < 1e-12


def test_drift_is_that_of_a_loop_over_the_groups() -> None:
    rows, before = features(7, 6), features(7, 6, seed=1).detach()
    keys, groups = torch.tensor([2, 2, 0, 1, 0, 2, 2]), [[0, 1, 5, 6], [2, 4], [3]]
    slow = sum(
        naive_rate(torch.cat([rows[g], before[g]]))
        - naive_rate(rows[g]) / 2
        - naive_rate(before[g]) / 2
        for g in groups
    )
    assert isinstance(slow, Tensor)
    agree(drift(rows, before, keys), slow, rows)


def test_what_did_not_move_has_no_drift() -> None:
    rows, keys = features(8, 5), torch.tensor([0, 1] * 4)
    still = drift(rows, rows.detach(), keys)
    assert still.item() == pytest.approx(0)
    assert torch.autograd.grad(still, rows)[0].abs().max() < 1e-12
    assert drift(rows, features(8, 5, seed=1), keys) > 0.1


def test_single_precision_is_enough_for_identical_wide_features() -> None:
    rows = features(1, 256).detach().expand(128, 256)
    exact = rate(rows)
    assert rate(rows.float()).item() == pytest.approx(exact.item(), rel=1e-3)
