from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch

from faircil.runs.config import resolve
from faircil_lab.bench import epoch_costs
from faircil_lab.bench.epoch_costs import (
    FACTORS,
    MEMORY,
    STATISTICS,
    measure_epochs,
    measure_growth,
)
from faircil_lab.bench.whole_runs import EpochWorkload

TINY = EpochWorkload(samples=40, groups=2, classes=4, features=3)


def test_one_factor_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch_costs, "STEPS", 1)
    monkeypatch.setattr(
        epoch_costs,
        "FACTORS",
        {"samples": (20, 60), "groups": (3,), "classes": (5,), "features": (7,)},
    )
    points = list(measure_growth(list(FACTORS), torch.device("cpu"), TINY, repeats=1))
    assert [(point.factor, point.value) for point in points] == [
        ("samples", 20), ("samples", 60), ("groups", 3), ("classes", 5), ("features", 7),
    ]  # fmt: skip
    for point in points:
        assert replace(TINY, **{point.factor: point.value}) == point.workload
        assert point.statistics > 0
        assert point.lp > 0


def test_every_factor_is_a_part_of_the_workload() -> None:
    assert set(FACTORS) == {field.name for field in fields(EpochWorkload)}
    assert list(measure_growth([], torch.device("cpu"))) == []


@pytest.mark.parametrize("groups", [1, 3])
def test_generated_data_has_the_size_that_it_says(groups: int) -> None:
    workload = replace(TINY, groups=groups)
    current, memory = epoch_costs._generate(workload, torch.Generator().manual_seed(0))
    assert current.x.shape == (40, 3)
    assert sorted(set(current.y.tolist())) == [2, 3]
    assert len(memory) == 2 * groups * MEMORY
    assert sorted(set(memory.y.tolist())) == [0, 1]
    for part in (current, memory):
        assert part.z is not None
        assert len(torch.unique(part.keys(), dim=0)) == 2 * groups


def test_every_task_but_the_first_is_measured() -> None:
    config = resolve(dataset="toy-groups", overrides=["hidden=8"])
    (epoch,) = measure_epochs(config, torch.device("cpu"), repeats=1)
    assert (epoch.dataset, epoch.measure, epoch.task) == ("toy-groups", "eo", 2)
    assert (epoch.samples, epoch.groups) == (1000, 3)
    assert epoch.forward > 0
    assert set(epoch.statistics) == set(STATISTICS)
    assert all(seconds > 0 for seconds in epoch.statistics.values())
