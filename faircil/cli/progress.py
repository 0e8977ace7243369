"""Progress of runs: bars on a terminal, lines in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from faircil.cache import EmbeddingProgress
from faircil.cli.console import duration, make_console, say
from faircil.learners import LEARNERS
from faircil.metrics import TaskMetrics
from faircil.model.table_rows import UNWATCHED, LessonWatcher, UnwatchedLessons
from faircil.report import format_value
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig
from faircil.sweep.work import Unwatched, Watcher
from faircil.weighting.measures import find_measure

PAUSE = 10.0  # seconds between two lines of the same run


class EmbeddingLines:
    """Prints lines on the progress of embedding, at intervals and at the end.

    Parameters
    ----------
    tell : callable
        Prints a line.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._last_line = tell, 0.0  # elapsed seconds at the last line

    def __call__(self, progress: EmbeddingProgress) -> None:
        """Receive the number of texts or images embedded so far."""
        if progress.rows == progress.total or progress.seconds - self._last_line > PAUSE:
            self._last_line = 0.0 if progress.rows == progress.total else progress.seconds
            self._tell(_embedded(progress))


def embedding_lines(quiet: bool) -> EmbeddingLines:
    """Return a function that prints the progress of embedding, or nothing if ``quiet``."""
    return EmbeddingLines((lambda _: None) if quiet else say)


class Lines:
    """Prints one line per task, and lines on epochs at intervals."""

    def __init__(self, console: Console, config: RunConfig) -> None:
        self._console, self._config = console, config
        self._seed = self._tasks = 0
        self._epochs: list[EpochRecord] = []
        self._last_line = 0.0  # elapsed seconds at the last line
        self._embedding = EmbeddingLines(self._print)

    def start(self, seed: int, tasks: int) -> None:
        """Begin a run."""
        self._seed, self._tasks, self._last_line = seed, tasks, 0.0

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Print a line at intervals, and at the end."""
        self._embedding(progress)

    def __call__(self, event: EpochRecord | TaskMetrics) -> None:
        """Collect epochs; print a line after each task, and at intervals."""
        if isinstance(event, EpochRecord):
            self._epochs.append(event)
        last, seconds = self._epochs[-1], sum(_seconds(epoch) for epoch in self._epochs)
        run = f"{self._config.dataset} {self._config.label} seed {self._seed}: "
        task, epochs = f"task {last.task}/{self._tasks}", self._config.settings.training.epochs
        if isinstance(event, TaskMetrics):
            metrics = _metrics(self._config, event)
            self._print(f"{run}{task}  {metrics}  {_detail(last)}  {seconds:.1f} s")
            self._epochs.clear()
            self._last_line = 0.0
        elif seconds - self._last_line > PAUSE and last.epoch < epochs:
            self._last_line = seconds
            left = (epochs - last.epoch) * seconds / len(self._epochs)
            self._print(
                f"{run}{task} epoch {last.epoch}/{epochs}  {_detail(last)}  {seconds:.1f} s, "
                f"about {duration(left)} left of this task"
            )

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class DetailedProgress(Progress):
    """Bars with a line of details below, so that both fit a terminal of 80 columns."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bars, then the details."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            yield Text(f"  {task.fields['detail']}", style="dim", no_wrap=True, overflow="ellipsis")


