"""Progress of runs, for a terminal and for a log."""

from __future__ import annotations

from rich.console import Console
from rich.progress import Progress

from faircil.config import RunConfig
from faircil.metrics import TaskMetrics
from faircil.report import format_value
from faircil.results.record import EpochRecord

DISPARITY = {
    "eer": "eer",
    "eo": "eo_gap",
    "dp": "dp",
}  # what to show while a measure is trained for


class Silence:
    """Shows nothing."""

    def start(self, seed: int, tasks: int) -> None:
        """Ignore the start of a run."""

    def __call__(self, event: EpochRecord | TaskMetrics) -> None:
        """Ignore the event."""


class Lines:
    """One line per task."""

    def __init__(self, console: Console, config: RunConfig) -> None:
        self._console, self._config = console, config
        self._seed = self._tasks = 0
        self._epochs: list[EpochRecord] = []

    def start(self, seed: int, tasks: int) -> None:
        """Begin a run."""
        self._seed, self._tasks = seed, tasks

    def __call__(self, event: EpochRecord | TaskMetrics) -> None:
        """Collect epochs; write a line when a task has been evaluated."""
        if isinstance(event, EpochRecord):
            self._epochs.append(event)
            return
        last, seconds = self._epochs[-1], sum(_seconds(epoch) for epoch in self._epochs)
        self._console.print(
            f"{self._config.dataset} {self._config.label} seed {self._seed}: "
            f"task {last.task}/{self._tasks}  {_metrics(self._config, event)}  "
            f"{_detail(last)}  {seconds:.1f} s"
        )
        self._epochs.clear()


class Bars:
    """A bar over all epochs of all runs."""

    def __init__(self, progress: Progress, config: RunConfig, runs: int) -> None:
        self._progress, self._config, self._runs = progress, config, runs
        self._bar = progress.add_task(config.label, total=None, detail="loading data")
        self._seed = self._tasks = 0
        self._metrics = ""

    def start(self, seed: int, tasks: int) -> None:
        """Begin a run; now the amount of work is known."""
        self._seed, self._tasks, self._metrics = seed, tasks, ""
        total = self._runs * tasks * self._config.settings.epochs
        self._progress.update(self._bar, total=total)

    def __call__(self, event: EpochRecord | TaskMetrics) -> None:
        """Move the bar."""
        if isinstance(event, EpochRecord):
            where = (
                f"{self._config.label} seed {self._seed} task {event.task}/{self._tasks} "
                f"epoch {event.epoch}/{self._config.settings.epochs}"
            )
            self._progress.update(
                self._bar,
                advance=1,
                description=where,
                detail=f"{_detail(event)} {self._metrics}",
            )
        else:
            self._metrics = _metrics(self._config, event)


def _seconds(epoch: EpochRecord) -> float:
    weighting = epoch.weights.gradient + epoch.weights.lp if epoch.weights else 0.0
    return epoch.train + weighting


def _detail(epoch: EpochRecord) -> str:
    if epoch.weights is None:
        return f"{epoch.samples:,} samples"
    return f"trained on {epoch.trained:,} of {epoch.samples:,}, LP {epoch.weights.lp:.2f} s"


def _metrics(config: RunConfig, metrics: TaskMetrics) -> str:
    name = DISPARITY.get(config.measure, "eer")
    return (
        f"accuracy {format_value(metrics.accuracy)}  {name} {format_value(getattr(metrics, name))}"
    )
