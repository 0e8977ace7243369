"""An epoch of FSW with a net that is fine-tuned, part by part."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from faircil.buffer import ReplayBatches, ReplayBuffer
from faircil.compute import Generators, enough_memory
from faircil.learners import LEARNERS, Batch, Learner
from faircil.nets import evaluating
from faircil.options import ReplayOptions
from faircil.runs.graphs import GraphedStep
from faircil.samples import Samples
from faircil.text.embeddings import shard_rows
from faircil.text.encoders import Encoder, text_module
from faircil.text.passes import FROZEN, Passing, encode, row_lengths
from faircil.text.text_net import TextNet
from faircil.weighting.choice import WeightResult
from faircil.weighting.selection import select, select_all
from faircil.weighting.weights import AUTO_BUDGET, FairSampleWeights
from faircil_lab.bench.texts import (
    ATTRIBUTES,
    BATCH,
    CLASSES,
    EMBEDDINGS,
    HEAD_WIDTH,
    ORDINARY,
    QUOTA,
    TASKS,
    TRAININGS,
    Embedding,
    EmbeddingRound,
    EncoderCost,
    EncoderWorkload,
    EpochRound,
    TextOutcome,
    Training,
    gauge,
)

PADDING, FIRST = 0, 101  # tokens of BERT that fill rows up, and that begin them
Step = Callable[[Batch], None]
WORDS = (1000, 30522)  # its tokens that are words
TELLING = 0.25  # of a text's tokens are words of its group
OWN_WORDS = 8  # that a group has
OLD_CLASSES = CLASSES - CLASSES // TASKS  # of all tasks but the last


def make_encoder(workload: EncoderWorkload) -> Encoder:
    """Make an encoder of BERT's architecture with weights that are drawn, on the CPU.

    It has no tokenizer and no files: its texts are made as tokens.
    """
    transformers = text_module("transformers")
    config = transformers.BertConfig(
        hidden_size=workload.hidden,
        num_hidden_layers=workload.layers,
        num_attention_heads=max(1, workload.hidden // HEAD_WIDTH),
        intermediate_size=4 * workload.hidden,
        max_position_embeddings=max(512, workload.tokens),
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        model = transformers.BertModel(config, add_pooling_layer=False).eval()
    return Encoder(
        name="made",
        folder=Path(),
        model=model,
        tokenizer=None,
        hidden_size=workload.hidden,
        max_length=config.max_position_embeddings,
        pad_id=PADDING,
        digest="",
    )


@dataclass(frozen=True)
class Corpus:
    """All training texts, on the CPU, sorted by class.

    Parameters
    ----------
    samples : Samples
        Tokens (n, L) of type int32, classes, attribute values.
    """

    samples: Samples

    @property
    def last_task(self) -> Samples:
        """The texts of the last task's classes."""
        return self.samples.take(self.samples.y >= OLD_CLASSES)

    @property
    def buffer(self) -> ReplayBuffer:
        """What is kept of the earlier tasks when the last one begins."""
        earlier = self.samples.take(self.samples.y < OLD_CLASSES)
        return ReplayBuffer(QUOTA).with_task(earlier, None, torch.Generator().manual_seed(0))


def make_corpus(workload: EncoderWorkload) -> Corpus:
    """Draw texts: in each some tokens are of its class and attribute value, the others of all."""
    generator = torch.Generator().manual_seed(0)
    place = torch.arange(workload.rows)
    y, z = place * CLASSES // workload.rows, place % ATTRIBUTES
    shape = (workload.rows, workload.tokens)

    def draw(low: int, high: int) -> Tensor:
        return torch.randint(low, high, shape, generator=generator, dtype=torch.int32)

    first_own = (WORDS[0] + (y * ATTRIBUTES + z) * OWN_WORDS).int()[:, None]
    telling = torch.rand(shape, generator=generator) < TELLING
    tokens = torch.where(telling, first_own + draw(0, OWN_WORDS), draw(*WORDS))
    tokens[:, 0] = FIRST
    return Corpus(Samples(tokens, y, z))


