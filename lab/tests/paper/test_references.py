from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faircil.data.datasets import load_dataset
from faircil.metrics import eo_gap, evaluate
from faircil.runs.config import resolve
from faircil.runs.state import load_stream
from faircil.samples import concatenate
from faircil.text.encoders import Encoder
from faircil_lab.paper.biographies import (
    ON_EMBEDDINGS,
    ON_WORDS,
    Labelled,
    TextReference,
    joint_reference,
)
from faircil_lab.paper.comparison import gap_by_chance
from faircil_lab.paper.store import measured
from tiny_bios import in_place_of_the_sample

SAMPLE = "biasbios-sample"


@pytest.fixture
def _biographies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    monkeypatch.setenv("FAIRCIL_CACHE", str(tmp_path))
    with in_place_of_the_sample(tmp_path):
        yield


@pytest.mark.usefixtures("_biographies")
def test_word_counts_see_the_texts_of_the_runs_stream() -> None:
    found = TextReference(ON_WORDS, SAMPLE, seed=1).compute()
    stream = load_dataset(SAMPLE, 1)
    assert stream.texts is not None
    parts = [concatenate([getattr(t, part) for t in stream.tasks]) for part in ("train", "test")]
    train, test = (
        Labelled(
            np.array([stream.texts[number] for number in part.x.tolist()], dtype=object),
            part.y.numpy(),
            part.z.numpy() if part.z is not None else None,
        )
        for part in parts
    )
    after = joint_reference("tfidf", train, test, [task.classes for task in stream.tasks])
    assert found.accuracy == pytest.approx(sum(m.accuracy for m in after) / 3)
    assert found.accuracy_at_end == after[-1].accuracy
    # A made-up biography names its profession.
    assert (found.accuracy, found.eo_gap, found.gap_by_chance) == (1.0, 0.0, 0.0)


@pytest.mark.usefixtures("_biographies")
def test_embeddings_are_those_that_a_run_sees(tiny_encoder: Encoder) -> None:
    encoder = str(tiny_encoder.folder)
    found = TextReference(ON_EMBEDDINGS, SAMPLE, seed=1, encoder=encoder).compute()
    config = resolve(dataset=SAMPLE, method="joint", overrides=[f"encoder={encoder}"])
    stream = load_stream(config, 1)
    parts = [concatenate([getattr(t, part) for t in stream.tasks]) for part in ("train", "test")]
    train, test = (
        Labelled(p.x.numpy(), p.y.numpy(), p.z.numpy() if p.z is not None else None) for p in parts
    )
    after = joint_reference("linear", train, test, [task.classes for task in stream.tasks])
    assert found.accuracy_at_end == after[-1].accuracy
    right = sum(group.n * group.accuracy for group in after[-1].groups)
    assert found.share_at_end == pytest.approx(right / len(test.y))
    gaps = [metrics.eo_gap for metrics in after if metrics.eo_gap is not None]
    assert found.eo_gap == pytest.approx(np.mean(gaps))
    assert found.gap_by_chance is not None


@pytest.mark.usefixtures("_biographies")
def test_kept_values_are_told_apart_by_what_the_encoder_is(tiny_encoder: Encoder) -> None:
    here = TextReference(ON_EMBEDDINGS, SAMPLE, 1, str(tiny_encoder.folder))
    nowhere = TextReference(ON_EMBEDDINGS, SAMPLE, 1, "nowhere")
    assert here.identity()["encoder"] == tiny_encoder.digest != nowhere.identity()["encoder"]
    words = (replace(one, kind=ON_WORDS).identity() for one in (here, nowhere))
    assert next(words) == next(words)


@pytest.mark.usefixtures("_biographies")
def test_what_is_absent_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircil.files.find_spec", lambda _: None)
    absent = measured(TextReference(ON_EMBEDDINGS, SAMPLE, 1), tmp_path / "runs")
    assert absent.problem is not None
    assert absent.problem.startswith("not run: encoder 'minilm' is not installed")
    assert measured(TextReference(ON_WORDS, SAMPLE, 1), tmp_path / "runs").values is not None
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path / "empty"))
    without = measured(TextReference(ON_WORDS, SAMPLE, 2), tmp_path / "runs")
    assert without.problem is not None
    assert without.problem.startswith("not run: ")
    assert "biasbios" in without.problem


def test_the_gap_by_chance_is_that_of_shuffled_attributes() -> None:
    generator = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 30, 20])
    z = generator.integers(0, 3, len(y))
    z[y == 2] = 1  # nobody to be compared with
    predicted = np.where(generator.random(len(y)) < 0.7, y, (y + 1) % 3)
    found = gap_by_chance(evaluate(y, predicted, task=y, sensitive=z).groups, generator)
    gaps = []
    for _ in range(400):
        shuffled = z.copy()
        for label in (0, 1):
            shuffled[y == label] = generator.permutation(z[y == label])
        gaps.append(eo_gap(y, predicted, shuffled))
    assert found == pytest.approx(np.mean(np.array(gaps, dtype=float)), abs=0.015)
