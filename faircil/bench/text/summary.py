"""Rounds in medians, and the shares of an epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from faircil.bench.text.cases import TRAININGS, Embedding
from faircil.bench.text.gauge import Cost
from faircil.bench.text.record import EmbeddingRound, EpochRound
from faircil.bench.text.workload import BATCH, Workload


@dataclass(frozen=True)
class Epoch:
    """Seconds of an epoch.

    Parameters
    ----------
    name : str
    samples : int
        Of the task, that it trains on.
    forward : float
        The one pass through the encoder that the statistics need.
    beyond : float
        The statistics beyond that pass.
    lp : float
        The linear program.
    training : float
    """

    name: str
    samples: int
    forward: float
    beyond: float
    lp: float
    training: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.forward + self.beyond + self.lp + self.training

    @property
    def share_beyond(self) -> float:
        """Part of the epoch that statistics and program take, that pass not counted."""
        return (self.beyond + self.lp) / self.total


def beyond_pass(rounds: Sequence[EpochRound]) -> float:
    """Return the seconds of the statistics beyond one pass.

    The larger of two: the statistics less the pass, whose noise is that of the pass, and the
    statistics from stored features, which lack what only the whole net needs.
    """
    rest = median(one.statistics.seconds - one.forward.seconds for one in rounds)
    return max(rest, median(one.on_stored.seconds for one in rounds))


def epochs_of(rounds: Sequence[EpochRound], workload: Workload) -> list[Epoch]:
    """Return an epoch of plain replay, of FSW if it kept all texts, and with those it keeps."""
    first = rounds[0]
    rate = median(one.training[TRAININGS[0].name].rate for one in rounds)
    forward = median(one.forward.seconds for one in rounds)
    weights = (forward, beyond_pass(rounds), median(one.lp for one in rounds))

    def training(samples: int) -> float:
        steps = -(-samples // BATCH)
        return (samples + steps * min(BATCH, first.buffer)) * workload.tokens / rate

    kept = round(median(one.kept for one in rounds))
    return [
        Epoch("plain replay", first.samples, 0.0, 0.0, 0.0, training(first.samples)),
        Epoch("FSW, all texts kept", first.samples, *weights, training(first.samples)),
        Epoch("FSW, texts kept by its weights", kept, *weights, training(kept)),
    ]


def parts_of(rounds: Sequence[EpochRound]) -> dict[str, Cost]:
    """Return the medians of what goes through the encoder, by name."""
    parts = {
        "one pass without gradients": [one.forward for one in rounds],
        "statistics, that pass included": [one.statistics for one in rounds],
    }
    for way in TRAININGS:
        parts[way.name] = [one.training[way.name] for one in rounds]
    return {name: middle(costs) for name, costs in parts.items()}


def embeddings_of(rounds: Sequence[EmbeddingRound]) -> dict[Embedding, Cost]:
    """Return the medians of the ways to embed."""
    cases = dict.fromkeys(one.case for one in rounds)
    return {case: middle([one.cost for one in rounds if one.case == case]) for case in cases}


def middle(costs: Sequence[Cost]) -> Cost:
    """Return the median of the seconds and the largest peak of costs of the same work."""
    peaks = [cost.memory for cost in costs if cost.memory is not None]
    seconds = median(cost.seconds for cost in costs)
    return Cost(seconds, costs[0].tokens, max(peaks) if peaks else None)
