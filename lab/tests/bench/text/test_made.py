from __future__ import annotations

import pytest
import torch

from faircil.errors import UsageError
from faircil.samples import group_counts
from faircil.text.passes import Passing, encode
from faircil_lab.bench.texts import EncoderWorkload
from faircil_lab.bench.texts_measure import (
    FIRST,
    PADDING,
    make_corpus,
    make_encoder,
    shortened_rows,
)

SMALL = EncoderWorkload(layers=1, hidden=8, rows=5003, tokens=12)


def test_defaults_are_bert_base_and_biasbios() -> None:
    workload = EncoderWorkload()
    assert (workload.rows, workload.tokens) == (253_000, 128)
    # Of its 85 million weights in layers, each a product and a sum; attention adds 3 %.
    assert workload.flops_per_token == pytest.approx(2 * 85e6, rel=0.05)


def test_flops_are_those_of_the_layers() -> None:
    model = make_encoder(SMALL).model
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    products = sum(2 * layer.weight.numel() for layer in linear)
    assert SMALL.flops_per_token == products + 4 * SMALL.tokens * SMALL.hidden


def test_encoder_is_the_same_each_time_and_encodes() -> None:
    before = torch.random.get_rng_state()
    one, two = make_encoder(SMALL), make_encoder(SMALL)
    assert torch.equal(torch.random.get_rng_state(), before)
    ids = make_corpus(SMALL).samples.x[:5]
    vectors = [encode(encoder.model, ids, Passing(one.pad_id)) for encoder in (one, two)]
    assert vectors[0].shape == (5, 8)
    assert torch.equal(*vectors)


def test_last_task_and_buffer() -> None:
    corpus = make_corpus(SMALL)
    assert len(corpus.samples) == 5003
    task = group_counts(corpus.last_task)
    assert set(task) == {(y, z) for y in range(20, 25) for z in (0, 1)}
    assert all(count in (100, 101) for count in task.values())
    assert corpus.buffer.samples is not None
    kept = group_counts(corpus.buffer.samples)
    assert kept == {(y, z): 32 for y in range(20) for z in (0, 1)}


def test_texts_are_full_rows_that_tell_their_group() -> None:
    samples = make_corpus(SMALL).samples
    assert samples.x.dtype == torch.int32
    assert (samples.x[:, 0] == FIRST).all()
    assert (samples.x != PADDING).all()
    group = samples.y * 2 + samples.z
    own = (samples.x - 1000) // 8 == group[:, None]
    assert own[:, 1:].float().mean() == pytest.approx(0.25, abs=0.02)


def test_shortened_rows() -> None:
    ids = make_corpus(SMALL).samples.x
    assert shortened_rows(ids, 1.0) is ids
    short = shortened_rows(ids, 0.25)
    length = (short != PADDING).sum(dim=1)
    assert (length.min(), length.max()) == (3, 12)
    assert torch.bincount(length)[3:].min() > 400  # evenly
    inside = torch.arange(12) < length[:, None]
    assert torch.equal(short[inside], ids[inside])
    assert (short[~inside] == PADDING).all()


def test_all_mistakes_at_once() -> None:
    with pytest.raises(UsageError) as error:
        EncoderWorkload(layers=0, hidden=100, rows=49, tokens=3, steps=0, repeats=0)
    lines = str(error.value).splitlines()
    assert len(lines) == 6
    assert "--rows is 49, expected at least 50" in str(error.value)
    assert "--hidden is 100, expected a multiple of 64" in str(error.value)
