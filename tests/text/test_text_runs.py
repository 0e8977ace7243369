"""Runs on texts, from a table to metrics."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from faircil.compute import one_thread
from faircil.data.own import OwnData
from faircil.errors import FaircilError, UsageError
from faircil.learners import LEARNERS
from faircil.model.saved import model_of_run
from faircil.model.table_models import predict_table
from faircil.runs import experiment, state
from faircil.runs.config import RunConfig, resolve
from faircil.runs.experiment import run
from faircil.runs.settings import in_effect
from faircil.runs.state import DataShape, load_stream, start_run
from faircil.sweep.work import Work
from faircil.text.encoders import Encoder
from faircil.text.passes import row_lengths
from faircil.text.text_net import TextNet
from faircil.weighting.measures import MEASURES
from faircil.weighting.selection import WEIGHTINGS
from tiny_encoder import random_texts

TOPICS = ("nurse", "doctor", "judge", "music")
FAST = ("epochs=2", "batch_size=16", "memory_batch_size=16", "buffer_size=4", "max_tokens=12")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCIL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def own(tmp_path: Path) -> OwnData:
    """Four professions, two genders, ten texts of each."""
    path = tmp_path / "bios.csv"
    filler = iter(random_texts(80, 5))
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["bio", "job", "gender", "age"])
        for topic in TOPICS:
            for number in range(20):
                gender = ("she", "he")[number % 2]
                rows.writerow([f"{gender} {topic} {topic} {next(filler)}", topic, gender, number])
    return OwnData(str(path), "job", ("gender",), text="bio")


def config_of(own: OwnData, encoder: Encoder, *more: str, **names: Any) -> RunConfig:
    overrides = [f"encoder={encoder.folder}", *FAST, *more]
    if names.get("method") in LEARNERS:
        overrides = in_effect(overrides, names["method"], medium="text")
    return resolve(own=own, overrides=overrides, **names)


@pytest.mark.parametrize("finetune", [False, True])
@pytest.mark.parametrize("method", ["er", "fsw"])
def test_a_run_is_the_same_each_time(
    own: OwnData, tiny_encoder: Encoder, method: str, finetune: bool
) -> None:
    config = config_of(own, tiny_encoder, f"finetune={finetune}", method=method)
    first, again = (run(config, 3) for _ in range(2))
    for one, other in zip(first.predictions, again.predictions, strict=True):
        assert np.array_equal(one.y_pred, other.y_pred)
    assert len(first.per_task) == 2
    assert any("age" in note for note in first.notes)


def test_the_model_of_a_run_takes_texts(own: OwnData, tiny_encoder: Encoder) -> None:
    config = config_of(own, tiny_encoder, "finetune=false", method="er")
    stream = load_stream(config, 0)
    state = start_run(config, 0, stream, torch.device("cpu"))
    found = run(config, 0, stream=stream, state=state)
    model = model_of_run(config, 0, stream, state)
    tests = torch.cat([test.x for test in stream.tests_after(2)]).numpy()
    np.testing.assert_array_equal(model.predict(tests), found.predictions[-1].y_pred)
    ((table, _),) = predict_table(model, Path(own.path))
    assert len(table) == 80
    # Texts of a named dataset are in no table.
    bare = model_of_run(config, 0, replace(stream, encoder=None), state)
    assert "takes embeddings by the encoder" in bare.notes[-1]
    with pytest.raises(UsageError, match="made from embeddings of texts of 'bios'"):
        next(predict_table(bare, Path(own.path)))
    trained = config_of(own, tiny_encoder, "finetune=true", method="er")
    with pytest.raises(UsageError, match="trained encoder of texts"):
        model_of_run(trained, 0, stream, state)


RUNS = [
    *((method, "none", "eo") for method in LEARNERS),
    *(
        ("er", weighting, measure)
        for weighting in WEIGHTINGS
        for measure, row in MEASURES.items()
        if weighting == "none" or row.combine == "sum"
    ),
]


@pytest.mark.parametrize(("method", "weighting", "measure"), RUNS)
def test_every_method_weighting_and_measure_runs_on_a_frozen_encoder(
    own: OwnData, tiny_encoder: Encoder, method: str, weighting: str, measure: str
) -> None:
    favoured = [TOPICS[0]] if MEASURES[measure].needs_favoured else []
    names = {"method": method, "weighting": weighting, "measure": measure, "favoured": favoured}
    config = config_of(own, tiny_encoder, "epochs=1", "hidden=8", **names)
    assert all(0 <= task.accuracy <= 1 for task in run(config, 0).per_task)


def test_the_net_is_the_encoder_only_if_it_is_trained(own: OwnData, tiny_encoder: Encoder) -> None:
    nets = []
    for finetune in (False, True):
        layers = ["trainable_layers=1"] if finetune else []
        config = config_of(own, tiny_encoder, f"finetune={finetune}", *layers)
        stream = load_stream(config, 0)
        nets.append(state._build_net(config, DataShape.of(stream), 0))
    assert [isinstance(net, TextNet) for net in nets] == [False, True]
    assert nets[0].features[0].in_features == 16
    assert nets[1].passing.pooling == "cls"
    trained = [part for part in nets[1].encoder.parameters() if part.requires_grad]
    assert 0 < len(trained) < len(list(nets[1].encoder.parameters()))


def test_epochs_count_the_tokens_that_training_sends_through_the_encoder(
    own: OwnData, tiny_encoder: Encoder
) -> None:
    config = config_of(own, tiny_encoder, "finetune=true", method="finetune")
    stream = load_stream(config, 0)
    tokens = [int(row_lengths(task.train.x, tiny_encoder.pad_id).sum()) for task in stream.tasks]
    epochs = run(config, 0, stream=stream).epochs
    assert [epoch.tokens for epoch in epochs] == [tokens[0], tokens[0], tokens[1], tokens[1]]
    frozen = run(config_of(own, tiny_encoder, method="er"), 0).epochs
    assert {epoch.tokens for epoch in frozen} == {None}


def test_an_encoder_is_trained_on_all_threads(
    own: OwnData, tiny_encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    monkeypatch.setattr(experiment, "one_thread", lambda: (used.append(1), one_thread())[1])
    run(config_of(own, tiny_encoder, "finetune=true", "epochs=1", method="er"), 0)
    assert not used
    run(config_of(own, tiny_encoder, "epochs=1", method="er"), 0)
    assert used


def test_validation_data_is_no_test_data(own: OwnData, tiny_encoder: Encoder) -> None:
    def rows(config: RunConfig, part: str) -> set[tuple[float, ...]]:
        tasks = load_stream(config, 0).tasks
        return {tuple(row) for task in tasks for row in getattr(task, part).x.tolist()}

    test = config_of(own, tiny_encoder, "finetune=true")
    validation = config_of(own, tiny_encoder, "finetune=true", evaluate_on="validation")
    assert rows(validation, "train") | rows(validation, "test") == rows(test, "train")


def test_another_encoder_or_another_way_is_another_run_and_other_data(
    own: OwnData, tiny_encoder: Encoder, tmp_path: Path
) -> None:
    from tiny_encoder import write_tiny_encoder

    first = config_of(own, tiny_encoder)
    assert first.encoder_sha256 == tiny_encoder.digest
    write_tiny_encoder(tmp_path / "other", seed=5)
    other = config_of(own, tiny_encoder, f"encoder={tmp_path / 'other'}")
    assert other.encoder_sha256 not in (None, first.encoder_sha256)
    trained = config_of(own, tiny_encoder, "finetune=true")
    assert len({Work(config, 0).data for config in (first, other, trained)}) == 3
    again = RunConfig.model_validate_json(first.model_dump_json())
    assert again == first


def test_an_encoder_that_is_not_there_is_named_when_the_run_begins(own: OwnData) -> None:
    config = resolve(own=own, overrides=["encoder=/no/such/folder"])
    assert config.encoder_sha256 is None
    with pytest.raises(FaircilError, match="there is no folder /no/such/folder"):
        load_stream(config, 0)


def test_settings_of_texts_are_for_texts(own: OwnData) -> None:
    with pytest.raises(UsageError, match=r"setting 'encoder' is for texts.*name the column"):
        resolve(dataset="toy", overrides=["encoder=minilm"])
    with pytest.raises(UsageError, match="unknown pooling 'max'") as caught:
        resolve(own=own, overrides=["pooling=max", "max_tokens=0", "encodr=x"])
    assert "max_tokens=0 is not allowed" in str(caught.value)
    assert "did you mean" in str(caught.value)


def test_shipped_settings_go_with_the_training_of_the_encoder(own: OwnData) -> None:
    frozen, trained = (resolve(own=own, overrides=[f"finetune={v}"]) for v in ("no", "yes"))
    assert trained.settings.learner.lr < frozen.settings.learner.lr
    assert resolve(own=own, overrides=["finetune=yes", "lr=0.5"]).settings.learner.lr == 0.5


def test_a_gpu_trains_the_same_net(own: OwnData, tiny_encoder: Encoder) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    config = config_of(own, tiny_encoder, "finetune=true", "precision=float32", method="fsw")
    assert len(run(config, 0, device="cuda").per_task) == 2
