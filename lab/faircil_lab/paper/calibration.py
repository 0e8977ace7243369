"""Whether the probabilities of a model are right, for every group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faircil.counts import ENOUGH
from faircil.learners.moments import Moments
from faircil.report import format_value
from faircil.results.record import spread
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import RunState, load_stream
from faircil.samples import concatenate, unique_rows
from faircil.weighting.groups import Floats
from faircil_lab.paper.exhibit import SEEDS, Grid, Page, Results, Section, WithoutRuns
from faircil_lab.paper.metrics import DATASET_NAMES
from faircil_lab.paper.store import Measurement, look_up, problem_of, values_of
from faircil_lab.wording import sentence

BINS = 15
DATASETS = ("digits", "biased-digits", "drug", "biased-mnist")
WIDTH = "width=1000"
METHODS: Mapping[str, tuple[str, ...]] = {"moments": (WIDTH,), "er": (), "der++": (), "gdumb": ()}
DRAWS = 200  # of rows that are right as often as their probabilities say
FITTED, PLAIN = "as predicted", "T = 1"


def calibration_error(certain: Floats, right: NDArray[np.bool_]) -> float:
    """Return the expected calibration error of n predictions.

    The rows are cut by the probability of the predicted class into 15 bins of equal size, fewer
    where a bin would have less than 10 rows. The error is the mean over rows of the distance
    between the mean probability of their bin and its accuracy.

    Parameters
    ----------
    certain : ndarray, shape (n,)
        Probability of the predicted class.
    right : ndarray of bool, shape (n,)
    """
    bins = np.array_split(np.argsort(certain, kind="stable"), bin_count(len(certain)))
    off = [abs(float((certain[rows] - right[rows]).sum())) for rows in bins]
    return sum(off) / len(certain)


def bin_count(rows: int) -> int:
    """Return the number of bins for so many rows."""
    return min(BINS, max(1, rows // ENOUGH))


def error_by_chance(certain: Floats) -> float:
    """Return the mean error of predictions that are right exactly as often as they say.

    It is not 0: the accuracy of a bin is off by chance, the more the fewer rows it has.
    """
    drawn = np.random.default_rng(0).random((DRAWS, len(certain))) < certain
    return fmean(calibration_error(certain, right) for right in drawn)


@dataclass(frozen=True)
class GroupFit:
    """How well probabilities fit the n test rows of a group.

    Parameters
    ----------
    group : str
        Its name; empty for all rows.
    n : int
    accuracy : float
    error, by_chance : float
        Expected calibration error, and what chance would leave of it.
    log_loss : float
        Mean negative logarithm of the probability of the true class.
    """

    group: str
    n: int
    accuracy: float
    error: float
    by_chance: float
    log_loss: float


@dataclass(frozen=True)
class Fit:
    """All test rows, and each group; ``temperature`` is None where none is fitted."""

    temperature: float | None
    whole: GroupFit
    groups: tuple[GroupFit, ...]

    @property
    def judged(self) -> list[GroupFit]:
        """The groups with enough rows."""
        return [group for group in self.groups if group.n >= ENOUGH]


@dataclass(frozen=True)
class Fits:
    """Of one run, by kind: :data:`FITTED`, and :data:`PLAIN` where a temperature is fitted."""

    kinds: dict[str, Fit]


def fit_of(scores: Tensor, y: Tensor, keys: Sequence[str], temperature: float | None) -> Fit:
    """Compare the softmax of scores, (n, classes), with the classes, (n,), group by group."""
    log_probabilities = torch.log_softmax(scores.double(), dim=1)
    certain, predicted = (part.numpy() for part in log_probabilities.max(dim=1))
    certain = np.exp(certain)
    right = predicted == y.numpy()
    losses = -log_probabilities[torch.arange(len(y)), y].numpy()
    group = np.array(keys)

    def part(name: str, rows: NDArray[np.bool_]) -> GroupFit:
        return GroupFit(
            name,
            n=int(rows.sum()),
            accuracy=float(right[rows].mean()),
            error=calibration_error(certain[rows], right[rows]),
            by_chance=error_by_chance(certain[rows]),
            log_loss=float(losses[rows].mean()),
        )

    groups = tuple(part(name, group == name) for name in dict.fromkeys(sorted(keys)))
    return Fit(temperature, part("", np.ones(len(y), dtype=bool)), groups)


@dataclass(frozen=True)
class CalibrationOfRun(Measurement[Fits]):
    """The final model of a run, on the test rows of all tasks."""

    name: ClassVar[str] = "calibration"
    values: ClassVar[type[Fits]] = Fits

    dataset: str
    method: str
    fixed: tuple[str, ...]
    seed: int

    def compute(self) -> Fits:
        """Run, and compare."""
        config = resolve(dataset=self.dataset, method=self.method, overrides=self.fixed)
        stream = load_stream(config, self.seed)
        states: list[RunState] = []
        run(config, self.seed, stream=stream, checkpoint=states.append)
        learner = states[-1].learner
        tests = concatenate([task.test for task in stream.tasks])
        keys, index = unique_rows(tests.keys())
        names = [
            ", ".join((stream.class_names[y], *(stream.attribute_values[v] for v in z)))
            for y, *z in keys.tolist()
        ]
        groups = [names[number] for number in index.tolist()]
        scores = learner.scores(tests.x)
        if not isinstance(learner, Moments):
            return Fits({FITTED: fit_of(scores, tests.y, groups, None)})
        t = learner.temperature
        return Fits(
            {
                FITTED: fit_of(scores, tests.y, groups, t),
                PLAIN: fit_of(scores * t, tests.y, groups, 1.0),
            }
        )


@dataclass(frozen=True)
class Row:
    """A line of a table: the same kind of fit of the same method, a seed each."""

    name: str
    fits: tuple[Fit, ...]

    def cells(self) -> tuple[str, ...]:
        """Write means over seeds, with deviations, in the order of :data:`HEADER`."""
        of_fits = (
            [fit.whole.accuracy for fit in self.fits],
            [fit.whole.error for fit in self.fits],
            [fit.whole.by_chance for fit in self.fits],
            [fmean(group.error for group in fit.judged) for fit in self.fits],
            [fmean(group.by_chance for group in fit.judged) for fit in self.fits],
            [fit.whole.log_loss for fit in self.fits],
            [max(group.log_loss for group in fit.judged) for fit in self.fits],
        )
        return (self.name, *(format_value(*spread(values)) for values in of_fits))

    def mean(self, part: str) -> str:
        """Write the mean over seeds of a number of all test rows."""
        return format_value(fmean(getattr(fit.whole, part) for fit in self.fits))

    def of_group(self, name: str) -> str:
        """Write error and log loss of a group, means over the seeds that have enough of it."""
        found = [group for fit in self.fits for group in fit.judged if group.group == name]
        if not found:
            return "–"
        errors, losses = ([getattr(one, p) for one in found] for p in ("error", "log_loss"))
        return f"{format_value(fmean(errors))} / {format_value(fmean(losses))}"


HEADER = (
    "probabilities", "accuracy", "ECE", "by chance", "ECE of a group", "by chance", "log loss",
    "log loss of the worst group",
)  # fmt: skip
ABOUT = (
    "The expected calibration error (ECE) is the distance between a model's stated probabilities "
    "and how often its predictions are right: rows are cut by the probability of the predicted "
    f"class into {BINS} bins of equal size (fewer where a bin would have less than {ENOUGH} rows), "
    "and the mean probability of a bin is compared with its accuracy. Small groups have an error "
    "by chance, shown next to it: that of predictions that are right exactly as often as they say. "
    "The log loss is the mean negative logarithm of the probability of the true class. Both of the "
    "final model, on the test rows of all tasks; the ECE of a group is a mean over groups (a class "
    f"with one attribute value, or a class) of at least {ENOUGH} test rows. `moments` has a "
    f"temperature T that follows from its sums, without held-out rows; *T = 1* is the softmax of "
    f"the unscaled scores. Shipped settings; mean ± standard deviation over seeds."
)


@dataclass(frozen=True)
class Calibration(WithoutRuns):
    """Calibration of moments and of replay, by group."""

    title: str = "Are probabilities calibrated, for every group?"
    paper: str = "no counterpart"
    seeds: tuple[int, ...] = SEEDS

    def page(self, results: Results) -> Page:
        """Measure, or read what was measured."""
        sections, answers = [], []
        for dataset in DATASETS:
            rows, problem = self._rows(dataset, results)
            if problem is not None:
                sections.append(Section(DATASET_NAMES[dataset], sentence(problem)))
                continue
            answers.append(_answer(DATASET_NAMES[dataset], rows))
            grid = Grid(HEADER, tuple(row.cells() for row in rows))
            sections.append(Section(DATASET_NAMES[dataset], _temperatures(rows), grid))
            sections.append(_by_group(DATASET_NAMES[dataset], rows))
        about = Section("What is measured", ABOUT, commands=("faircil reproduce calibration",))
        answer = " ".join(answers) or "Nothing was measured."
        return Page(answer, (about, *sections))

    def _rows(self, dataset: str, results: Results) -> tuple[list[Row], str | None]:
        """Return the lines of a dataset, or why they are missing."""
        rows = []
        for method, fixed in METHODS.items():
            found = [
                look_up(CalibrationOfRun(dataset, method, fixed, seed), results)
                for seed in self.seeds
            ]
            if (problem := problem_of(found)) is not None:
                return [], problem
            values = values_of(found)
            kinds = [kind for kind in (FITTED, PLAIN) if kind in values[0].kinds]
            for kind in kinds:
                name = f"{method}, {kind}" if len(kinds) > 1 else method
                rows.append(Row(name, tuple(one.kinds[kind] for one in values)))
        return rows, None


def _temperatures(rows: Sequence[Row]) -> str:
    fitted = [fit.temperature for fit in rows[0].fits if fit.temperature is not None]
    return f"T of `moments`: {', '.join(f'{t:.3g}' for t in fitted)}."


def _answer(title: str, rows: Sequence[Row]) -> str:
    """Say what the temperature does, and how replay compares."""
    fitted, plain, *others = rows
    further = ", ".join(
        f"{row.name} {row.mean('error')} / {row.mean('log_loss')}" for row in others
    )
    return (
        f"{title}: ECE / log loss of `moments` {fitted.mean('error')} / "
        f"{fitted.mean('log_loss')} with the temperature from its sums, {plain.mean('error')} / "
        f"{plain.mean('log_loss')} without; {further}."
    )


def _by_group(title: str, rows: Sequence[Row]) -> Section:
    names = {group.group: None for fit in rows[0].fits for group in fit.judged}
    return Section(
        f"{title}, by group",
        "ECE / log loss, means over seeds.",
        Grid(
            ("group", *(row.name for row in rows)),
            tuple((name, *(row.of_group(name) for row in rows)) for name in names),
        ),
        on_terminal=False,
    )
