"""Measurements are kept and found again, and what they are made of is what it says."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from faircil.errors import DataError, StorageError
from faircil.metrics import eo
from faircil.nets import build_mlp
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.weighting.groups import find_groups
from faircil_lab.paper import store
from faircil_lab.paper.store import Measurement, file_of, measured
from faircil_lab.paper.watching import (
    SampleFit,
    cost_and_disparity,
    expand,
    expand_groups,
    step_between,
    watching,
    weights_of_epoch,
)
from faircil_lab.wording import sentence
from learning import of_classes, random_samples
from small_runs import small_config, small_stream


@dataclass(frozen=True)
class Squares:
    squares: tuple[int, ...]


@dataclass(frozen=True)
class Count(Measurement[Squares]):
    """Counts how often it is computed."""

    name: ClassVar[str] = "count"
    values: ClassVar[type[Squares]] = Squares
    made: ClassVar[list[int]] = []

    upto: int

    def compute(self) -> Squares:
        self.made.append(self.upto)
        if self.upto < 0:
            raise DataError("numbers/squares.gz is missing")
        return Squares(tuple(n * n for n in range(self.upto)))


@pytest.fixture(autouse=True)
def _forget() -> None:
    Count.made.clear()


def test_a_measurement_is_made_once_and_read_as_it_was(tmp_path: Path) -> None:
    first, second = measured(Count(3), tmp_path), measured(Count(3), tmp_path)
    assert first == second
    assert second.values == Squares((0, 1, 4))
    assert measured(Count(4), tmp_path).values == Squares((0, 1, 4, 9))
    assert Count.made == [3, 4]


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-9],
        lambda text: text.replace("4]", "5]"),
        lambda _: "[]",
        lambda _: '{"parameters": {"upto": 3}}',
        lambda text: text.replace('"upto": 3', '"upto": 5'),
    ],
)
def test_what_is_damaged_or_altered_is_made_anew(tmp_path: Path, damage) -> None:  # type: ignore[no-untyped-def]
    measured(Count(3), tmp_path)
    file = file_of(Count(3), tmp_path)
    changed = damage(file.read_text())
    assert changed != file.read_text()
    file.write_text(changed)
    assert measured(Count(3), tmp_path).values == Squares((0, 1, 4))
    assert Count.made == [3, 3]
    assert json.loads(file.read_text())["values"] == {"squares": [0, 1, 4]}


def test_other_code_measures_anew_unless_any_code_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(Count(3), tmp_path)
    monkeypatch.setattr(store, "digest_code", lambda _: "other")
    assert measured(Count(3), tmp_path, run_missing=False, any_code=True).values is not None
    assert measured(Count(3), tmp_path, run_missing=False).problem == store.NOT_MADE
    assert Count.made == [3]
    measured(Count(3), tmp_path)
    assert Count.made == [3, 3]


def test_the_source_of_a_measurement_is_part_of_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file_of(Count(3), tmp_path)
    monkeypatch.setattr(Count, "sources", (store,))
    assert file_of(Count(3), tmp_path) != before


def test_nothing_is_made_where_nothing_is_to_be_run(tmp_path: Path) -> None:
    assert measured(Count(3), tmp_path, run_missing=False).problem == store.NOT_MADE
    assert Count.made == []
    assert not any(tmp_path.iterdir())


def test_missing_data_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    found = measured(Count(-1), tmp_path)
    assert found.values is None
    assert found.problem == "not run: numbers/squares.gz is missing"
    assert not any(tmp_path.iterdir())


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, content: bytes) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match=r"No space left.*--runs"):
        measured(Count(3), tmp_path)
    assert not list((tmp_path / store.FOLDER).iterdir())


def test_slopes_and_curvatures_are_those_of_the_whole_hessian() -> None:
    net, samples = build_mlp(6, 5, (4,), seed=0).double(), random_samples(9)
    samples = type(samples)(samples.x.double(), samples.y)
    step = {name: torch.randn_like(p) for name, p in net.named_parameters()}
    names, shapes = zip(*((name, p.shape) for name, p in net.named_parameters()), strict=True)
    flat_step = torch.cat([step[name].flatten() for name in names])
    start = nn.utils.parameters_to_vector(net.parameters()).detach()
    found = expand(net, step, samples)
    for i in range(len(samples)):

        def loss(flat: torch.Tensor, i: int = i) -> torch.Tensor:
            parts = torch.split(flat, [shape.numel() for shape in shapes])
            named = {n: p.view(s) for n, p, s in zip(names, parts, shapes, strict=True)}
            return cross_entropy(functional_call(net, named, samples.x[i : i + 1]), samples.y[[i]])

        gradient = torch.autograd.functional.jacobian(loss, start)
        hessian = torch.autograd.functional.hessian(loss, start)
        assert found.loss[i] == pytest.approx(float(loss(start)))
        assert found.slope[i] == pytest.approx(float(gradient @ flat_step))
        assert found.curvature[i] == pytest.approx(float(flat_step @ hessian @ flat_step))


def test_what_is_left_shrinks_with_the_square_and_the_cube_of_the_step() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 5)).double()
    samples = random_samples(20)
    samples = type(samples)(samples.x.double(), samples.y)
    whole = {name: torch.randn_like(p) for name, p in net.named_parameters()}
    left = []
    for size in (0.02, 0.01):
        step = {name: size * part for name, part in whole.items()}
        found = expand(net, step, samples)
        moved = {name: p + step[name] for name, p in net.named_parameters()}
        after = cross_entropy(functional_call(net, moved, samples.x), samples.y, reduction="none")
        truth = after.detach().numpy()
        left.append([np.abs(truth - p).sum() for p in (found.first_order, found.second_order)])
    first, second = np.array(left[0]) / np.array(left[1])
    assert first == pytest.approx(4, rel=0.1)
    assert second == pytest.approx(8, rel=0.1)


def test_the_terms_of_a_group_are_means_over_its_samples() -> None:
    net, moved = (build_mlp(6, 5, (4,), seed=seed) for seed in (0, 1))
    current = of_classes(40, [2, 3], attribute=True)
    memory = of_classes(30, [0, 1, 2], seed=1, attribute=True)  # class 2 counts as current
    membership = find_groups(current, memory, by_attribute=True)
    step = step_between(net, moved)
    found = expand_groups(net, step, current, memory, membership)
    groups = membership.groups
    for g in range(len(groups)):
        part = current if groups.current[g] else memory
        assert part.z is not None
        own = part.take((part.y == groups.label[g]) & (part.z == groups.attribute[g]))
        slow = expand(net, step, own)
        assert found.loss[g] == pytest.approx(slow.loss.mean(), rel=1e-5)
        assert found.slope[g] == pytest.approx(slow.slope.mean(), rel=1e-4)
        assert found.curvature[g] == pytest.approx(slow.curvature.mean(), rel=1e-4)
    assert {(int(y), bool(now)) for y, now in zip(groups.label, groups.current, strict=True)} == {
        (0, False),
        (1, False),
        (2, True),
        (3, True),
    }


def test_an_epoch_begins_with_what_the_last_one_left_and_its_weights_come_again() -> None:
    config, stream = small_config("fsw", epochs=3), small_stream(attribute=False)
    nets: list[list[torch.Tensor]] = []
    objectives: list[float] = []

    def look(state: RunState, before: nn.Module | None) -> None:
        if before is not None:
            for then, now in zip(nets[-1], before.parameters(), strict=True):
                assert torch.equal(then, now)
        nets.append([p.detach().clone() for p in state.learner.net.parameters()])
        if before is not None and state.buffer.samples is not None:
            objectives.append(weights_of_epoch(config, state, before).objective)

    result = run(config, 0, stream=stream, checkpoint=watching(look))
    recorded = [epoch.weights.objective for epoch in result.epochs if epoch.weights]
    assert objectives == pytest.approx(recorded)
    assert result.per_task == run(config, 0, stream=stream).per_task  # looking changes nothing


def test_the_disparity_of_accuracies_is_the_metric() -> None:
    samples = random_samples(200, attribute=True)
    assert samples.z is not None
    predicted = torch.where(torch.rand(200) < 0.6, samples.y, (samples.y + 1) % 5)
    hits = (predicted == samples.y).double().numpy()
    found = cost_and_disparity("eo", [samples], [SampleFit(losses=2 * hits, hits=hits)])
    truth = eo(samples.y.numpy(), predicted.numpy(), samples.z.numpy())
    assert found.disparity == pytest.approx(truth)
    assert found.cost == pytest.approx(2 * found.disparity)


def test_a_sentence_keeps_what_is_in_it():
    assert sentence("not run: no /Data/MNIST") == "Not run: no /Data/MNIST."
