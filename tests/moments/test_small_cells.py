"""Cells with few rows are pooled before they are summed, and noise has the deviation it says."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.special import ndtr

from faircil.compute import Generators
from faircil.errors import DataError, UsageError
from faircil.learners.moments import Moments
from faircil.learners.moments_options import MomentsOptions
from faircil.moments.features import Raw
from faircil.moments.seen_rows import SeenRows
from faircil.moments.small_cells import Clipped, Noise, pooled, targets_for, unit_deviation
from faircil.nets import build_mlp
from faircil.samples import Samples, concatenate, group_counts
from faircil.weighting.measures import MEASURES
from moment_data import WIDTH, features, grouped_samples, moments_of

EXACT = {"arithmetic": "float64", "features": "raw", "ridge": 0.01}
CELLS = st.tuples(st.integers(0, 2), st.integers(-1, 3))


def learner(**changed: object) -> Moments:
    settings = MomentsOptions.model_validate({**EXACT, **changed})
    made = Moments(build_mlp(WIDTH - 1, 3, (4,), seed=0), settings, Generators.from_seed(0))
    made.measure, made.lam = MEASURES["eo"], 1.0
    return made


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(CELLS, st.integers(1, 30), min_size=1), st.integers(0, 25))
def test_no_small_cell_is_left_and_rows_stay_in_their_class(
    sizes: dict[tuple[int, int], int], least: int
) -> None:
    targets = targets_for(sizes, least)
    after: Counter[tuple[int, ...]] = Counter()
    for key, n in sizes.items():
        target = targets.get(key, key)
        if target is not None:
            assert target[0] == key[0]
            after[target] += n
    assert all(n >= least for n in after.values())
    for label in {key[0] for key in sizes}:
        whole = sum(n for key, n in sizes.items() if key[0] == label)
        kept = sum(n for key, n in after.items() if key[0] == label)
        assert kept == (whole if whole >= least else 0)
    assert targets_for(after, least) == {}


def test_pooled_rows_are_the_same_rows() -> None:
    samples = grouped_samples({(0, 0): 20, (0, 1): 3, (1, 0): 12, (1, 1): 10, (2, 0): 4})
    found = pooled(samples, 10)
    assert group_counts(found.samples) == {(0, 0): 23, (1, 0): 12, (1, 1): 10}
    assert torch.equal(found.samples.x, samples.x[samples.y < 2])
    assert len(found.notes) == 2
    assert found.notes[0].startswith("3 row(s) of groups")
    assert found.notes[1].startswith("4 row(s) of classes")
    assert pooled(found.samples, 10) == (type(found))(found.samples)
    with pytest.raises(DataError, match="none of the classes has 50 rows"):
        pooled(samples, 50)


def test_rows_without_an_attribute_are_left_out_by_class() -> None:
    samples = grouped_samples({(0, 0): 20, (1, 0): 4})
    found = pooled(Samples(samples.x, samples.y), 10)
    assert group_counts(found.samples) == {(0,): 20}


def test_sums_of_pooled_rows_are_exact_and_rows_can_be_removed_from_them() -> None:
    least = 10
    first = grouped_samples({(0, 0): 30, (0, 1): 15, (1, 0): 30, (1, 1): 4, (2, 0): 6, (2, 1): 5})
    second = grouped_samples({(0, 0): 2, (0, 1): 11, (1, 0): 12, (1, 1): 13}, seed=1)
    model = learner(min_cell=least)
    model.learn(first)
    assert model.moments is not None
    before = dict(zip(model.moments.keys, model.moments.count, strict=True))
    assert before == {(0, 0): 30, (0, 1): 15, (1, 0): 34, (2, -1): 11}
    model.learn(second)
    after = dict(zip(model.moments.keys, model.moments.count, strict=True))
    # What a newcomer adds cannot be told from the difference of two versions.
    assert {after[key] - before.get(key, 0) for key in after} <= {0, *range(least, 99)}

    # One of four in another cell, one that went to the unknown group, and one of its own cell.
    gone = [first.keys().tolist().index(key) for key in ([1, 1], [2, 0], [0, 0])]
    rows = first.take(torch.tensor(gone))
    passed = model.forget(rows)
    assert "earlier copy" in passed.notes[0]
    rest = first.take(torch.tensor([i for i in range(len(first)) if i not in gone]))
    kept = dict(zip(model.moments.keys, model.moments.count, strict=True))
    whole = sum(kept.values())
    assert whole == len(rest) + len(second)
    every = concatenate([rest, second])
    phi = model.net.features(every.x)
    torch.testing.assert_close(
        model.moments.combined(torch.ones(len(kept), dtype=torch.float64)), phi.T @ phi
    )


def test_what_a_removal_leaves_of_a_cell_is_pooled_or_left_out() -> None:
    samples = grouped_samples({(0, 0): 30, (0, 1): 10, (1, 0): 10})
    model = learner(min_cell=10)
    model.learn(samples)
    keys = samples.keys().tolist()
    assert model.moments is not None
    model.forget(samples.take(torch.tensor([keys.index([0, 1])])))
    assert dict(zip(model.moments.keys, model.moments.count, strict=True)) == {
        (0, 0): 39,
        (1, 0): 10,
    }
    # Another one of that cell is found where it went.
    others = [i for i, key in enumerate(keys) if key == [0, 1]]
    model.forget(samples.take(torch.tensor([others[1]])))
    passed = model.forget(samples.take(torch.tensor([keys.index([1, 0])])))
    assert "left out" in passed.notes[-1]
    assert dict(zip(model.moments.keys, model.moments.count, strict=True)) == {(0, 0): 38}
    assert model.moments.seen.counts == {(0, 0): 38}
    # What is left out already cannot be removed.
    with pytest.raises(DataError, match="not added"):
        model.forget(samples.take(torch.tensor([len(keys) - 1 - keys[::-1].index([1, 0])])))


def test_a_model_that_would_keep_nothing_is_refused() -> None:
    samples = grouped_samples({(0, 0): 10, (1, 0): 10})
    model = learner(min_cell=10)
    model.learn(samples)
    keys = samples.keys().tolist()
    with pytest.raises(DataError, match="fewer than 10 rows of every class would be left"):
        model.forget(samples.take(torch.tensor([keys.index([0, 0]), keys.index([1, 0])])))


def test_copies_are_removed_as_often_as_they_were_added() -> None:
    samples = grouped_samples({(0, 0): 3})
    elsewhere = Samples(samples.x, samples.y, torch.full_like(samples.y, -1))
    seen = SeenRows()
    seen.add(samples)
    seen.add(elsewhere)
    three = samples.take(torch.tensor([0, 0, 0]))
    assert sorted(seen.placed(three).keys()[:, 1].tolist()) == [-1, 0, 0]
    with pytest.raises(DataError, match="1 of 3 rows"):
        seen.remove(seen.placed(three))
    two = seen.placed(three.take(slice(2)))
    seen.remove(two)
    assert seen.counts == {(0, 0): 2, (0, -1): 2}


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-5), (500, 0.1)])
def test_the_deviation_meets_the_condition_of_the_mechanism(epsilon: float, delta: float) -> None:
    sigma = unit_deviation(epsilon, delta)
    # P(L > ε) of the privacy loss L ~ N(1/(2σ²), 1/σ²), and the other side, as densities say.
    x = np.linspace(-60 * max(sigma, 1), 60 * max(sigma, 1), 400_001)
    here = np.exp(-0.5 * (x / sigma) ** 2 - epsilon)
    there = np.exp(-0.5 * ((x - 1) / sigma) ** 2 - epsilon)
    scale = (x[1] - x[0]) / (sigma * np.sqrt(2 * np.pi))
    excess = (np.maximum(there - np.exp(epsilon) * here, 0) * scale).sum() * np.exp(epsilon)
    if epsilon < 100:  # beyond, the sum over the grid says nothing
        assert excess == pytest.approx(delta, rel=1e-2)
    assert sigma > 0
    assert ndtr(0.5 / sigma - epsilon * sigma) >= delta


def test_noise_has_the_stated_deviation_and_leaves_moments() -> None:
    samples = grouped_samples()
    noise = Noise(2.0, 1e-5, 3.0)
    assert noise.sensitivity == pytest.approx(2**0.5 * 9)
    found = []
    for _ in range(40):
        moments = moments_of(samples)
        # With a large multiple of the identity, no eigenvalue is negative: noise alone is left.
        for flat in moments.cells():
            flat.add_(moments.panels.packed(1e9 * torch.eye(WIDTH, dtype=torch.float64)))
        exact = [moments.panels.unpacked(flat) for flat in moments.cells()]
        moments.count = [float(one[-1, -1]) for one in exact]
        noise.hide(moments)
        assert len(moments.seen) == 0
        for one, flat in zip(exact, moments.cells(), strict=True):
            away = moments.panels.unpacked(flat) - one
            # Rounding of 1e9, a few times.
            torch.testing.assert_close(away, away.T, rtol=0, atol=1e-5)
            found += away[torch.triu(torch.ones_like(away)).bool()][:-1].tolist()
    # 40 · 6 · 27 draws: their deviation is known within 1/√(2 · 6480) = .9 %, five times that.
    assert np.std(found) == pytest.approx(noise.deviation, rel=0.045)

    moments = moments_of(samples)
    sizes = list(moments.count)
    noise.hide(moments)
    assert moments.count == sizes
    for n, first, flat in zip(moments.count, moments.first, moments.cells(), strict=True):
        second = moments.panels.unpacked(flat)
        assert torch.linalg.eigvalsh(second - torch.outer(first, first) / n)[0] > -1e-9 * n
        torch.testing.assert_close(second[:, -1], first)
        assert float(first[-1]) == pytest.approx(n)


def test_features_are_clipped_with_their_constant() -> None:
    samples = grouped_samples()
    raw = Raw(samples.x)
    clipped = Clipped(raw, 2.0)
    phi, before = clipped(samples.x), raw(samples.x)
    assert torch.all(phi[:, -1] == 1)
    # Rounding of the scale and of the products.
    assert float(phi.norm(dim=1).max()) <= 2 * (1 + 1e-6)
    within = before.norm(dim=1) <= 2
    assert within.any()
    torch.testing.assert_close(phi[within], before[within])


def test_a_learner_with_noise_keeps_no_check_sums_and_forgets_nothing() -> None:
    samples = grouped_samples({(0, 0): 200, (0, 1): 200, (1, 0): 200, (1, 1): 200})
    one, other = learner(noise_epsilon=5.0, clip_norm=3.0), learner(noise_epsilon=5.0)
    one.learn(samples)
    other.learn(samples)
    assert one.moments is not None
    assert len(one.moments.seen) == 0
    assert isinstance(one.net.features, Clipped)
    assert other.noise is not None
    assert other.noise.norm == WIDTH**0.5
    # Not drawn from the seed, by which everybody could draw it again.
    again = learner(noise_epsilon=5.0, clip_norm=3.0)
    again.learn(samples)
    assert again.moments is not None
    assert not torch.equal(one.moments.first[0], again.moments.first[0])
    with pytest.raises(UsageError, match="sums with noise"):
        one.forget(samples.take(slice(1)))
    with pytest.raises(UsageError, match="noise is for exact ones"):
        learner(noise_epsilon=5.0, rank=2).learn(samples)


def test_sums_with_the_default_are_exact() -> None:
    samples = grouped_samples({(0, 0): 1, (1, 0): 2})
    model = learner()
    assert model.admitted(samples) == (samples, ())
    assert features(samples.x).shape[1] == WIDTH
