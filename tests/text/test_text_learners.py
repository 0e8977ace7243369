"""Every learner on a net that is fine-tuned, through whole runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from faircil.data.stream import Task, TaskStream
from faircil.learners import LEARNERS
from faircil.results.record import RunResult
from faircil.runs import experiment
from faircil.runs.saved_states import load_state, save_state
from faircil.runs.state import RunState
from faircil.samples import Samples
from faircil.text.encoders import Encoder
from faircil.text.text_net import TextNet
from faircil.text.tokens import tokenize
from learning import parameters
from small_runs import small_config
from tiny_encoder import random_texts

TASKS = ((0, 1), (2, 3))
TOPICS = ("nurse", "doctor", "judge", "music")
PER_GROUP = 4


@pytest.fixture(scope="module")
def stream(tiny_encoder: Encoder) -> TaskStream:
    def samples(classes: tuple[int, ...], seed: int) -> Samples:
        groups = torch.tensor([(y, z) for y in classes for z in (0, 1)])
        y, z = groups.repeat_interleave(PER_GROUP, dim=0).unbind(dim=1)
        filler = random_texts(len(y), 6, seed)
        texts = [
            f"{('she', 'he')[gender]} {TOPICS[topic]} {TOPICS[topic]} {rest}"
            for topic, gender, rest in zip(y.tolist(), z.tolist(), filler, strict=True)
        ]
        return Samples(tokenize(texts, tiny_encoder, 12).ids, y.clone(), z.clone())

    tasks = tuple(
        Task(classes, samples(classes, number), samples(classes, 10 + number))
        for number, classes in enumerate(TASKS)
    )
    return TaskStream("texts", tasks, TOPICS, "z", ("she", "he"))


@pytest.fixture(autouse=True)
def _text_net(tiny_encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(n_inputs: int, n_classes: int, hidden: object, seed: int) -> TextNet:
        return TextNet(tiny_encoder, n_classes, seed=seed, token_budget=160)

    monkeypatch.setattr("faircil.runs.state.build_mlp", build)


def run(
    method: str,
    stream: TaskStream,
    weighting: str,
    *,
    state: RunState | None = None,
    checkpoint: experiment.Checkpoint = lambda _: None,
    **settings: Any,
) -> RunResult:
    values = {"epochs": 1, "lr": 0.01, "buffer_size": 2, **settings}
    config = small_config(method, weighting, attribute=True, **values)
    return experiment.run(config, 0, stream=stream, state=state, checkpoint=checkpoint)


def as_floats(samples: Samples) -> Samples:
    return replace(samples, x=samples.x.float())


@pytest.mark.parametrize(
    ("method", "weighting"),
    [
        (method, weighting)
        for method, learner in LEARNERS.items()
        for weighting in ("none", "fsw")
        if not learner.one_pass and (weighting == "none" or learner.no_weighting is None)
    ],
)
def test_every_learner_runs_and_does_not_mind_that_tokens_are_integers(
    method: str, weighting: str, stream: TaskStream, states: list[RunState]
) -> None:
    tasks = (replace(t, train=as_floats(t.train), test=as_floats(t.test)) for t in stream.tasks)
    floats = replace(stream, tasks=tuple(tasks))
    result, expected = (run(method, each, weighting) for each in (stream, floats))
    assert len(result.per_task) == len(TASKS)
    assert result.per_task == expected.per_task
    one, other = (parameters(state.learner.net) for state in states)
    assert torch.isfinite(one).all()
    assert torch.equal(one, other)


def test_gdumb_begins_again_with_the_pre_trained_encoder(
    stream: TaskStream, tiny_encoder: Encoder, states: list[RunState]
) -> None:
    run("gdumb", stream, "none", lr=1e-9, min_lr=1e-9)
    net = states[0].learner.net
    assert isinstance(net, TextNet)
    torch.testing.assert_close(parameters(net.encoder), parameters(tiny_encoder.model))
    assert net.seed != states[0].generators.init_seed


@pytest.mark.parametrize("method", ["er", "der++"])
def test_a_run_with_dropout_goes_on_from_a_saved_state(
    method: str, stream: TaskStream, tmp_path: Path
) -> None:
    file, ends = tmp_path / "state", list[RunState]()

    def save(state: RunState) -> None:
        ends[:] = [state]
        if len(state.epochs) == 1:
            save_state(state, file)

    whole = run(method, stream, "fsw", checkpoint=save)
    torch.rand(1)
    state = load_state(file)
    rest = run(method, stream, "fsw", state=state)
    assert rest.per_task == whole.per_task
    assert torch.equal(parameters(state.learner.net), parameters(ends[0].learner.net))