def shortened_rows(tokens: Tensor, shortest: float) -> Tensor:
    """Return tokens, (n, L), cut to lengths that are drawn evenly, and filled up with padding.

    Parameters
    ----------
    tokens : Tensor of int32, shape (n, L)
    shortest : float
        As a part of L.
    """
    if shortest == 1:
        return tokens
    n, longest = tokens.shape
    generator = torch.Generator().manual_seed(0)
    low = max(1, round(shortest * longest))
    length = torch.randint(low, longest + 1, (n, 1), generator=generator).to(tokens.device)
    return torch.where(torch.arange(longest, device=tokens.device) < length, tokens, PADDING)


def measure_encoder(workload: EncoderWorkload, device: torch.device) -> Iterator[TextOutcome]:
    """Measure epochs, then embeddings, with an encoder and texts that are made for it."""
    with enough_memory(), threadpool_limits(1, user_api="blas"):
        encoder, corpus = make_encoder(workload), make_corpus(workload)
        yield from measure_epochs(workload, encoder, corpus, device)
        yield from measure_embeddings(workload, encoder, corpus, device)


def measure_embeddings(
    workload: EncoderWorkload, encoder: Encoder, corpus: Corpus, device: torch.device
) -> Iterator[EmbeddingRound]:
    """Embed in all ways, in turns; what is the whole corpus, once at the end."""
    gc.collect()  # nets that are no longer used would count as memory
    model = encoder.model.to(device)
    texts = {case: _texts(corpus, case) for case in EMBEDDINGS}
    for case, ids in texts.items():
        _embed(model, ids[: shard_rows(device)], case, device)  # warms up
    for number in range(1, workload.repeats + 1):
        for case, ids in texts.items():
            if case.part < 1 or number == workload.repeats:
                once = 1 if case.part == 1 else number
                yield EmbeddingRound(once, case, len(ids), _embed(model, ids, case, device))
    model.to("cpu")


def _texts(corpus: Corpus, case: Embedding) -> Tensor:
    """Return every so many-th text of the corpus, all of it for part 1."""
    every = round(1 / case.part)
    return shortened_rows(corpus.samples.x[::every].contiguous(), case.shortest)


def _embed(model: nn.Module, ids: Tensor, case: Embedding, device: torch.device) -> EncoderCost:
    how = Passing(PADDING, FROZEN, case.token_budget, case.precision, ids.shape[1])

    def work() -> None:
        with torch.inference_mode():
            for shard in torch.split(ids, shard_rows(device)):
                encode(model, shard.to(device), how).cpu()

    return gauge(work, device, int(row_lengths(ids, PADDING).sum()))[1]


LR = 0.001
# The losses of a net that knows nothing are some ln 25, far above those of one that was trained. At
# the usual step size the program would keep all samples; at this one it has to choose.
BUDGET = 3 * AUTO_BUDGET
KNOWN = 20  # steps on the buffer alone before: the old classes are known then, as in a run


def measure_epochs(
    workload: EncoderWorkload, encoder: Encoder, corpus: Corpus, device: torch.device
) -> Iterator[EpochRound]:
    """Measure the parts of an epoch of the last task, round by round, while the net learns."""
    current, buffer = corpus.last_task.to(device), corpus.buffer
    assert buffer.samples is not None  # of the earlier tasks
    memory = buffer.samples.to(device)
    net = TextNet(encoder, CLASSES, seed=0).to(device)
    learner = LEARNERS["er"](net, ReplayOptions(lr=LR), Generators.from_seed(0))
    learner.begin_task(current, ReplayBuffer(QUOTA, memory))
    replay = ReplayBatches(memory, BATCH, learner.generators.memory)
    nothing = torch.zeros(0, dtype=torch.int64, device=device)
    for _ in range(KNOWN):
        learner.step(Batch(current.take(nothing), nothing, None, *replay.next()))
    on_gpu = device.type == "cuda"
    # Kept over rounds as a run keeps them over epochs: the first round records.
    steps = {
        way: GraphedStep(learner) if on_gpu and way.recorded else learner.step
        for way in (*TRAININGS, *(ORDINARY if on_gpu else ()))
    }
    warm: EpochRound | None = None
    for number in range(workload.repeats + 1):
        outcome = _measure_round(number, workload, net, learner, steps, current, memory, replay)
        if warm is None:
            warm = outcome
        else:
            yield replace(outcome, training=_with_peaks(outcome.training, warm.training))


