"""The plug-in for Avalanche weighs as a learner does, and trains."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from faircil import FaircilError, FairSampleWeights, Samples
from faircil.avalanche import FSWPlugin
from faircil.nets import build_mlp
from faircil.samples import concatenate, group_counts

# Of Avalanche itself, which is told to log nothing.
pytestmark = pytest.mark.filterwarnings("ignore:No loggers specified:UserWarning")


def test_a_missing_avalanche_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircil.avalanche.SupervisedPlugin", None)
    with pytest.raises(FaircilError, match="pip install avalanche-lib"):
        FSWPlugin()


def samples(first: int, n: int) -> Samples:
    draw = torch.Generator().manual_seed(first)
    y = torch.randint(first, first + 2, (n,), generator=draw)
    z = torch.randint(2, (n,), generator=draw)
    return Samples(torch.randn(n, 6, generator=draw) + y[:, None] - z[:, None], y, z)


TASKS = [samples(0, 90), samples(2, 110)]


@pytest.fixture
def experiences() -> Any:
    pytest.importorskip("avalanche", reason="avalanche-lib is not installed; it is large")
    from avalanche.benchmarks import benchmark_from_datasets
    from avalanche.benchmarks.utils import DataAttribute, as_classification_dataset

    def dataset(task: Samples) -> Any:
        assert task.z is not None
        plain = TensorDataset(task.x, task.y)
        plain.targets = task.y.tolist()  # type: ignore[attr-defined]
        made = as_classification_dataset(plain)
        return made.update_data_attribute("sensitive", DataAttribute(task.z.tolist(), "sensitive"))

    return benchmark_from_datasets(train=[dataset(task) for task in TASKS]).train_stream


def strategy(plugin: FSWPlugin, net: nn.Module, criterion: nn.Module | None = None) -> Any:
    from avalanche.training.supervised import Naive

    return Naive(
        model=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.05),
        criterion=criterion or nn.CrossEntropyLoss(),
        train_mb_size=16,
        train_epochs=2,
        plugins=[plugin],
        evaluator=None,
    )


@pytest.mark.parametrize("measure", ["eo", "dp"])
def test_weights_are_those_of_the_samples(experiences: Any, measure: str) -> None:
    weighed: list[Any] = []

    class Watched(FSWPlugin):
        def before_training_epoch(self, strategy: Any, **options: Any) -> None:
            super().before_training_epoch(strategy, **options)
            if self.result is not None:
                state = {name: value.clone() for name, value in strategy.model.state_dict().items()}
                weighed.append((state, self.buffer, self.result))

    weigh = FairSampleWeights(measure=measure, alpha=0.05)
    plugin = Watched(weigh, sensitive="sensitive", quota=5)
    net = build_mlp(6, 4, (8,), 0)
    trained = strategy(plugin, net)
    for experience in experiences:
        before = [p.detach().clone() for p in net.parameters()]
        trained.train(experience)
        assert any((p != old).any() for p, old in zip(net.parameters(), before, strict=True))
    assert len(weighed) == 2  # the epochs of the second experience
    whole = concatenate(TASKS)
    for state, buffer, result in weighed:
        same = build_mlp(6, 4, (8,), 1)
        same.load_state_dict(state)
        memory = TASKS[0].take(buffer.samples.x)
        assert len(memory) == 4 * 5
        expected = weigh(same, TASKS[1], memory, seen=group_counts(whole))
        assert torch.allclose(result.weights, expected.weights, rtol=0, atol=1e-6)
        assert result.partial + result.dropped > 0


def test_the_loss_is_the_weighted_mean(experiences: Any) -> None:
    plugin = FSWPlugin(FairSampleWeights(alpha=0.05), sensitive="sensitive", quota=5)
    trained = strategy(plugin, build_mlp(6, 4, (8,), 0))
    seen: list[float] = []

    def check(strategy: Any) -> None:
        if plugin.result is None:
            return
        losses = nn.functional.cross_entropy(strategy.mb_output, strategy.mb_y, reduction="none")
        rows = plugin._rows
        assert torch.equal(strategy.mb_x[: len(rows)], TASKS[1].x[rows])
        assert strategy.mb_y[len(rows) :].max() < 2  # replayed
        weights = torch.ones_like(losses)
        weights[: len(rows)] = plugin.result.weights[rows]
        seen.append((strategy.loss - (weights * losses).mean()).item())

    trained.plugins[0].after_backward = lambda strategy, **_: check(strategy)
    for experience in experiences:
        trained.train(experience)
    assert len(seen) == 2 * 7
    assert max(map(abs, seen)) <= 1e-6


def test_what_cannot_be_weighed_is_named(experiences: Any) -> None:
    with pytest.raises(FaircilError, match="no data attribute 'sex'"):
        strategy(FSWPlugin(sensitive="sex"), build_mlp(6, 4, (8,), 0)).train(experiences[0])
    plugin = FSWPlugin(sensitive="sensitive")
    criterion = nn.CrossEntropyLoss(reduction="sum")
    trained = strategy(plugin, build_mlp(6, 4, (8,), 0), criterion)
    trained.train(experiences[0])
    with pytest.raises(FaircilError, match="CrossEntropyLoss does not have reduction='mean'"):
        trained.train(experiences[1])
