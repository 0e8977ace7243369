from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faircil.learners import LEARNERS
from faircil.moments import features, group_moments, on_gpu
from faircil.moments.features import RandomRelu, Raw, Standardise, mean_and_deviation
from faircil.moments.group_moments import GroupMoments, Panels
from faircil.moments.on_gpu import (
    WideSum,
    multiplies_wide,
    on_device,
    parts_on,
    rows_at_once,
    tf32_allowed,
)
from faircil.samples import Samples
from learning import new_learner
from moment_data import WIDTH, grouped_samples, moments_of

CPU, META = torch.device("cpu"), torch.device("meta")


def test_samples_that_are_there_come_at_once_and_as_they_are() -> None:
    samples = Samples(torch.randn(5, 2), torch.arange(5))
    (found,) = on_device(samples, CPU)
    assert found.x is samples.x
    assert found.y is samples.y


def test_parts_have_all_rows_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(23, 3, 2)
    monkeypatch.setattr(on_gpu, "PART", 5 * 24 + 7)  # bytes: five rows
    parts = list(parts_on(x, CPU))
    assert [rows.stop - rows.start for rows, _ in parts] == [5, 5, 5, 5, 3]
    assert torch.equal(torch.cat([part for _, part in parts]), x)
    assert torch.equal(torch.cat([x[rows] for rows, _ in parts]), x)
    monkeypatch.setattr(on_gpu, "PART", 1)  # a row is more: then row by row
    assert len(list(parts_on(x, CPU))) == 23
    assert list(parts_on(x[:0], CPU)) == []


def test_samples_elsewhere_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = Samples(torch.randn(7, 2), torch.arange(7), torch.arange(14).reshape(7, 2))
    monkeypatch.setattr(on_gpu, "PART", 3 * 8)
    monkeypatch.setattr(on_gpu, "free_memory", lambda _: None)
    parts = list(on_device(samples, META))
    assert [(part.x.shape, part.y.shape, part.z.shape) for part in parts if part.z is not None] == [
        ((n, 2), (n,), (n, 2)) for n in (3, 3, 1)
    ]
    assert all(part.x.device == META for part in parts)


def test_a_part_leaves_memory_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(64, 2)
    monkeypatch.setattr(on_gpu, "free_memory", lambda _: 16 * 8 * on_gpu.OF_FREE)
    assert len(list(parts_on(x, CPU))) == 4


def test_mean_and_deviation_by_parts_are_those_of_the_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_gpu, "PART", 1000)
    monkeypatch.setattr(features, "AT_ONCE", 20)
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    x[:, 1] = x[:, 1] * 1e-3 + 1e3  # far from 0: a sum of squares of these would lose all digits
    x[:, 2] = 5.0
    mean, deviation = mean_and_deviation(x, CPU)
    exact = x.double()
    torch.testing.assert_close(mean, exact.mean(dim=0).float(), rtol=1e-7, atol=0)
    torch.testing.assert_close(
        deviation, exact.std(dim=0, correction=0).float(), rtol=1e-6, atol=1e-12
    )