def _with_peaks(
    costs: Mapping[str, EncoderCost], first: Mapping[str, EncoderCost]
) -> dict[str, EncoderCost]:
    """Return costs with peaks of the first round, too: what replays use was allocated there."""
    return {
        name: replace(cost, memory=max((cost.memory, first[name].memory), key=lambda m: m or 0.0))
        for name, cost in costs.items()
    }


def _measure_round(
    number: int,
    workload: EncoderWorkload,
    net: TextNet,
    learner: Learner,
    steps: Mapping[Training, Step],
    current: Samples,
    memory: Samples,
    replay: ReplayBatches,
) -> EpochRound:
    weights = _measure_weights(workload, net, current, memory)
    kept = len(
        select(
            weights.result.weights, weights.result.group, BATCH, learner.generators.shuffle
        ).index
    )
    training = {}
    for way, step in steps.items():
        net.passing = replace(net.passing, token_budget=way.token_budget)
        batches = _batches(workload, way, learner, current, replay, weights.result.weights)
        training[way.name] = _train(step, batches, current.y.device)
    net.passing = replace(net.passing, token_budget=TRAININGS[0].token_budget)
    return EpochRound(
        number,
        len(current),
        len(memory),
        len(weights.result.groups),
        weights.forward,
        weights.statistics,
        weights.on_stored,
        weights.result.lp_seconds,
        kept,
        training,
    )


@dataclass(frozen=True)
class _Weights:
    """The weights of an epoch, and what they cost; see :class:`EpochRound`."""

    result: WeightResult
    forward: EncoderCost
    statistics: EncoderCost
    on_stored: EncoderCost


def _measure_weights(
    workload: EncoderWorkload, net: TextNet, current: Samples, memory: Samples
) -> _Weights:
    device = current.y.device
    weigh = FairSampleWeights(measure="eo", alpha=BUDGET / len(current))
    tokens = (len(current) + len(memory)) * workload.tokens
    stored, forward = gauge(lambda: _features(net, current, memory), device, tokens)
    result, cost = gauge(lambda: weigh(net, current, memory), device, tokens)
    # The head is a net whose inputs are the features.
    again, cost_again = gauge(lambda: weigh(net.head, *stored), device)
    return _Weights(
        result,
        forward,
        replace(cost, seconds=result.gradient_seconds),
        replace(cost_again, seconds=again.gradient_seconds),
    )


def _features(net: TextNet, *parts: Samples) -> list[Samples]:
    """Return the samples with the encoder's vectors in place of tokens."""
    with evaluating(net):
        return [replace(part, x=net.features(part.x)) for part in parts]


def _batches(
    workload: EncoderWorkload,
    way: Training,
    learner: Learner,
    current: Samples,
    replay: ReplayBatches,
    weights: Tensor,
) -> list[Batch]:
    """Make the steps of a round: at the weights of the program, those that are 0 included."""
    alike = torch.zeros(len(weights), dtype=torch.int64)
    selection = select_all(weights, alike, BATCH, learner.generators.shuffle)
    batches = []
    for rows in torch.split(selection.index, BATCH)[: workload.steps]:
        old, old_rows = replay.next()
        new, old = (
            replace(part, x=shortened_rows(part.x, way.shortest))
            for part in (current.take(rows), old)
        )
        batches.append(Batch(new, rows, weights[rows], old, old_rows))
    return batches


def _train(step: Step, batches: Sequence[Batch], device: torch.device) -> EncoderCost:
    """Take the steps, and count the tokens of texts and replayed texts without padding."""
    tokens = sum(
        int(row_lengths(part.x, PADDING).sum())
        for batch in batches
        for part in (batch.current, batch.memory)
        if part is not None
    )

    def steps() -> None:
        for batch in batches:
            step(batch)

    return gauge(steps, device, tokens)[1]
