from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from faircil.nets import build_mlp
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import load_stream
from faircil_lab.paper import toy_page
from faircil_lab.paper.exhibit import Results, Verdict
from faircil_lab.paper.store import NOT_MADE, Measured
from faircil_lab.paper.toy import (
    Angles,
    EpochGradients,
    ToyForgetting,
    ToySeed,
    Turn,
    Vectors,
    sample_gradients,
)
from faircil_lab.paper.toy_page import Toy, ToySeeds
from learning import of_classes

SAME, DIFFERENT = Verdict.SAME, Verdict.DIFFERENT
FAST = ("epochs=4",)


def head_gradient(net: nn.Module, samples, parameters) -> torch.Tensor:  # type: ignore[no-untyped-def]
    loss = cross_entropy(net(samples.x), samples.y)
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])


@pytest.mark.parametrize("last", [True, False])
def test_gradients_of_samples_are_those_of_backward_passes(last: bool) -> None:
    net, samples = build_mlp(6, 3, (4,), seed=0), of_classes(7, [0, 1, 2])
    parameters = list(net.head.parameters() if last else net.parameters())
    found = sample_gradients(net, samples, last=last)
    for i in range(len(samples)):
        slow = head_gradient(net, samples.take(slice(i, i + 1)), parameters)
        torch.testing.assert_close(found[i], slow)


def test_angles_in_the_plane_are_the_true_ones() -> None:
    torch.manual_seed(0)
    weights = torch.rand(50)
    gradients = EpochGradients(torch.randn(50, 8) + 1, torch.randn(2, 8), weights)
    turn, vectors = gradients.turn(), gradients.vectors()
    g0, g1, g2 = (np.array(point) for point in vectors.means)
    assert g1 == pytest.approx([1, 0], abs=1e-3)
    assert np.hypot(*g2) == pytest.approx(1, abs=1e-3)
    assert np.degrees(np.arccos(g2 @ g1)) == pytest.approx(turn.before.neighbour, abs=0.1)
    assert np.hypot(*g0) < 1
    weighted = (weights[:, None] * gradients.new).mean(dim=0)
    cosine = torch.cosine_similarity(weighted, gradients.old[1], dim=0)
    assert turn.after.neighbour == pytest.approx(float(torch.rad2deg(cosine.acos())), abs=1e-3)


def test_accuracies_are_those_of_the_runs() -> None:
    found = ToyForgetting(0, FAST).compute()
    stream = load_stream(resolve(dataset="toy"), 0)
    for method, accuracies in (("er", found.replay), ("fsw", found.fsw)):
        config = resolve(dataset="toy", method=method, overrides=FAST)
        first, second = run(config, 0, stream=stream).per_task
        assert len(accuracies) == 5
        assert accuracies[0][:2] == pytest.approx([c.accuracy for c in first.classes])
        assert accuracies[-1] == pytest.approx([c.accuracy for c in second.classes])
    assert len(found.turns) == 4
    assert found.last == found.turns[0].before
    assert found.last.neighbour > 100
    assert found.last.neighbour > found.turns[0].after.neighbour
    assert 80 < found.every.far < 100


def made_seed(seed: int, near: float = 127.0, far: float = 88.0, kept: float = 0.95) -> ToySeed:
    angles = Angles(near + seed, far + 0.1 * seed)
    turn = Turn(angles, Angles(angles.neighbour - 7 - 0.1 * seed, angles.far))
    replay = ((1.0, 1.0, 0.0), (1.0, 0.5, 0.9), (1.0, 0.1 + 0.01 * seed, 1.0))
    fsw = ((1.0, 1.0, 0.0), (1.0, 1.0, 0.3), (1.0, kept - 0.01 * seed, 0.8))
    means = ((-0.1, -0.1), (1.0, 0.0), (-0.5, 0.8))
    data = tuple(((k + 0.0, 1.0), (k + 1.0, 0.5)) for k in range(3))
    return ToySeed(angles, angles, (turn,), Vectors(means, (-0.4, 0.9), means), replay, fsw, data)


def test_the_page_draws_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {}

    def found(measurement: ToyForgetting, _results: Results) -> Measured:  # type: ignore[type-arg]
        return Measured(measurement, made_seed(measurement.seed, **made))

    monkeypatch.setattr(toy_page, "look_up", found)
    page = Toy().page(Results({}, {}, tmp_path))
    assert page.verdicts == (SAME,) * 9
    assert "129.0° (127.0 … 131.0), published 127°," in page.answer
    picture = page.sections[1].picture
    assert picture is not None
    picture.draw(tmp_path / picture.file)
    assert (tmp_path / picture.file).stat().st_size > 10_000
    made.update(near=140.0, far=91.0, kept=0.1)
    page = Toy().page(Results({}, {}, tmp_path))
    assert page.verdicts == (*[DIFFERENT] * 4, SAME, SAME, SAME, DIFFERENT, DIFFERENT)


@pytest.mark.parametrize(("low", "high", "holds"), [(-1e-3, 2e-3, True), (-0.1, 0.3, False)])
def test_noise_alone_does_not_confirm_that_nothing_was_lost(
    low: float, high: float, holds: bool
) -> None:
    seeds = []
    for number, lost in enumerate((low, high)):
        made = made_seed(number)
        first, *others, last = made.replay
        seeds.append(replace(made, replay=(first, *others, (1.0 - lost, *last[1:]))))
    # Six of each: the interval is near the mean of both for small losses, and wide for large ones.
    verdict = ToySeeds(seeds * 6).statements()[5].verdict
    assert verdict is (SAME if holds else DIFFERENT)


def test_nothing_is_run_where_that_is_not_wanted(tmp_path: Path) -> None:
    page = Toy().page(Results({}, {}, tmp_path, run_missing=False))
    assert page.verdicts == (Verdict.NOT_RUN,) * 9
    assert page.answer == f"{NOT_MADE.capitalize()}."
