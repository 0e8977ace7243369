"""The numbers of the paper's tables and figures, and where it shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from faircil import metrics
from faircil.report import format_value
from faircil.results.record import RunSummary, spread
from faircil.results.run_files import read_epochs
from faircil_lab.paper import streams


@dataclass(frozen=True)
class Metric:
    """A number of a run, as the pages show it; those of predictions come from faircil's metrics.

    Parameters
    ----------
    title : str
        In plain words.
    of : callable
        From a run to its value, None where it has none.
    higher_is_better : bool or None
        None: neither way.
    digits : int
        Behind the point; with three, the leading zero is left out.
    ranked : bool
        Whether the best of several methods is marked.
    best : str
        The best value in words, for the axis of a plot.
    """

    title: str
    of: Callable[[RunSummary], float | None]
    higher_is_better: bool | None = False
    digits: int = 3
    ranked: bool = True
    best: str = ""

    @property
    def axis_title(self) -> str:
        """The title with the best value, if there is one."""
        return f"{self.title} ({self.best})" if self.best else self.title

    def by_seed(self, runs: Sequence[RunSummary]) -> dict[int, float]:
        """Return the values of runs that have one, by seed."""
        values = {run.seed: self.of(run) for run in runs}
        return {seed: value for seed, value in values.items() if value is not None}

    def text(self, values: Sequence[float]) -> str:
        """Write mean ± deviation; a dash where there is no value."""
        center, deviation = spread(values)
        if self.digits == 3 or center is None:
            return format_value(center, deviation)
        numbers = [center] if deviation is None else [center, deviation]
        return " ± ".join(f"{number:,.{self.digits}f}" for number in numbers)

    def difference_text(self, value: float) -> str:
        """Write a difference with its sign."""
        text = format_value(value) if self.digits == 3 else f"{value:,.{self.digits}f}"
        return text.replace("-", "−") if value < 0 else f"+{text}"


def _measured(name: str) -> Metric:
    """Return a metric of faircil as a number of a run."""
    row = metrics.METRICS[name]
    return Metric(row.title, lambda run: run.value(name), row.higher_is_better, best=row.best)


def _seconds(part: str) -> Callable[[RunSummary], float | None]:
    return lambda run: run.seconds[part]


def samples_kept(run: RunSummary) -> float | None:
    """Return the mean number of weights above 0 over weighted epochs; None if none is."""
    weights = [epoch.weights for epoch in read_epochs(Path(run.dir))]
    counts = [record.kept + record.partial for record in weights if record is not None]
    return mean(counts) if counts else None


# What the pages show of faircil's metrics.
SHOWN = (
    *("accuracy", "final_accuracy", "worst_group"),
    *("eer_task", "eo_gap", "dp_predicted", "dp"),
)
METRICS: Mapping[str, Metric] = {
    **{name: _measured(name) for name in SHOWN},
    **{
        f"seconds {part}": Metric(f"seconds, {words}", _seconds(part), digits=1, ranked=False)
        for part, words in (
            ("total", "whole run"),
            ("gradient", "gradients"),
            ("lp", "linear programs"),
            ("train", "training"),
        )
    },
    "samples kept": Metric(
        "samples with a weight above 0", samples_kept, None, digits=1, ranked=False
    ),
}


DATASET_NAMES = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "biased-mnist": "Biased MNIST",
    "drug": "DRUG",
    "biasbios": "BiasBios",
    "biasbios-sample": "BiasBios sample",
    "census-occupation": "census occupations by sex",
    "census-occupation-race": "census occupations by sex and race",
    "nls-jobs": "NLS jobs by gender",
    "obesity": "obesity by gender",
    **streams.TITLES,
}
PEOPLE = ("census-occupation", "census-occupation-race", "nls-jobs", "obesity")
# What the paper's tables and figures contain under the name of a measure.
PAPER_METRICS = {"eer": "eer_task", "eo": "eo_gap", "dp": "dp_predicted"}


@dataclass(frozen=True)
class Target:
    """A dataset and a measure."""

    dataset: str
    measure: str

    @property
    def title(self) -> str:
        """Its name in plain words."""
        return f"{DATASET_NAMES[self.dataset]} ({self.measure.upper()})"

    @property
    def key(self) -> str:
        """Its name in published data."""
        return f"{self.dataset} {self.measure}"

    @property
    def file(self) -> str:
        """A part of file names."""
        return f"{self.dataset}-{self.measure}"

    @property
    def metric(self) -> str:
        """The disparity that the paper shows here."""
        return PAPER_METRICS[self.measure]


TARGETS = (
    Target("mnist", "eer"),
    Target("fashion-mnist", "eer"),
    Target("biased-mnist", "eo"),
    Target("biased-mnist", "dp"),
    Target("drug", "eo"),
    Target("drug", "dp"),
    Target("biasbios", "eo"),
    Target("biasbios", "dp"),
)
