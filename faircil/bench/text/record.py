"""What a benchmark of text encoders leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faircil.bench.record import Circumstances
from faircil.bench.text.cases import Embedding
from faircil.bench.text.gauge import Cost
from faircil.bench.text.workload import Workload


@dataclass(frozen=True)
class EpochRound:
    """The parts of an epoch of the last task, measured one after another.

    Parameters
    ----------
    number : int
        From 1.
    samples, buffer, groups : int
        Texts of the task and of the buffer, and groups that are compared.
    forward : Cost
        One pass of task and buffer through the encoder, without gradients.
    statistics : Cost
        All that the program needs, that pass included.
    on_stored : Cost
        The same from features that are there already: all but the pass.
    lp : float
        Seconds of the linear program.
    kept : int
        Texts that an epoch with its weights trains on.
    training : mapping
        Cost of some training steps, by the name of the way to train.
    """

    number: int
    samples: int
    buffer: int
    groups: int
    forward: Cost
    statistics: Cost
    on_stored: Cost
    lp: float
    kept: int
    training: Mapping[str, Cost]


@dataclass(frozen=True)
class EmbeddingRound:
    """What it took to embed texts with a frozen encoder.

    Parameters
    ----------
    number : int
        From 1.
    case : Embedding
    rows : int
    cost : Cost
    """

    number: int
    case: Embedding
    rows: int
    cost: Cost


TextOutcome = EpochRound | EmbeddingRound


@dataclass(frozen=True)
class TextResults(Circumstances):
    """A benchmark of an encoder.

    Parameters
    ----------
    workload : Workload
    outcomes : tuple of EpochRound and EmbeddingRound
    """

    workload: Workload
    outcomes: tuple[TextOutcome, ...]

    @property
    def epochs(self) -> list[EpochRound]:
        """The rounds of epochs."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, EpochRound)]

    @property
    def embeddings(self) -> list[EmbeddingRound]:
        """The rounds of embedding."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, EmbeddingRound)]
