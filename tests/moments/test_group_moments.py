from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from faircil.errors import DataError, UsageError
from faircil.moments import group_moments
from faircil.moments.group_moments import GroupMoments, Panels
from faircil.samples import Samples, group_counts
from moment_data import SIZES, WIDTH, features, grouped_samples, moments_of, rows_by_group

# Sums of n float64 products in any order differ by at most n·2⁻⁵³ of the sum of their sizes.
SAME = {"rtol": 1e-12, "atol": 1e-12}


@pytest.fixture(params=[2, 3, 512], autouse=True)
def _panel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_moments, "PANEL", request.param)


def dense(moments: GroupMoments) -> dict[tuple[int, ...], tuple[int, Tensor, Tensor]]:
    """Return n, s and S of each cell."""
    flats = [flat for block in moments.second for flat in block]
    return {
        key: (n, first, moments.panels.unpacked(flat))
        for key, n, first, flat in zip(
            moments.keys, moments.count, moments.first, flats, strict=True
        )
    }


def assert_same(left: GroupMoments, right: GroupMoments) -> None:
    mine, theirs = dense(left), dense(right)
    assert mine.keys() == theirs.keys()
    for key, (n, first, second) in mine.items():
        assert n == theirs[key][0]
        torch.testing.assert_close(first, theirs[key][1], **SAME)
        torch.testing.assert_close(second, theirs[key][2], **SAME)
    assert left.seen.sums.keys() == right.seen.sums.keys()
    for key, sums in left.seen.sums.items():
        assert torch.equal(sums.sort().values, right.seen.sums[key].sort().values)


@pytest.mark.parametrize("width", [1, 2, 5, 9])
def test_panels_hold_a_symmetric_matrix(width: int) -> None:
    panels = Panels(width)
    generator = torch.Generator().manual_seed(width)
    one, two = (torch.randn(width, width, generator=generator) for _ in range(2))
    one, two = one + one.T, two + two.T
    flat = panels.packed(one)
    assert len(flat) == panels.size <= width * (width + group_moments.PANEL) / 2 + width
    assert torch.equal(panels.unpacked(flat), one)
    torch.testing.assert_close(panels.doubled(two) @ flat, (one * two).sum())
    x = torch.randn(width, 3, generator=generator)
    found = torch.ones_like(x)
    panels.add_products(found, flat, x)
    torch.testing.assert_close(found, 1 + one @ x)
    both = torch.zeros(2, width, 3)
    panels.add_products(both, torch.stack([flat, panels.packed(two)]), x)
    torch.testing.assert_close(both, torch.stack([one, two]) @ x)


def test_moments_are_the_sums_over_rows() -> None:
    samples = grouped_samples()
    found = dense(moments_of(samples))
    assert {key: n for key, (n, _, _) in found.items()} == SIZES
    for key, rows in zip(sorted(SIZES), rows_by_group(samples), strict=True):
        phi = features(samples.x[rows])
        torch.testing.assert_close(found[key][1], phi.sum(dim=0), **SAME)
        torch.testing.assert_close(found[key][2], phi.T @ phi, **SAME)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), parts=st.integers(1, 5), workers=st.integers(1, 3))
def test_any_order_batches_and_workers_give_the_same(seed: int, parts: int, workers: int) -> None:
    samples = grouped_samples()
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(seed))
    sites = [GroupMoments(WIDTH, torch.float64) for _ in range(workers)]
    for number, rows in enumerate(order.chunk(parts)):
        sites[number % workers].add(samples.take(rows), features)
    for other in sites[1:]:
        sites[0].merge(other)
    assert_same(sites[0], moments_of(samples))


def test_weighted_sums_traces_and_products_are_those_of_the_matrices() -> None:
    first, second = grouped_samples(seed=1), grouped_samples({(3, 0): 8, (0, 1): 5}, seed=2)
    moments = moments_of(first, second)
    matrices = torch.stack([second for _, _, second in dense(moments).values()])
    weights = torch.arange(1.0, len(moments) + 1, dtype=torch.float64)
    combined = moments.combined(weights)
    torch.testing.assert_close(combined, torch.einsum("g,gij->ij", weights, matrices), **SAME)
    symmetric = matrices[0] + torch.eye(WIDTH, dtype=torch.float64)
    traces = torch.einsum("ij,gji->g", symmetric, matrices)
    torch.testing.assert_close(moments.traces(symmetric), traces)
    x = first.x[:WIDTH, :2].contiguous()
    torch.testing.assert_close(moments.products(x), matrices @ x)


def test_rows_that_are_removed_were_never_there() -> None:
    samples, more = grouped_samples(), grouped_samples(seed=3)
    moments = moments_of(samples, more)
    moments.remove(more, features)
    assert_same(moments, moments_of(samples))
    whole = samples.take((samples.keys() == torch.tensor([2, 1])).all(dim=1))
    moments.remove(whole, features)
    assert (2, 1) not in moments.keys
    assert len(moments) == len(SIZES) - 1
    moments.add(whole, features)
    assert dense(moments)[2, 1][0] == SIZES[2, 1]


def altered(samples: Samples, what: str) -> Samples:
    x, y, z = samples.x.clone(), samples.y.clone(), samples.z
    assert z is not None
    if what == "input":
        x[0, 0] += 1
    if what == "class":
        y[0] = (y[0] + 1) % 3
    if what == "attribute":
        z = z.clone()
        z[0] = 1 - z[0]
    return Samples(x, y, z)


