from __future__ import annotations

import pytest
import torch

from faircil.learners import LEARNERS
from faircil.moments import features, on_gpu
from faircil.moments.features import RandomRelu, Standardise, mean_and_deviation
from faircil.moments.on_gpu import on_device, parts_on
from faircil.samples import Samples
from learning import new_learner

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
