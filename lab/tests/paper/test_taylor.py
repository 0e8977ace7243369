from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.weighting.weights import FairSampleWeights
from faircil_lab.paper import taylor
from faircil_lab.paper.epochs import EpochByEpoch, watched_run
from faircil_lab.paper.exhibit import Results, Verdict
from faircil_lab.paper.store import NOT_MADE, Measured
from faircil_lab.paper.taylor import ErrorSeries, Taylor
from small_runs import small_config, small_stream
from watched_runs import falling, watched

SAME, DIFFERENT = Verdict.SAME, Verdict.DIFFERENT


@pytest.mark.parametrize("attribute", [False, True])
def test_errors_are_those_of_a_loop_over_groups(attribute: bool) -> None:
    config = small_config("fsw", attribute=attribute, epochs=2)
    stream = small_stream(attribute=attribute)
    slow: list[tuple[float, ...]] = []
    last: list[torch.Tensor] = []

    def flat(net: nn.Module) -> torch.Tensor:
        return nn.utils.parameters_to_vector(net.parameters()).detach().clone()

    def checkpoint(state: RunState) -> None:
        net, memory = state.learner.net, state.buffer.samples
        after = flat(net)
        if memory is not None:
            assert state.task is not None
            slow.append(_slow_errors(config, state, last[-1], after))
        last.append(after)

    run(config, 0, stream=stream, checkpoint=checkpoint)
    found = [e.errors for e in watched_run(config, 0, stream).epochs if e.errors is not None]
    assert len(found) == 4
    for errors, expected in zip(found, slow, strict=True):
        assert (errors.unchanged, errors.first, errors.second, errors.program) == pytest.approx(
            expected, rel=1e-3, abs=1e-6
        )


def _slow_errors(config, state, before, after):  # type: ignore[no-untyped-def]
    """Group after group, by backward passes twice."""
    net, current, memory = state.learner.net, state.task.material.current, state.buffer.samples
    by_attribute = config.measure == "eo"
    parameters = list(net.parameters())
    step = torch.split(after - before, [p.numel() for p in parameters])
    step = [part.view(p.shape) for part, p in zip(step, parameters, strict=True)]
    errors = []
    nn.utils.vector_to_parameters(before.clone(), parameters)
    settings = config.settings.weights
    weigh = FairSampleWeights(config.measure, alpha=settings.alpha, lam=settings.lam)
    predicted = weigh(net, current, memory, seen=state.seen).groups.predicted_losses
    keys = torch.cat([p.keys(by_attribute) for p in (current, memory)])
    for number, key in enumerate(keys.unique(dim=0)):
        part = current if (current.keys(by_attribute) == key).all(dim=1).any() else memory
        own = part.take((part.keys(by_attribute) == key).all(dim=1))
        nn.utils.vector_to_parameters(after.clone(), parameters)
        truth = cross_entropy(net(own.x), own.y).item()
        nn.utils.vector_to_parameters(before.clone(), parameters)
        loss = cross_entropy(net(own.x), own.y)
        gradient = torch.autograd.grad(loss, parameters, create_graph=True)
        slope = sum((g * s).sum() for g, s in zip(gradient, step, strict=True))
        product = torch.autograd.grad(slope, parameters)
        curvature = sum((h * s).sum() for h, s in zip(product, step, strict=True)).item()
        start, slope = loss.item(), slope.item()
        guesses = (start, start + slope, start + slope + curvature / 2, predicted[number])
        errors.append([abs(truth - guess) for guess in guesses])
    nn.utils.vector_to_parameters(after.clone(), parameters)
    return tuple(np.mean(errors, axis=0))


def verdicts(runs) -> list[Verdict]:  # type: ignore[no-untyped-def]
    return [s.verdict for s in ErrorSeries.of("Small", runs).statements()]


def test_falling_errors_and_a_closer_second_order_are_what_the_paper_says() -> None:
    assert verdicts([watched(seed) for seed in range(3)]) == [SAME] * 4


def test_what_does_not_come_out_is_said() -> None:
    growing = [watched(seed, first=lambda s, t, e: 1 / falling(s, t, e)) for seed in range(3)]
    assert verdicts(growing)[:2] == [DIFFERENT, DIFFERENT]
    late = [
        watched(s, second=lambda s, t, e: falling(s, t, e) * (2 if e == 1 else 0.5))
        for s in range(3)
    ]
    assert verdicts(late) == [SAME, SAME, DIFFERENT, SAME]


def test_the_page_draws_and_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(measurement: EpochByEpoch, _results: Results) -> Measured:  # type: ignore[type-arg]
        if measurement.dataset == "biased-mnist":
            return Measured(measurement, None, "not run: files absent (x)")
        return Measured(measurement, watched(measurement.seed))

    monkeypatch.setattr(taylor, "look_up", found)
    page = Taylor().page(Results({}, {}, tmp_path))
    assert page.verdicts == (*[SAME] * 4, *[Verdict.NOT_RUN] * 4)
    assert page.answer.startswith("On MNIST the second epoch of a task has 25 % of")
    picture = page.sections[1].picture
    assert picture is not None
    picture.draw(tmp_path / picture.file)
    assert (tmp_path / picture.file).stat().st_size > 10_000


def test_nothing_is_run_where_that_is_not_wanted(tmp_path: Path) -> None:
    page = Taylor().page(Results({}, {}, tmp_path, run_missing=False))
    assert set(page.verdicts) == {Verdict.NOT_RUN}
    assert page.answer == f"{NOT_MADE.capitalize()}."
    assert Taylor().requests() == Taylor().works({}) == ()