@pytest.mark.parametrize("what", ["input", "class", "attribute"])
def test_rows_that_were_never_added_are_refused_and_nothing_changes(what: str) -> None:
    samples = grouped_samples()
    moments = moments_of(samples)
    with pytest.raises(DataError, match=r"1 of 5 rows .* not added.*Nothing was removed"):
        moments.remove(altered(samples.take(slice(5)), what), features)
    assert_same(moments, moments_of(samples))


def test_a_row_is_removed_as_often_as_it_was_added() -> None:
    samples = grouped_samples()
    moments = moments_of(samples)
    twice = samples.take(torch.tensor([4, 4]))
    with pytest.raises(DataError, match="1 of 2 rows"):
        moments.remove(twice, features)
    moments.add(samples.take(slice(4, 5)), features)
    moments.remove(twice, features)
    kept = [row for row in range(len(samples)) if row != 4]
    assert_same(moments, moments_of(samples.take(torch.tensor(kept))))


def test_copies_are_counted() -> None:
    samples = grouped_samples()
    moments = moments_of(samples)
    assert moments.seen.copies == 0
    moments.add(samples.take(torch.tensor([4, 4, 7])), features)
    assert moments.seen.copies == 3 / (len(samples) + 3)
    assert GroupMoments(WIDTH).seen.copies == 0


def test_nothing_can_be_removed_from_nothing() -> None:
    with pytest.raises(DataError, match="2 of 2 rows"):
        GroupMoments(WIDTH).remove(grouped_samples().take(slice(2)), features)


def test_faded_rows_count_by_their_age_and_only_where_new_ones_came() -> None:
    oldest, older = grouped_samples(), grouped_samples({(0, 0): 8, (1, 1): 5}, seed=1)
    newest = grouped_samples({(0, 0): 3}, seed=2)
    moments = moments_of(oldest)
    for part in (older, newest):
        moments.fade(group_counts(part), 0.25)
        moments.add(part, features)
    alone = [dense(moments_of(part)) for part in (oldest, older, newest)]
    for key, found in dense(moments).items():
        # The factor is .25 if as many rows come as are there; fewer take less away.
        parts = [part[key] for part in alone if key in part]
        expected = parts[0]
        for part in parts[1:]:
            factor = 0.25 ** min(1.0, part[0] / expected[0])
            expected = tuple(factor * a + b for a, b in zip(expected, part, strict=True))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other), **SAME)


def test_a_few_rows_do_not_take_the_place_of_many() -> None:
    many, one = grouped_samples({(0, 0): 100}), grouped_samples({(0, 0): 1}, seed=1)
    moments = moments_of(many)
    moments.fade(group_counts(one), 0.1)
    assert moments.count == [pytest.approx(100 * 0.1**0.01)]
    moments.fade({(0, 0): 500}, 0.1)
    assert moments.count == [pytest.approx(10 * 0.1**0.01)]


def test_without_decay_not_a_bit_changes() -> None:
    samples, more = grouped_samples(), grouped_samples(seed=1)
    moments, plain = moments_of(samples), moments_of(samples, more)
    moments.fade(group_counts(more), 1.0)
    moments.add(more, features)
    for mine, theirs in zip(dense(moments).values(), dense(plain).values(), strict=True):
        assert all(
            torch.equal(torch.as_tensor(a), torch.as_tensor(b))
            for a, b in zip(mine, theirs, strict=True)
        )
    assert not moments.faded


def test_rows_of_faded_groups_are_not_removed_and_others_are() -> None:
    samples, more = grouped_samples(), grouped_samples({(0, 0): 4}, seed=1)
    moments, other = moments_of(samples), GroupMoments(WIDTH, torch.float64)
    moments.fade(group_counts(more), 0.5)
    moments.add(more, features)
    before = dense(moments)[0, 0][1].clone()
    with pytest.raises(UsageError, match=r"groups \(0, 0\) .* cannot be removed.*`decay=1`"):
        moments.remove(samples, features)
    assert torch.equal(dense(moments)[0, 0][1], before)
    whole = samples.take((samples.keys() == torch.tensor([2, 1])).all(dim=1))
    moments.remove(whole, features)
    assert (2, 1) not in moments.keys
    other.merge(moments)
    with pytest.raises(UsageError, match="cannot be removed"):
        other.remove(more, features)


def test_moments_of_other_features_are_not_merged() -> None:
    with pytest.raises(UsageError, match=r"7 features in torch\.float32 cannot be merged"):
        GroupMoments(WIDTH, torch.float64).merge(GroupMoments(WIDTH))


def test_float32_sums_are_within_their_bound() -> None:
    samples = grouped_samples()
    exact, rounded = dense(moments_of(samples)), dense(moments_of(samples, dtype=torch.float32))
    for key, rows in zip(sorted(SIZES), rows_by_group(samples), strict=True):
        phi = features(samples.x[rows]).abs()
        # Each feature is rounded once, each product and each of n sums once.
        bound = (len(rows) + 3) * torch.finfo(torch.float32).eps * (phi.T @ phi)
        assert bool(((rounded[key][2] - exact[key][2]).abs() <= bound).all())
