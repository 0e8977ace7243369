from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from faircil.errors import UsageError
from faircil.moments import sketch as sketch_module
from faircil.moments.group_moments import GroupMoments
from faircil.moments.sketch import COMPRESSED, LEAST, MEMORY, Plan, SketchedMoments
from faircil.samples import Samples, concatenate, group_counts
from moment_data import SIZES, WIDTH, features, grouped_samples, moments_of, problem_of

# Sums of n float64 products in any order differ by at most n·2⁻⁵³ of the sum of their sizes.
SAME = {"rtol": 1e-11, "atol": 1e-11}
WEIGHTS = np.array([0.1, 0.25, 0.2, 0.05, 0.3, 0.1])


def sketch_of(rank: int, *parts: Samples) -> SketchedMoments:
    moments = SketchedMoments(WIDTH, torch.float64, rank=rank)
    for part in parts:
        moments.add(part, features)
    return moments


def matrices(moments: GroupMoments) -> Tensor:
    """Return S of each cell in the order of the keys, (cells, d, d)."""
    order = sorted(range(len(moments)), key=lambda cell: moments.keys[cell])
    return moments.products(torch.eye(WIDTH, dtype=torch.float64), order)


@pytest.mark.parametrize("rank", [WIDTH, 20, 100])
def test_with_as_many_directions_as_there_are_nothing_is_lost(rank: int) -> None:
    parts = grouped_samples(), grouped_samples(seed=1)
    exact, sketch = moments_of(*parts), sketch_of(rank, *parts)
    assert (sketch.keys, sketch.count) == (exact.keys, exact.count)
    torch.testing.assert_close(matrices(sketch), matrices(exact), **SAME)
    ours, theirs = (problem_of(moments).solve(WEIGHTS) for moments in (sketch, exact))
    torch.testing.assert_close(ours.head, theirs.head, rtol=1e-8, atol=1e-8)
    for name in ("losses", "leverage", "errors", "loss_slopes", "leverage_slopes"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("merged", [False, True])
def test_what_a_cell_loses_is_within_the_known_bound(rank: int, merged: bool) -> None:
    parts = [grouped_samples(seed=seed) for seed in range(4)]
    exact, sketch = moments_of(*parts), sketch_of(rank, *parts)
    if merged:
        sketch = sketch_of(rank, *parts[:2])
        sketch.merge(sketch_of(rank, *parts[2:]))
        assert sketch.seen.counts == exact.seen.counts
    assert all(len(rows) <= rank for rows in sketch.rows)
    right, found = matrices(exact), matrices(sketch)
    order = sorted(range(len(sketch)), key=lambda cell: sketch.keys[cell])
    away = torch.linalg.matrix_norm(found - right, 2)
    assert (away > 0).any()
    assert bool((away <= sketch.bounds[order] * (1 + 1e-9)).all())
    mean = torch.stack([sketch.first[cell] / sketch.count[cell] ** 0.5 for cell in order])
    covariance = found - mean[:, :, None] * mean[:, None, :]
    assert float(torch.linalg.eigvalsh(covariance).min()) > -1e-9
    traces = [torch.einsum("gii->g", each) for each in (found, right)]
    torch.testing.assert_close(*traces, **SAME)
    torch.testing.assert_close(found.sum(dim=0), right.sum(dim=0), **SAME)


@pytest.mark.parametrize("shrunk", [0.2, 0.6, 1.0])
def test_main_directions_are_kept_within_the_bound_of_the_literature(
    shrunk: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the best approximation M_k of rank k, ``‖M − UᵀU‖₂ ≤ tr(M − M_k)/(shrunk + 1 − k)``."""
    monkeypatch.setattr(sketch_module, "SHRUNK", shrunk)
    samples = grouped_samples({(0, 0): 300})
    sketch = sketch_of(5, *(samples.take(slice(i, i + 30)) for i in range(0, 300, 30)))
    centred = features(samples.x) - features(samples.x).mean(dim=0)
    right, (rows,) = centred.T @ centred, sketch.rows
    lost = torch.linalg.eigvalsh(right - rows.T @ rows)
    assert float(lost.min()) > -1e-9
    number = round(5 * shrunk)
    for k in range(number + 1):
        rest = torch.linalg.eigvalsh(right).flip(0)[k:].sum()
        assert float(lost.max()) <= float(rest) / (number + 1 - k) * (1 + 1e-9)


def test_weighted_sums_traces_and_products_are_those_of_the_compressed_matrices() -> None:
    sketch = sketch_of(2, grouped_samples(), grouped_samples({(3, 0): 1, (0, 1): 5}, seed=2))
    cells = range(len(sketch))
    each = sketch.products(torch.eye(WIDTH, dtype=torch.float64))
    weights = torch.arange(1.0, len(sketch) + 1, dtype=torch.float64)
    combined = torch.einsum("g,gij->ij", weights, each)
    torch.testing.assert_close(sketch.combined(weights), combined, **SAME)
    symmetric = each[0] + torch.eye(WIDTH, dtype=torch.float64)
    traces = torch.einsum("ij,gji->g", symmetric, each)
    torch.testing.assert_close(sketch.traces(symmetric), traces)
    x = grouped_samples().x[:WIDTH, :3].contiguous()
    squares = torch.einsum("ik,gij,jk->g", x, each, x)
    torch.testing.assert_close(sketch.squares(x), squares)
    exact = moments_of(grouped_samples())
    squares = torch.einsum("ik,gij,jk->g", x, matrices(exact), x)
    torch.testing.assert_close(exact.squares(x), squares)
    torch.testing.assert_close(sketch.products(x, list(cells)[1:3]), each[1:3] @ x)


def test_with_the_same_weight_for_all_rows_the_solution_is_exact() -> None:
    samples = grouped_samples()
    sizes = np.array([n for _, n in sorted(SIZES.items())])
    found, exact = (
        problem_of(moments).solve(sizes / sizes.sum())
        for moments in (sketch_of(2, samples), moments_of(samples))
    )
    torch.testing.assert_close(found.head, exact.head, rtol=1e-8, atol=1e-8)
    assert not np.allclose(found.losses, exact.losses, rtol=1e-3)
    assert (found.losses > 0).all()
    total = [sizes @ solution.losses for solution in (found, exact)]
    assert total[0] == pytest.approx(total[1])


def test_rows_cannot_be_removed_and_kinds_cannot_be_mixed() -> None:
    samples = grouped_samples()
    sketch = sketch_of(3, samples)
    with pytest.raises(UsageError, match=r"2 rows cannot be removed .* 3 directions .*'full'"):
        sketch.remove(samples.take(slice(2)), features)
    assert len(sketch.seen) == len(samples)
    with pytest.raises(UsageError, match=r"GroupMoments cannot be merged with SketchedMoments"):
        sketch.merge(moments_of(samples))


def test_a_thousand_classes_of_two_groups_fit_compressed() -> None:
    plan = Plan(2000, 2000).made_to_fit("auto", 16 * 2**30, fixed=False)
    assert plan.width == 2000
    assert plan.rank is not None
    assert plan.rank == 100
    assert plan.second <= COMPRESSED


def test_moments_are_exact_where_they_fit() -> None:
    assert Plan(2000, 20).made_to_fit("auto", 2**34, fixed=False).rank is None
    # A width that was given may take half of what is free.
    large = Plan(9601, 20)
    assert MEMORY < large.second < 2**33
    assert large.made_to_fit("auto", 2**34, fixed=True).rank is None
    assert large.made_to_fit("auto", 2**32 + 2**31, fixed=True).rank == COMPRESSED // (
        4 * 20 * 9601
    )
    assert large.made_to_fit("full", 2**33, fixed=True).rank is None
    assert large.made_to_fit(70, 2**34, fixed=True).rank == 70
    assert large.made_to_fit("auto", None, fixed=True).rank is not None


@pytest.mark.parametrize(("rank", "per_cell"), [("full", None), ("auto", LEAST), (400, 400)])
def test_a_width_that_is_not_given_shrinks_to_the_memory(
    rank: str | int, per_cell: int | None
) -> None:
    plan = Plan(2000, 20_000).made_to_fit(rank, 2**40, fixed=False)  # type: ignore[arg-type]
    assert plan.rank == per_cell
    most = MEMORY if per_cell is None else COMPRESSED
    assert plan.second <= most < Plan(plan.width + 1, 20_000, rank=per_cell).second


def test_what_cannot_fit_is_refused_with_what_would() -> None:
    with pytest.raises(
        UsageError, match=r"100,000 features need 745 GiB .* 20 groups .* 8 GiB are free; up to"
    ) as caught:
        Plan(100_000, 20).made_to_fit("full", 2**33, fixed=True)
    exact, compressed = (
        int(number.replace(",", ""))
        for number in (str(caught.value).split(" fit")[0].split()[-1],
                       str(caught.value).split(" with `rank")[0].split()[-1])
    )  # fmt: skip
    assert Plan(exact, 20).needed <= 2**33 < Plan(exact + 1, 20).needed
    assert Plan(compressed, 20, rank=LEAST).needed <= 2**33
    assert compressed > exact


def test_a_cell_that_fades_leaves_the_others_as_they_are() -> None:
    parts = [grouped_samples(seed=seed) for seed in range(3)]
    sketch = sketch_of(2, *parts)
    before, bounds = matrices(sketch), sketch.bounds
    some = [part.take((part.keys() == torch.tensor([1, 0])).all(dim=1)) for part in parts]
    sketch.fade(group_counts(concatenate(some)), 0.25)
    factor = torch.ones(len(sketch), dtype=torch.float64)
    factor[sorted(sketch.keys).index((1, 0))] = 0.25
    torch.testing.assert_close(matrices(sketch), factor[:, None, None] * before, **SAME)
    place = sketch.keys.index((1, 0))
    torch.testing.assert_close(sketch.bounds[place], 0.25 * bounds[place])
    assert sketch.count[place] == 0.25 * 3 * SIZES[1, 0]
