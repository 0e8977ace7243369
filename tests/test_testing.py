"""The public checks name what is broken, all of it at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from faircil.buffer import Candidates
from faircil.counts import Counts
from faircil.data.datasets import Dataset
from faircil.data.images import toy
from faircil.data.stream import Part, Parts
from faircil.errors import UsageError
from faircil.learners import LEARNERS, Batch, Method
from faircil.learners.replay import Replay
from faircil.metrics import METRICS, Metric
from faircil.options import ReplayOptions
from faircil.testing import (
    check_buffer_rule,
    check_dataset,
    check_learner,
    check_loss,
    check_measure,
    check_metric,
    check_solver,
)
from faircil.weighting.groups import Floats, Groups
from faircil.weighting.losses import cross_entropy
from faircil.weighting.measures import MEASURES, Measure
from faircil.weighting.program import Dual, Solution, WeightProgram, certify
from faircil.weighting.solver import Solver, solve


def broken_promises(check: Callable[[], None]) -> str:
    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value)


class SilentOptions(ReplayOptions):
    unsaid: int = 1


class Careless(Replay):
    """Replay that changes its batches, keeps its optimizer and draws from nowhere."""

    options = SilentOptions

    def begin_task(self, train, buffer):
        optimizer = self.optimizer
        material = super().begin_task(train, buffer)
        self.optimizer = optimizer
        return material

    def loss(self, batch: Batch) -> Tensor:
        batch.current.x.add_(torch.rand_like(batch.current.x))
        return super().loss(batch)

    def remember(self, train, weights, buffer):
        return buffer.with_samples(train)


def test_a_careless_learner() -> None:
    text = broken_promises(lambda: check_learner(Careless))
    for sentence in (
        "learner Careless breaks",
        "settings without a docstring below them: unsaid",
        "a step leaves its batch as it was: its inputs have changed",
        "begin_task keeps the momentum of the previous task",
        "(weighting none, with an attribute): two runs with seed 0",
        "with a quota of 6 it keeps",
    ):
        assert sentence in text
    assert not any(name.startswith("checked") for name in LEARNERS)


def test_a_row_that_does_not_fit_its_class() -> None:
    text = broken_promises(lambda: check_learner(Method(Replay, summary="mine", replays=False)))
    assert "replays is False, but remember is overridden: True" in text
    assert "replays is False, but it keeps samples" in text


def test_measures() -> None:
    def too_wide(groups: Groups) -> Floats:
        return np.ones((1, len(groups) + 1))

    text = broken_promises(lambda: check_measure(too_wide))
    assert "got shape (1, 2) with 1 group(s)" in text
    assert "it has no summary: give the function a docstring" in text
    text = broken_promises(
        lambda: check_measure(Measure(MEASURES["dp"].matrix, summary="dp", metric="dpp"))
    )
    assert "needs the counts of samples seen so far" in text  # needs_seen is not said
    assert "'dpp' is no metric" in text


def test_metrics() -> None:
    def careless(counts: Counts) -> float:
        counts.hits[:] += 1
        return float(counts.hits.sum())

    text = broken_promises(
        lambda: check_metric(
            Metric(careless, "", "Hits.", higher_is_better=True, compares="group", limits=(0, 1))
        )
    )
    for sentence in (
        "metric Metric breaks",
        "two calls differ (one class)",
        "without the attribute whose values it compares: it gives",
        "it has no title",
    ):
        assert sentence in text
    wrong = replace(METRICS["accuracy"], higher_is_better=False, compares="class")
    assert "perfect 1.0, lower better" in broken_promises(lambda: check_metric(wrong))
    nan = replace(METRICS["accuracy"], of=lambda _: float("nan"))
    assert "two calls differ" in broken_promises(lambda: check_metric(nan))
    with pytest.raises(UsageError, match="expected a Metric"):
        check_metric(lambda _: 0.5)  # type: ignore[arg-type]


def test_losses() -> None:
    def half_the_gradient(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        losses, gradients = cross_entropy(logits, y)
        return losses, gradients / 2

    assert "by central differences" in broken_promises(lambda: check_loss(half_the_gradient))

    def in_double(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return cross_entropy(logits.double(), y)

    assert "the type is not torch.float32" in broken_promises(lambda: check_loss(in_double))


def test_buffer_rules() -> None:
    text = broken_promises(lambda: check_buffer_rule(lambda group: torch.arange(1)))
    assert "gave 1 positions" in text

    def from_nowhere(group: Candidates) -> Tensor:
        return torch.randperm(len(group))

    assert "two draws with the same seed differ" in broken_promises(
        lambda: check_buffer_rule(from_nowhere)
    )


def test_datasets() -> None:
    def unscaled(seed: int) -> Parts:
        parts, drawn = toy(seed), np.random.default_rng()

        def large(part: Part) -> Part:
            return replace(part, inputs=lambda rows: 100 + drawn.random((len(rows), 2)))

        return replace(parts, train=large(parts.train), test=large(parts.test))

    text = broken_promises(lambda: check_dataset(Dataset(unscaled, attribute="sex")))
    assert "it has no summary" in text
    assert "its inputs are torch.float64" in text
    assert "its row says sex, the data None" in text
    assert "two calls with seed 0 differ" in text


def keep_nothing(program: WeightProgram) -> Solution:
    """Weights of 0, and how far from the optimum they can be."""
    start = time.perf_counter()
    dual = Dual(gap=np.sign(program.gap_offsets), floor=np.zeros(len(program.floor_offsets)))
    weights = np.zeros(len(program))
    return certify(program, weights, dual, "approximate (all 0)", time.perf_counter() - start)


def test_solvers() -> None:
    check_solver(Solver(keep_nothing, "nothing", exact=False))
    text = broken_promises(lambda: check_solver(keep_nothing))
    assert "optimality is not proven" in text or "a simple feasible point is better" in text
    assert "an exact solver raises solvererror where no weights keep the floors" in text

    def optimistic(program: WeightProgram) -> Solution:
        solution = solve(program)
        return replace(solution, bound=solution.objective + 1)

    text = broken_promises(lambda: check_solver(Solver(optimistic, "optimistic", exact=False)))
    assert "the dual proves" in text
