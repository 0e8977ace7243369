"""FSWPlugin: fair sample weights and replay for Avalanche strategies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import copy
from itertools import chain, repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset

from faircil.buffer import ReplayBuffer
from faircil.errors import DataError, UsageError
from faircil.samples import Samples, group_counts
from faircil.weighting.choice import WeightResult
from faircil.weighting.weights import FairSampleWeights

try:
    from avalanche.training.plugins import SupervisedPlugin
except ModuleNotFoundError as error:
    if error.name != "avalanche":
        raise
    SupervisedPlugin = None


class FSWPlugin(SupervisedPlugin or object):  # type: ignore[misc]
    """Replays samples of each group, and weights the losses of the current samples.

    At the start of each training epoch, from the second experience on, it computes the weights. A
    memory batch is added to each batch of the experience, and the loss is the mean over both of
    ``w_i · loss_i``, with weight 1 for memory samples. Since it includes replay, it cannot be
    combined with other plugins that set the data loader.

    Parameters
    ----------
    weigh : FairSampleWeights, optional
        The weighting; by default one with default settings.
    sensitive : str, optional
        Name of the data attribute with the attribute value of each sample; None for measures such
        as ``eer`` that need none.
    quota : int
        Samples of each group to keep; see :class:`faircil.ReplayBuffer`.
    batch_size_mem : int, optional
        Memory samples per batch; by default as many as of the experience.
    seed : int
        Seed for the selection of memory samples.
    """

    def __init__(
        self,
        weigh: FairSampleWeights | None = None,
        *,
        sensitive: str | None = None,
        quota: int = 32,
        batch_size_mem: int | None = None,
        seed: int = 0,
    ) -> None:
        if SupervisedPlugin is None:
            raise UsageError("Avalanche is not installed; run: pip install avalanche-lib")
        super().__init__()
        self.weigh = FairSampleWeights() if weigh is None else weigh
        self.buffer = ReplayBuffer(quota)  # its inputs are row numbers over all experiences so far
        self.result: WeightResult | None = None
        self._sensitive, self._batch_size_mem, self._seed = sensitive, batch_size_mem, seed
        self._past: list[Any] = []  # datasets of the experiences
        self._rows = torch.empty(0, dtype=torch.int64)  # rows of the batch's current samples

    def before_training_exp(
        self, strategy: Any, num_workers: int = 0, shuffle: bool = True, **_: Any
    ) -> None:
        """Add a memory batch to each batch of the experience."""
        if self.buffer.samples is None:
            return
        size = strategy.train_mb_size
        current = _Numbered(strategy.adapted_dataset)
        new = DataLoader(current, size, shuffle, num_workers=num_workers)
        old = DataLoader(self._replayed(self._past), self._batch_size_mem or size, shuffle=True)
        strategy.dataloader = _Joined(self, new, old)

    def before_training_epoch(self, strategy: Any, **_: Any) -> None:
        """Compute the weights."""
        if self.buffer.samples is None:
            return
        current = self._labelled(strategy.adapted_dataset)
        memory = self._replayed([self._labelled(dataset) for dataset in self._past])
        seen = Counter(group_counts(current.labels)) + Counter(self.buffer.seen)
        generator = torch.Generator().manual_seed(self._seed)
        self.result = self.weigh(strategy.model, current, memory, seen=seen, generator=generator)

    def before_backward(self, strategy: Any, **_: Any) -> None:
        """Weight the losses of the current samples."""
        if self.result is None:
            return
        losses = _unreduced(strategy._criterion)(strategy.mb_output, strategy.mb_y)
        weights = self.result.weights[self._rows.to(self.result.weights.device)].to(losses)
        # The strategy has already added the mean loss, and other plugins may have added to it.
        change = ((weights - 1) * losses[: len(weights)]).sum() / len(losses)
        strategy.loss = strategy.loss + change

    def after_training_exp(self, strategy: Any, **_: Any) -> None:
        """Select samples for the memory."""
        labels = self._labelled(strategy.adapted_dataset).labels
        rows = sum(map(len, self._past)) + torch.arange(len(labels))
        weights = None if self.result is None else self.result.weights.cpu()
        self.buffer = self.buffer.add(Samples(rows, labels.y, labels.z), weights, seed=self._seed)
        self._past.append(strategy.adapted_dataset)
        self.result = None

    def _labelled(self, dataset: Any) -> _Labelled:
        return _Labelled(dataset, self._sensitive)

    def _replayed(self, datasets: list[Any]) -> Subset[Any]:
        """Return the samples of the memory, given the datasets of the experiences."""
        assert self.buffer.samples is not None
        return Subset(ConcatDataset(datasets), self.buffer.samples.x.tolist())


class _Labelled(Dataset[Any]):
    """Input, class and, if there is one, attribute value of each sample of an experience."""

    def __init__(self, dataset: Any, sensitive: str | None) -> None:
        self._dataset = dataset
        if sensitive is not None and not hasattr(dataset, sensitive):
            raise DataError(
                f"the experience has no data attribute '{sensitive}'; make its dataset with "
                f"data_attributes=[DataAttribute(values, '{sensitive}')]"
            )
        values = None if sensitive is None else list(getattr(dataset, sensitive))
        z = None if values is None else torch.as_tensor(values, dtype=torch.int64)
        y = torch.as_tensor(list(dataset.targets), dtype=torch.int64)
        self.labels = Samples(torch.empty(len(y), 0), y, z)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, row: int) -> tuple[Any, ...]:
        z, y = self.labels.z, self.labels.y[row]
        return (self._dataset[row][0], y) if z is None else (self._dataset[row][0], y, z[row])


class _Numbered(Dataset[Any]):
    """Samples with their row numbers."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, row: int) -> tuple[int, Any]:
        return row, self._dataset[row]


class _Joined:
    """Batches of the experience, each followed by a memory batch."""

    def __init__(self, plugin: FSWPlugin, new: DataLoader[Any], old: DataLoader[Any]) -> None:
        self._plugin, self._new, self._old = plugin, new, old

    def __len__(self) -> int:
        return len(self._new)

    def __iter__(self) -> Iterator[list[Tensor]]:
        replayed = chain.from_iterable(repeat(self._old))
        for (rows, new), old in zip(self._new, replayed, strict=False):
            self._plugin._rows = rows
            yield [torch.cat(parts) for parts in zip(new, old, strict=True)]


def _unreduced(criterion: nn.Module) -> nn.Module:
    """Return a criterion that gives unreduced losses."""
    if getattr(criterion, "reduction", None) != "mean":
        raise UsageError(
            f"the criterion {type(criterion).__name__} does not have reduction='mean', and each "
            "sample's loss is needed; use one of torch's losses, such as nn.CrossEntropyLoss()"
        )
    single = copy(criterion)
    single.reduction = "none"  # type: ignore[assignment]
    return single
