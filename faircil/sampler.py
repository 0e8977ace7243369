"""FairSampler: weighted draws of current and replayed samples for any ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from faircil.errors import DataError, UsageError, raise_all, whole_mistakes
from faircil.weighting.choice import WeightResult
from faircil.weighting.selection import KEEP_ABOVE, draw_rows, fair_chances


class FairSampler(Sampler[int]):
    """Draws the samples of an epoch by their weights, with replacement.

    With this sampler, a ``DataLoader`` needs no weights in the loss: a sample of weight ½ is drawn
    half as often as one of weight 1. Until :meth:`set_weights` is called, all weights are 1.

    Parameters
    ----------
    current : int or sized
        The current samples, or their number n: rows 0 to n − 1 of the loader's dataset.
    memory : int or sized
        The replayed samples, or their number m: the rows after the current ones, as in
        ``ConcatDataset([current, memory])``.
    replay : float
        Fraction of draws from the memory, uniform over its rows; no effect without a memory.
    equally : float, optional
        If given, this fraction of the current draws is divided equally among all groups, and the
        rest among groups by their mean weight, regardless of group size. With ½ these are the
        fair draws of a run with ``keep="draw"``. None: draws follow the weights only.
    length : int, optional
        Draws per epoch; by default the number of weights above .05, plus m. Training loops that
        request the length only once need a fixed one.
    seed : int
        Determines the draws, together with the epoch.
    generator : torch.Generator, optional
        Source of the draws, instead of seed and epoch.

    Examples
    --------
    >>> sampler = FairSampler(4, memory=2, length=8)
    >>> len(list(sampler)), set(sampler) <= set(range(4 + 2))
    (8, True)
    """

    def __init__(
        self,
        current: int | Sized,
        *,
        memory: int | Sized = 0,
        replay: float = 0.5,
        equally: float | None = None,
        length: int | None = None,
        seed: int = 0,
        generator: torch.Generator | None = None,
    ) -> None:
        self._n, self._m = (
            part if isinstance(part, int) else len(part) for part in (current, memory)
        )
        self._replay, self._equally, self._length = replay, equally, length
        self._seed, self._generator = seed, generator
        self._epoch = 0
        shares = {"replay": replay, "equally": 0.0 if equally is None else equally}
        mistakes = [
            f"{name} is {share:g}, expected a share from 0 to 1"
            for name, share in shares.items()
            if not 0 <= share <= 1
        ]
        if self._n < 1:
            mistakes.append("there are no current samples to draw from")
        if self._m < 0:
            mistakes.append(f"memory is {self._m}, expected a number of replayed samples")
        mistakes += whole_mistakes(seed=seed)
        if length is not None and length < 1:
            mistakes.append(f"length is {length}, expected a number of draws above 0, or None")
        raise_all(mistakes)
        self._weights: Tensor = torch.ones(self._n)
        self._group: Tensor = torch.zeros(self._n, dtype=torch.int64)

    def set_weights(self, result: WeightResult) -> None:
        """Use these weights from the next epoch on.

        Parameters
        ----------
        result : WeightResult
            Weights of the n current samples, in the order of the dataset.
        """
        if not isinstance(result, WeightResult):
            raise UsageError(
                f"weights are a {type(result).__name__}, expected what FairSampleWeights returned"
            )
        if len(result.weights) != self._n:
            raise DataError(
                f"there are {len(result.weights)} weights and {self._n} current samples to draw; "
                "weigh the same samples"
            )
        if self._length is not None and not self._m and not _kept(result.weights):
            raise DataError(
                f"no weight is above {KEEP_ABOVE:g}, so there is nothing to draw {self._length} "
                "samples from; skip this epoch, give the sampler a memory, or weigh with a smaller "
                "alpha"
            )
        self._weights, self._group = result.weights.detach(), result.group

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, from 0; each pass over the sampler adds 1."""
        raise_all(whole_mistakes(epoch=epoch))
        self._epoch = epoch

    def __len__(self) -> int:
        return _kept(self._weights) + self._m if self._length is None else self._length

    def __iter__(self) -> Iterator[int]:
        # A generator function, so that drawing starts with the first sample: after callbacks that
        # set weights at the start of an epoch, even if the loader's iterator already exists.
        generator = self._generator
        if generator is None:
            seed = np.random.SeedSequence([self._seed, self._epoch]).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(seed[0] >> 1))
        self._epoch += 1
        if len(self):
            yield from draw_rows(self._chances(), len(self), generator).tolist()

    def _chances(self) -> Tensor:
        """Return the probability of each row, (n + m,)."""
        if not _kept(self._weights):
            now = torch.zeros(self._n, dtype=torch.float64)
        elif self._equally is None:
            now = self._weights.double().cpu()
            now = now / now.sum()
        else:
            now = fair_chances(self._weights, self._group, self._equally)
        if not self._m:
            return now
        old = torch.full((self._m,), 1 / self._m, dtype=torch.float64)
        # If no current sample can be drawn, all draws are from the memory.
        replay = self._replay if now.any() else 1.0
        return torch.cat([(1 - replay) * now, replay * old])


def _kept(weights: Tensor) -> int:
    return int((weights > KEEP_ABOVE).sum())
