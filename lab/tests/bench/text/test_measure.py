from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from faircil.samples import Samples
from faircil.text.embeddings import SHARD_ROWS
from faircil.text.encoders import Encoder
from faircil.text.passes import Passing
from faircil.text.text_net import TextNet
from faircil.weighting.weights import FairSampleWeights
from faircil_lab.bench import texts_measure
from faircil_lab.bench.texts import (
    EMBEDDINGS,
    TRAININGS,
    Embedding,
    EncoderWorkload,
    cpu_seconds,
    flops,
    gauge,
)
from faircil_lab.bench.texts_measure import PADDING, make_corpus, make_encoder

SMALL = EncoderWorkload(layers=1, hidden=8, rows=2500, tokens=6, steps=3, repeats=2)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return make_encoder(SMALL)


def test_gauge_takes_the_time_of_the_work() -> None:
    result, cost = gauge(lambda: sum(range(1000)), CPU, tokens=7)
    assert result == 499_500
    assert cost.seconds > 0
    assert cost.rate == 7 / cost.seconds
    assert cost.memory is None


def test_gauge_waits_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name, answer in (("synchronize", None), ("reset_peak_memory_stats", None),
                         ("max_memory_allocated", 3 * 2**30)):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda _, n=name, a=answer: calls.append(n) or a)
    _, cost = gauge(lambda: calls.append("work"), torch.device("cuda"))
    before, after = ["synchronize", "reset_peak_memory_stats"], ["synchronize"]
    assert calls == [*before, "work", *after, "max_memory_allocated"]
    assert cost.memory == 3.0


def test_parts_of_an_epoch(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_measure, "KNOWN", 1)
    budgets: list[int] = []
    features = TextNet.features

    def watched(net: TextNet, x: Tensor) -> Tensor:
        if net.training:
            budgets.append(net.passing.token_budget)
        return features(net, x)

    monkeypatch.setattr(TextNet, "features", watched)
    rounds = list(texts_measure.measure_epochs(SMALL, encoder, make_corpus(SMALL), CPU))
    assert [one.number for one in rounds] == [1, 2]
    for one in rounds:
        assert (one.samples, one.buffer, one.groups) == (500, 1280, 50)
        assert one.forward.tokens == one.statistics.tokens == 1780 * 6
        assert 0 < one.on_stored.seconds < one.statistics.seconds
        assert one.lp > 0
        assert 0 <= one.kept <= 512
        whole, frugal, mixed = (cost.tokens for cost in one.training.values())
        assert whole == frugal == 3 * 128 * 6 > mixed > 0
    each = [way.token_budget for way in TRAININGS for _ in range(3)]
    assert budgets == [TRAININGS[0].token_budget, *each, *each, *each]  # one on the buffer


def test_no_more_steps_than_an_epoch_has(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_measure, "KNOWN", 1)
    workload = EncoderWorkload(layers=1, hidden=8, rows=2500, tokens=6, steps=99, repeats=1)
    (one,) = texts_measure.measure_epochs(workload, encoder, make_corpus(workload), CPU)
    texts = 500 + 8 * 64
    assert one.training[TRAININGS[0].name].tokens == texts * 6


def test_stored_features_give_the_weights_of_the_net(
    encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    weigh = FairSampleWeights.__call__

    def watched(self: FairSampleWeights, net: nn.Module, *samples: Samples) -> object:
        given.append(weigh(self, net, *samples))
        return given[-1]

    monkeypatch.setattr(FairSampleWeights, "__call__", watched)
    net, corpus = TextNet(encoder, 25, seed=0), make_corpus(SMALL)
    assert corpus.buffer.samples is not None
    texts_measure._measure_weights(SMALL, net, corpus.last_task, corpus.buffer.samples)
    whole, stored = given
    assert torch.allclose(whole.weights, stored.weights)
    assert 0 < whole.kept < 500  # the program has a choice


def test_every_way_to_embed(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    shards: list[tuple[int, Passing, bool]] = []
    encode = texts_measure.encode

    def watched(model: nn.Module, ids: Tensor, how: Passing) -> Tensor:
        shards.append((len(ids), how, torch.is_inference_mode_enabled()))
        return encode(model, ids, how)

    monkeypatch.setattr(texts_measure, "encode", watched)
    corpus = make_corpus(SMALL)
    rounds = list(texts_measure.measure_embeddings(SMALL, encoder, corpus, CPU))
    parts, (whole,) = rounds[:-1], rounds[-1:]
    assert [one.case for one in parts] == [*EMBEDDINGS[:-1]] * 2
    assert [one.number for one in parts] == [1] * 5 + [2] * 5
    assert (whole.case, whole.number, whole.rows) == (EMBEDDINGS[-1], 1, 2500)
    assert whole.cost.tokens == 2500 * 6
    assert {one.rows for one in parts} == {250, 25}
    assert {how.token_budget for _, how, _ in shards} == {4096, 16384, 65536}
    assert {how.precision for _, how, _ in shards} == {"auto", "float32"}
    assert all(how.pooling == "mean" and frozen for _, how, frozen in shards)
    assert [rows for rows, *_ in shards[-3:]] == [SHARD_ROWS, SHARD_ROWS, 2500 - 2 * SHARD_ROWS]


def test_padding_is_no_token() -> None:
    corpus = make_corpus(SMALL)
    ids = texts_measure._texts(corpus, Embedding(0.1, shortest=0.5))
    assert ids.shape == (250, 6)
    # A part has texts of all classes.
    assert torch.equal(texts_measure._texts(corpus, Embedding(0.1)), corpus.samples.x[::10])
    cost = texts_measure._embed(make_encoder(SMALL).model, ids, EMBEDDINGS[3], CPU)
    assert cost.tokens == int((ids != PADDING).sum()) < 1500


def test_time_on_a_cpu_grows_with_the_work() -> None:
    tiny = EncoderWorkload(layers=1, hidden=8, rows=500, tokens=8, steps=1, repeats=1)
    # Twice the passes over task and buffer, three ways to train, 41 + 100 % of the corpus embedded.
    tokens = 2 * (2 * 100 * 8 + 128 * 8 * (3 + 3 + 3)) + 1.41 * 500 * 8
    assert flops(tiny) == pytest.approx(tokens * tiny.flops_per_token)
    assert cpu_seconds(tiny) < 60 < 3600 < cpu_seconds(EncoderWorkload())
