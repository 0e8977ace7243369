"""An epoch of FSW with a net that is fine-tuned, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from faircil.bench.text.cases import TRAININGS, Training
from faircil.bench.text.gauge import Cost, gauge
from faircil.bench.text.made import PADDING, Corpus, shortened_rows
from faircil.bench.text.record import EpochRound
from faircil.bench.text.workload import BATCH, CLASSES, QUOTA, Workload
from faircil.buffer import ReplayBatches, ReplayBuffer
from faircil.generators import Generators
from faircil.learners import LEARNERS, Batch, Learner
from faircil.learners.options import ReplayOptions
from faircil.samples import Samples
from faircil.text.chunks import row_lengths
from faircil.text.encoders import Encoder
from faircil.text.text_net import TextNet
from faircil.weighting.head import evaluating
from faircil.weighting.result import WeightResult
from faircil.weighting.training import select, select_all
from faircil.weighting.weights import AUTO_BUDGET, FairSampleWeights

LR = 0.001
# The losses of a net that knows nothing are some ln 25, far above those of one that was trained. At
# the usual step size the program would keep all samples; at this one it has to choose.
BUDGET = 3 * AUTO_BUDGET
KNOWN = 20  # steps on the buffer alone before: the old classes are known then, as in a run


def measure_epochs(
    workload: Workload, encoder: Encoder, corpus: Corpus, device: torch.device
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
    for number in range(workload.repeats + 1):
        outcome = _measure_round(number, workload, net, learner, current, memory, replay)
        if number > 0:  # the first one warms up
            yield outcome


def _measure_round(
    number: int,
    workload: Workload,
    net: TextNet,
    learner: Learner,
    current: Samples,
    memory: Samples,
    replay: ReplayBatches,
) -> EpochRound:
    weights = _measure_weights(workload, net, current, memory)
    kept = len(select(weights.result.weights, BATCH, learner.generators.shuffle).index)
    training = {}
    for way in TRAININGS:
        net.passing = replace(net.passing, token_budget=way.token_budget)
        batches = _batches(workload, way, learner, current, replay, weights.result.weights)
        training[way.name] = _train(learner, batches, current.y.device)
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
    forward: Cost
    statistics: Cost
    on_stored: Cost


def _measure_weights(
    workload: Workload, net: TextNet, current: Samples, memory: Samples
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
    workload: Workload,
    way: Training,
    learner: Learner,
    current: Samples,
    replay: ReplayBatches,
    weights: Tensor,
) -> list[Batch]:
    """Make the steps of a round: at the weights of the program, those that are 0 included."""
    selection = select_all(weights, BATCH, learner.generators.shuffle)
    batches = []
    for rows in torch.split(selection.index, BATCH)[: workload.steps]:
        old, old_rows = replay.next()
        new, old = (
            replace(part, x=shortened_rows(part.x, way.shortest))
            for part in (current.take(rows), old)
        )
        batches.append(Batch(new, rows, weights[rows], old, old_rows))
    return batches


def _train(learner: Learner, batches: Sequence[Batch], device: torch.device) -> Cost:
    """Take the steps, and count the tokens of texts and replayed texts without padding."""
    tokens = sum(
        int(row_lengths(part.x, PADDING).sum())
        for batch in batches
        for part in (batch.current, batch.memory)
        if part is not None
    )

    def steps() -> None:
        for batch in batches:
            learner.step(batch)

    return gauge(steps, device, tokens)[1]