class Bars:
    """A bar over all epochs of all runs."""

    def __init__(self, progress: Progress, config: RunConfig, runs: int) -> None:
        self._progress, self._config, self._runs = progress, config, runs
        self._bar = progress.add_task(config.label, total=None, detail="loading data")
        self._seed = self._tasks = 0
        self._metrics = ""

    def start(self, seed: int, tasks: int) -> None:
        """Begin a run, whose amount of work is now known."""
        self._seed, self._tasks, self._metrics = seed, tasks, ""
        total = self._runs * tasks * self._config.settings.training.epochs
        self._progress.update(self._bar, total=total)

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Show the progress below the bar, since it is not part of an epoch."""
        self._progress.update(self._bar, detail=_embedded(progress))

    def __call__(self, event: EpochRecord | TaskMetrics) -> None:
        """Advance the bar."""
        if isinstance(event, EpochRecord):
            where = (
                f"{self._config.label} seed {self._seed} task {event.task}/{self._tasks} "
                f"epoch {event.epoch}/{self._config.settings.training.epochs}"
            )
            detail = f"{_detail(event)}  {self._metrics}"
            self._progress.update(self._bar, advance=1, description=where, detail=detail)
        else:
            self._metrics = _metrics(self._config, event)


@contextmanager
def reporting(config: RunConfig, runs: int, quiet: bool) -> Iterator[Watcher]:
    """Show the progress of runs: bars on a terminal, lines elsewhere, nothing if quiet."""
    console = make_console(stderr=True)
    if quiet:
        yield Unwatched()
    elif not console.is_terminal:
        yield Lines(console, config)
    else:
        with DetailedProgress(*_columns(), console=console) as progress:
            yield Bars(progress, config, runs)


class LessonBar:
    """A bar over the candidates of a choice, then a bar over the epochs of lessons."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar = progress.add_task("reading", total=None, detail="")
        self._config: RunConfig | None = None
        self._lessons = self._first = 0

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Show the number of texts or images embedded so far."""
        self._progress.update(
            self._bar,
            description="embedding",
            completed=progress.rows,
            total=progress.total,
            detail=_embedded(progress),
        )

    def trying(self, name: str, number: int, total: int) -> None:
        """Show the current candidate."""
        self._progress.update(
            self._bar,
            description="choosing the method",
            completed=number - 1,
            total=total,
            detail=f"trying {name}, run {number} of {total}",
        )

    def start(self, config: RunConfig, lessons: int) -> None:
        """Begin lessons, whose amount of work is now known."""
        self._config, self._lessons, self._first = config, lessons, 0
        one_pass = LEARNERS[config.method].one_pass
        epochs = 1 if one_pass else config.settings.training.epochs
        self._progress.update(
            self._bar, description=config.label, completed=0, total=lessons * epochs, detail=""
        )

    def rows(self, done: int, total: int) -> None:
        """Show the number of processed rows of a table in parts."""
        self._progress.update(
            self._bar,
            description="rows",
            completed=done,
            total=total,
            detail=f"{done:,} of {total:,} rows",
        )

    def __call__(self, epoch: EpochRecord) -> None:
        """Advance the bar; for a one-pass method, only the pass counts."""
        assert self._config is not None  # lessons have begun
        self._first = self._first or epoch.task
        where = f"{self._config.label} lesson {epoch.task - self._first + 1}/{self._lessons}"
        one_pass = LEARNERS[self._config.method].one_pass
        if epoch.passed is None:
            where += f" epoch {epoch.epoch}/{self._config.settings.training.epochs}"
        advance = int(not one_pass or epoch.passed is not None)
        self._progress.update(self._bar, advance=advance, description=where, detail=_detail(epoch))


class LessonLines(UnwatchedLessons):
    """Prints lines on the embedding of texts or images, and nothing else."""

    def __init__(self, console: Console) -> None:
        self._lines = EmbeddingLines(lambda line: console.print(Text(line), soft_wrap=True))

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Print a line at intervals, and at the end."""
        self._lines(progress)


@contextmanager
def learning(name: str, quiet: bool, verb: str = "learning") -> Iterator[LessonWatcher]:
    """Show the progress of a learning model: a bar on a terminal, a line elsewhere, or nothing."""
    console = make_console(stderr=True)
    if quiet:
        yield UNWATCHED
        return
    if not console.is_terminal:
        console.print(Text(f"{verb} {name}"), soft_wrap=True)
        yield LessonLines(console)
        return
    with DetailedProgress(*_columns(), console=console, transient=True) as progress:
        yield LessonBar(progress)


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )


def _seconds(epoch: EpochRecord) -> float:
    weighting = epoch.weights.gradient + epoch.weights.lp if epoch.weights else 0.0
    return epoch.train + weighting


def _detail(epoch: EpochRecord) -> str:
    parts = [f"{epoch.samples:,} samples"]
    if epoch.weights is not None:
        kept = epoch.weights.kept + epoch.weights.partial
        parts = [f"kept {kept:,} of {epoch.samples:,} samples", f"LP {epoch.weights.lp:.2f} s"]
    if epoch.tokens is not None and epoch.train > 0:
        parts.append(f"{epoch.tokens / epoch.train:,.0f} tokens/s")
    return ", ".join(parts)


def _embedded(progress: EmbeddingProgress) -> str:
    left = progress.seconds * (progress.total / progress.rows - 1)
    return (
        f"{'images' if progress.tokens is None else 'texts'} embedded: {progress.rows:,} of "
        f"{progress.total:,}, {progress.speed}, about {duration(left)} left"
    )


def first_metrics(config: RunConfig) -> tuple[str, ...]:
    """Return the names of the metrics to show if there is room for only a few.

    They include the worst group, since a low disparity alone may be due to levelling down.
    """
    return tuple(dict.fromkeys(("accuracy", find_measure(config.measure).shown, "worst_group")))


def _metrics(config: RunConfig, metrics: TaskMetrics) -> str:
    names = first_metrics(config)
    return "  ".join(f"{name} {format_value(metrics.values[name])}" for name in names)
