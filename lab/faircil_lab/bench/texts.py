"""What a large text encoder costs: its workload, what is timed, what is recorded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch

from faircil.errors import UsageError, raise_all
from faircil.text.passes import TOKEN_BUDGET
from faircil_lab.bench.measuring import Circumstances, medians
from faircil_lab.wording import seconds_text

CLASSES, TASKS, ATTRIBUTES = 25, 5, 2  # of BiasBios: professions, tasks, genders
QUOTA = 32  # samples of each earlier group in the buffer
BATCH = 64  # current samples of a step, and as many replayed ones
HEAD_WIDTH = 64  # numbers of an attention head, as in BERT
LEAST_TOKENS = 4  # a first one and a few words


@dataclass(frozen=True)
class EncoderWorkload:
    """An encoder of BERT's kind and a corpus; the defaults are BERT-base and BiasBios.

    Parameters
    ----------
    layers, hidden : int
        Of the encoder.
    rows : int
        Texts for training, of all tasks.
    tokens : int
        Of each text.
    steps : int
        Training steps that are timed in a round.
    repeats : int
        Rounds.
    """

    layers: int = 12
    hidden: int = 768
    rows: int = 253_000
    tokens: int = 128
    steps: int = 100
    repeats: int = 3

    def __post_init__(self) -> None:
        least = {
            "layers": 1,
            "hidden": 1,
            "rows": CLASSES * ATTRIBUTES,
            "tokens": LEAST_TOKENS,
            "steps": 1,
            "repeats": 1,
        }
        mistakes = [
            f"--{name} is {getattr(self, name)}, expected at least {bound}"
            for name, bound in least.items()
            if getattr(self, name) < bound
        ]
        if self.hidden > HEAD_WIDTH and self.hidden % HEAD_WIDTH:
            mistakes.append(
                f"--hidden is {self.hidden}, expected a multiple of {HEAD_WIDTH}, the width of an "
                f"attention head, or less than {HEAD_WIDTH}"
            )
        raise_all(mistakes)

    @property
    def flops_per_token(self) -> float:
        """Products and sums of a forward pass, per token.

        A layer has 4 d² weights in its attention and 8 d² in its feed-forward part, each one
        product and one sum; attention compares a token with all others and adds them up.
        """
        return self.layers * (24.0 * self.hidden**2 + 4.0 * self.tokens * self.hidden)


@dataclass(frozen=True)
class Training:
    """A way to train.

    Parameters
    ----------
    token_budget : int
        Tokens whose activations are in memory at once. A step with more goes through the encoder
        twice.
    shortest : float
        Length of the shortest text, as a part of the longest; lengths are drawn evenly.
    recorded : bool
        Whether steps are recorded as CUDA graphs, as a run does on a GPU where they can be.
    """

    token_budget: int = TOKEN_BUDGET
    shortest: float = 1.0
    recorded: bool = True

    @property
    def name(self) -> str:
        """What people call it."""
        words = [f"training, {self.token_budget:,} tokens at once"]
        if self.shortest < 1:
            words.append("texts of all lengths")
        if not self.recorded:
            words.append("steps not recorded")
        return ", ".join(words)


@dataclass(frozen=True)
class Embedding:
    """A way to embed the corpus with a frozen encoder.

    Parameters
    ----------
    part : float
        Of the corpus; all of it is embedded only once, not in each round.
    token_budget : int
    precision : str
        See :class:`faircil.text.passes.Passing`.
    shortest : float
        Length of the shortest text, as a part of the longest; lengths are drawn evenly.
    """

    part: float
    token_budget: int = TOKEN_BUDGET
    precision: str = "auto"
    shortest: float = 1.0

    @property
    def name(self) -> str:
        """What people call it."""
        corpus = "the whole corpus" if self.part == 1 else f"{100 * self.part:g} % of the corpus"
        words = [f"{self.token_budget:,} tokens at once", corpus]
        if self.shortest < 1:
            words.append("texts of all lengths")
        if self.precision != "auto":
            words.append(self.precision)
        return ", ".join(words)


# The first of each is what a run does by default; the sentences of the page are about it.
SHORTEST = 0.125
TRAININGS = (Training(), Training(TOKEN_BUDGET // 4), Training(shortest=SHORTEST))
# On a GPU, for comparison.
ORDINARY = (Training(recorded=False), Training(shortest=SHORTEST, recorded=False))
EMBEDDINGS = (
    Embedding(0.1),
    Embedding(0.1, token_budget=4 * TOKEN_BUDGET),
    Embedding(0.1, token_budget=TOKEN_BUDGET // 4),
    Embedding(0.1, shortest=SHORTEST),
    Embedding(0.01, precision="float32"),
    Embedding(1.0),
)


Result = TypeVar("Result")


@dataclass(frozen=True)
class EncoderCost:
    """What a piece of work took.

    Parameters
    ----------
    seconds : float
    tokens : int
        That went through the encoder; padding does not count.
    memory : float or None
        Peak of the GPU in GiB, with all that was there before; None on a CPU.
    """

    seconds: float
    tokens: int
    memory: float | None

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def gauge(
    work: Callable[[], Result], device: torch.device, tokens: int = 0
) -> tuple[Result, EncoderCost]:
    """Do the work; return what it returns, and what it took until the device was done."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    start = time.perf_counter()
    result = work()
    if on_gpu:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    memory = torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu else None
    return result, EncoderCost(seconds, tokens, memory)