def test_features_for_another_device_are_fitted_there(monkeypatch: pytest.MonkeyPatch) -> None:
    x = (torch.rand(200, 40, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    asked = []

    def counted(rows: torch.Tensor, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append(device)
        return rows.mean(dim=0), rows.std(dim=0, correction=0)

    monkeypatch.setattr(features, "mean_and_deviation", counted)
    plain = RandomRelu(x, 30, torch.Generator().manual_seed(1))
    assert len(plain.at_zero) == 40  # gathered on a CPU
    other = RandomRelu(x, 30, torch.Generator().manual_seed(1), device=torch.device("cuda"))
    assert len(other.at_zero) == 0
    assert asked == [torch.device("cuda")]
    torch.testing.assert_close(other(x), plain(x), rtol=1e-4, atol=1e-5)
    assert torch.equal(Standardise(x, CPU).mean, Standardise(x).mean)
    assert len(asked) == 1


@pytest.mark.parametrize("method", LEARNERS)
def test_only_learners_that_say_so_take_rows_of_the_host(method: str) -> None:
    assert new_learner(method).takes_host_rows == (method == "moments")
    if method == "moments":
        assert not new_learner(method, features="patches").takes_host_rows
        assert not new_learner(method, features="trained").takes_host_rows


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
EPS = 2.0**-24  # half a unit in the last place of float32


def drawn(n: int, width: int, seed: int = 0) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).relu()


@pytest.mark.parametrize("wide", [False, True])
def test_sums_in_float64_are_those_of_the_rows(wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_moments, "PANEL", 4)
    phi, panels = drawn(50, 9), Panels(9)
    summed = WideSum(panels, phi.device, wide=wide)
    summed.clear()
    for part in phi.split(16):
        summed.add(part)
    exact = phi.double().T @ phi.double()
    found = panels.unpacked(summed.second)
    # A product of 16 rows in float32 is off by up to 16 roundings of sums of positive numbers.
    bound = 0 if wide else 16 * EPS
    torch.testing.assert_close(found, exact, rtol=bound + 1e-14, atol=0)
    torch.testing.assert_close(summed.first, phi.double().sum(dim=0), rtol=1e-14, atol=0)
    first, second = torch.zeros(9), torch.zeros(panels.size)
    summed.move(first, second, 1)
    torch.testing.assert_close(panels.unpacked(second).double(), found, rtol=EPS, atol=0)
    summed.move(first, second, -1)
    assert float(first.abs().max()) <= EPS * float(summed.first.max())
    assert float(second.abs().max()) <= EPS * float(found.max())
    summed.clear()
    assert not summed.first.any()
    assert not summed.second.any()


def test_moments_are_the_same_as_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_gpu, "ROWS", 8)
    monkeypatch.setattr(on_gpu, "NUMBERS", 0)
    samples = grouped_samples()
    expected = moments_of(samples)
    found = GroupMoments(WIDTH, torch.float64)
    cells = {key: (samples.keys() == torch.tensor(key)).all(dim=1) for key in expected.keys}
    found._open(expected.keys)
    rows = {key: own.nonzero()[:, 0] for key, own in cells.items()}
    for sign in (1, 1, -1):
        found._sum_on_gpu(samples, lambda x: torch.cat([x, x[:, :1] * 0 + 1], dim=1), sign, rows)
    assert found.count == expected.count
    for mine, theirs in zip(found.first, expected.first, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    for mine, theirs in zip(found.cells(), expected.cells(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_chunks_are_large_but_bounded() -> None:
    assert rows_at_once(32_000) == on_gpu.ROWS
    assert rows_at_once(500) * 500 <= on_gpu.NUMBERS < (rows_at_once(500) + 1) * 500


@pytest.mark.parametrize("allowed", [False, True])
def test_what_the_user_says_of_tf32_counts(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    try:
        torch.backends.cuda.matmul.allow_tf32 = allowed
        assert tf32_allowed() == allowed
        assert multiplies_wide(torch.device("cuda")) != allowed
        assert torch.backends.cuda.matmul.allow_tf32 == allowed  # looked at, not changed
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize(
    ("capability", "wide"), [((9, 0), True), ((8, 6), False), ((12, 0), False)]
)
def test_products_are_wide_where_that_costs_nothing(
    capability: tuple[int, int], wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert multiplies_wide(torch.device("cuda")) == wide
    assert not multiplies_wide(torch.device("cpu"))


def embeddings(n: int, width: int = 40) -> Samples:
    generator = torch.Generator().manual_seed(0)
    y, z = (torch.randint(k, (n,), generator=generator) for k in (3, 2))
    x = torch.randn(n, width, generator=generator)
    x[:, 0] += y
    return Samples(x, y, z)


@needs_gpu
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("kind", ["raw", "relu"])
def test_a_gpu_sums_what_a_cpu_sums(kind: str, wide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_moments, "multiplies_wide", lambda _: wide)
    samples, device = embeddings(30_000), torch.device("cuda")
    generator = torch.Generator().manual_seed(1)
    features = Raw(samples.x) if kind == "raw" else RandomRelu(samples.x, 300, generator)
    exact = GroupMoments(features.width, torch.float64)
    exact.add(samples, features)
    features.to(device)
    for source in (samples, samples.to(device)):  # from the host's memory, and there
        found = GroupMoments(features.width, torch.float32, device)
        found.add(source, features)
        assert (found.keys, found.count) == (exact.keys, exact.count)
        for mine, theirs in zip(found.cells(), exact.cells(), strict=True):
            # Features themselves are rounded, and computed otherwise, in the relu case.
            off = (mine.cpu().double() - theirs).norm() / theirs.norm()
            assert off < (1e-7 if kind == "raw" and wide else 1e-6)
        counted = found.seen.counts
        found.remove(source.take(slice(0, 100)), features)
        assert sum(found.seen.counts.values()) == sum(counted.values()) - 100


@needs_gpu
def test_rows_from_the_host_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = embeddings(10_007, 33)
    monkeypatch.setattr(on_gpu, "PART", 33 * 4 * 1500)
    monkeypatch.setattr(on_gpu, "PIECE", 33 * 4 * 400)
    parts = list(on_gpu.on_device(samples, torch.device("cuda")))
    assert [len(part) for part in parts] == [1500] * 6 + [1007]
    assert torch.equal(torch.cat([part.x.cpu() for part in parts]), samples.x)
    assert torch.equal(torch.cat([part.keys().cpu() for part in parts]), samples.keys())
