from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from faircil import media
from faircil.cache import EmbeddingProgress
from faircil.data.stream import Task, TaskStream
from faircil.errors import UsageError
from faircil.media import Standard, encoded
from faircil.samples import Samples
from faircil.text.embeddings import embed
from faircil.text.encoders import Encoder, kept_encoder
from faircil.text.options import TextOptions
from faircil.text.tokens import tokenize
from tiny_encoder import random_texts, write_tiny_encoder

TEXTS = (*random_texts(30), "", "he " * 50)


def samples(rows: Sequence[int], label: int) -> Samples:
    n = len(rows)
    return Samples(torch.tensor(rows), torch.full((n,), label), torch.arange(n) % 2)


@pytest.fixture
def stream() -> TaskStream:
    """Two tasks of one class; texts 8, 9 and 20 … 29 belong to none."""
    first = Task((0,), samples([3, 0, 5, 7, 31], 0), samples([1, 2], 0))
    second = Task((1,), samples([10, 11, 12, 30], 1), samples([19, 13, 13], 1))
    return TaskStream("bios", (first, second), ("a", "b"), notes=("before",), texts=TEXTS)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRCIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def options(encoder: Encoder, **others: object) -> TextOptions:
    return TextOptions.model_validate({"encoder": str(encoder.folder), "max_tokens": 20, **others})


def test_inputs_of_a_trained_encoder_are_the_tokens_of_each_text(
    tiny_encoder: Encoder, stream: TaskStream
) -> None:
    found = encoded(stream, options(tiny_encoder, finetune=True))
    whole = tokenize(TEXTS, tiny_encoder, 20).ids
    for before, after in zip(stream.tasks, found.tasks, strict=True):
        for old, new in ((before.train, after.train), (before.test, after.test)):
            assert new.x.dtype == torch.int32
            assert torch.equal(new.x, whole[old.x])
            assert torch.equal(new.y, old.y)
    assert found.texts is None


def test_inputs_of_a_frozen_encoder_are_embeddings_on_the_scale_of_the_first_task(
    tiny_encoder: Encoder, stream: TaskStream
) -> None:
    found = encoded(stream, options(tiny_encoder))
    vectors = torch.from_numpy(embed(TEXTS, tiny_encoder, max_tokens=20, cache=None).vectors)
    known = vectors[stream.tasks[0].train.x].double()
    shift, scale = known.mean(0), known.std(0, correction=0)
    for before, after in zip(stream.tasks, found.tasks, strict=True):
        expected = ((vectors[before.test.x] - shift) / scale).float()
        torch.testing.assert_close(after.test.x, expected, atol=1e-4, rtol=1e-4)
    first = found.tasks[0].train.x
    np.testing.assert_allclose(first.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(first.std(0, correction=0), 1, atol=1e-4)


def test_texts_of_no_task_are_not_embedded(tiny_encoder: Encoder, stream: TaskStream) -> None:
    told: list[EmbeddingProgress] = []
    encoded(stream, options(tiny_encoder), progress=told.append)
    assert told[-1].total == len({*[3, 0, 5, 7, 31, 1, 2, 10, 11, 12, 30, 19, 13]})


@pytest.mark.parametrize("finetune", [True, False])
def test_what_is_odd_about_texts_is_noted_each_time(
    tiny_encoder: Encoder, stream: TaskStream, finetune: bool
) -> None:
    for _ in range(2):  # the second time, embeddings are on the disk
        found = encoded(stream, options(tiny_encoder, finetune=finetune))
        assert found.notes == (
            "before",
            "texts longer than 20 tokens, truncated: 3 of 13",
            "texts that are empty, so the encoder cannot distinguish them: 1 of 13",
        )


def test_a_coordinate_that_is_constant_in_the_first_task_is_only_shifted() -> None:
    vectors = torch.tensor([[1.0, 5.0], [3.0, 5.0], [9.0, 6.0]])
    found = Standard.of(vectors[:2]).apply(vectors)
    assert found.tolist() == [[-1, 0], [1, 0], [7, 1]]


def test_pooling_goes_with_training_unless_it_is_said() -> None:
    assert TextOptions().pool == "mean"
    assert TextOptions(finetune=True).pool == "cls"
    assert TextOptions(finetune=True, pooling="mean").pool == "mean"


def test_a_coordinate_that_only_rounding_changes_is_not_blown_up() -> None:
    vectors = torch.tensor([[0.1], [0.1 + 1e-8], [0.1 - 1e-8], [0.1001]])
    found = Standard.of(vectors[:3]).apply(vectors)
    assert found.abs().max() < 0.001


def test_the_first_token_stands_for_a_text_only_where_it_knows_the_text(
    tiny_encoder: Encoder, stream: TaskStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = replace(tiny_encoder, bidirectional=False)
    monkeypatch.setattr(media, "kept_encoder", lambda _: blind)
    with pytest.raises(UsageError, match=r"reads from left to right.*use `pooling=mean`"):
        encoded(stream, options(tiny_encoder, finetune=True))
    encoded(stream, options(tiny_encoder, finetune=True, pooling="mean"))
    encoded(stream, options(tiny_encoder))


def test_an_encoder_is_loaded_again_when_its_files_change(tmp_path: Path) -> None:
    folder = write_tiny_encoder(tmp_path / "encoder", seed=0)
    first = kept_encoder(str(folder))
    assert kept_encoder(str(folder)) is first
    write_tiny_encoder(folder, seed=1)
    second = kept_encoder(str(folder))
    assert second.digest != first.digest
    before, after = (encoder.model.get_input_embeddings().weight for encoder in (first, second))
    assert not torch.equal(before, after)