@dataclass(frozen=True)
class EpochRound:
    """The parts of an epoch of the last task, measured one after another.

    Parameters
    ----------
    number : int
        From 1.
    samples, buffer, groups : int
        Texts of the task and of the buffer, and groups that are compared.
    forward : EncoderCost
        One pass of task and buffer through the encoder, without gradients.
    statistics : EncoderCost
        All that the program needs, that pass included.
    on_stored : EncoderCost
        The same from features that are there already: all but the pass.
    lp : float
        Seconds of the linear program.
    kept : int
        Texts that an epoch with its weights trains on.
    training : mapping
        EncoderCost of some training steps, by the name of the way to train.
    """

    number: int
    samples: int
    buffer: int
    groups: int
    forward: EncoderCost
    statistics: EncoderCost
    on_stored: EncoderCost
    lp: float
    kept: int
    training: Mapping[str, EncoderCost]


@dataclass(frozen=True)
class EmbeddingRound:
    """What it took to embed texts with a frozen encoder.

    Parameters
    ----------
    number : int
        From 1.
    case : Embedding
    rows : int
    cost : EncoderCost
    """

    number: int
    case: Embedding
    rows: int
    cost: EncoderCost


TextOutcome = EpochRound | EmbeddingRound


@dataclass(frozen=True)
class TextResults(Circumstances):
    """A benchmark of an encoder.

    Parameters
    ----------
    workload : EncoderWorkload
    outcomes : tuple of EpochRound and EmbeddingRound
    """

    workload: EncoderWorkload
    outcomes: tuple[TextOutcome, ...]

    @property
    def epochs(self) -> list[EpochRound]:
        """The rounds of epochs."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, EpochRound)]

    @property
    def embeddings(self) -> list[EmbeddingRound]:
        """The rounds of embedding."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, EmbeddingRound)]


SIZE = 512  # rows and columns of the product that is timed
BACKWARD = 2  # passes that a backward pass is worth
PATIENCE = 600.0  # seconds that need no confirmation


def flops(workload: EncoderWorkload) -> float:
    """Return the products and sums of the whole benchmark, roughly."""
    task = workload.rows / TASKS * workload.tokens
    step = 2 * BATCH * workload.tokens
    # A way to train with a smaller budget goes forward twice.
    passes = sum(1 + BACKWARD + (step > way.token_budget) for way in TRAININGS)
    steps = min(workload.steps, -(-workload.rows // TASKS // BATCH))
    tokens = (1 + workload.repeats) * (2 * task + steps * step * passes)
    for case in EMBEDDINGS:
        times = 1 if case.part == 1 else workload.repeats
        tokens += times * case.part * workload.rows * workload.tokens
    return tokens * workload.flops_per_token


def cpu_seconds(workload: EncoderWorkload) -> float:
    """Return how long this CPU would take, from the time of a matrix product."""
    matrix = torch.ones(SIZE, SIZE)
    seconds = medians({"product": lambda: matrix @ matrix}, 5)["product"]
    return flops(workload) / (2 * SIZE**3 / seconds)


def refuse_if_long(workload: EncoderWorkload) -> None:
    """Raise a UsageError if this CPU would take longer than people wait."""
    seconds = cpu_seconds(workload)
    if seconds > PATIENCE:
        raise UsageError(
            f"there is no GPU, and this CPU would take about {seconds_text(seconds)}; take less "
            "with --rows, --steps and --repeats, a smaller encoder with --layers and --hidden, or "
            "measure anyway with --device cpu"
        )
