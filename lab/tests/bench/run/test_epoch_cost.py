from __future__ import annotations

import torch

from faircil.runs.config import resolve
from faircil_lab.bench.epoch_costs import STATISTICS, measure_epochs


def test_every_task_but_the_first_is_measured() -> None:
    config = resolve(dataset="toy-groups", overrides=["hidden=8"])
    (epoch,) = measure_epochs(config, torch.device("cpu"), repeats=1)
    assert (epoch.dataset, epoch.measure, epoch.task) == ("toy-groups", "eo", 2)
    assert (epoch.samples, epoch.groups) == (1000, 3)
    assert epoch.forward > 0
    assert set(epoch.statistics) == set(STATISTICS)
    assert all(seconds > 0 for seconds in epoch.statistics.values())
