"""Runs in experiment trackers: TensorBoard, MLflow, Weights & Biases.

:class:`Tracking` passes the events of a run to trackers, which implement :class:`Tracker`. A step
is an epoch of the run, counted over all tasks, so metrics after a task are logged at its last
epoch. The settings of the run are logged as well, under the names of ``--set``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Protocol

from faircil.cache import EmbeddingProgress
from faircil.errors import UsageError, raise_all, unknown_name
from faircil.files import file_name
from faircil.metrics import TaskMetrics
from faircil.results.record import EpochRecord
from faircil.runs.config import RunConfig
from faircil.runs.experiment import Event

PROJECT = "faircil"


class Tracker(Protocol):
    """Receives runs, one after another."""

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Begin a run with this name."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log numbers by name."""

    def end(self) -> None:
        """End the run, complete or not."""


class TensorBoard:
    """Writes event files for TensorBoard, with one folder per run.

    Parameters
    ----------
    place : str
        The parent folder of all runs.
    """

    def __init__(self, place: str) -> None:
        self._place = Path(place or "tensorboard")
        self._new_writer = import_module("torch.utils.tensorboard").SummaryWriter

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Open a folder, with the settings as text."""
        self._writer = self._new_writer(str(self._place / file_name(name)))
        lines = [f"    {key}={value}" for key, value in settings.items()]
        self._writer.add_text("settings", "\n".join(lines))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Write numbers."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self) -> None:
        """Close the file."""
        self._writer.close()


class MLflow:
    """Logs to MLflow, as set by ``MLFLOW_TRACKING_URI``, or to its default location.

    Parameters
    ----------
    place : str
        Name of the experiment.
    """

    def __init__(self, place: str) -> None:
        self._place = place or PROJECT
        self._mlflow = import_module("mlflow")

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Start a run of the experiment, which is created if it does not exist."""
        self._mlflow.set_experiment(self._place)
        self._mlflow.start_run(run_name=name)
        self._mlflow.log_params(dict(settings))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log metrics."""
        self._mlflow.log_metrics(dict(values), step=step)

    def end(self) -> None:
        """End the run."""
        self._mlflow.end_run()


class WandB:
    """Logs to Weights & Biases; with ``WANDB_MODE=offline``, everything stays on this machine.

    Parameters
    ----------
    place : str
        Name of the project.
    """

    def __init__(self, place: str) -> None:
        self._place = place or PROJECT
        self._wandb = import_module("wandb")

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Start a run of the project."""
        self._run = self._wandb.init(project=self._place, name=name, config=dict(settings))

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Log numbers."""
        self._run.log(dict(values), step=step)

    def end(self) -> None:
        """Finish the run."""
        self._run.finish()


TRACKERS: dict[str, Callable[[str], Tracker]] = {
    "tensorboard": TensorBoard,
    "mlflow": MLflow,
    "wandb": WandB,
}


class Tracking:
    """Passes a run's events to trackers; see :class:`faircil.sweep.work.Watcher`.

    If a tracker cannot begin, an error is raised, since nothing is lost yet. One that fails later
    is dropped, and the run continues.

    Parameters
    ----------
    trackers : sequence of Tracker
    config : RunConfig
    tell : callable
        Called with a message when a tracker is dropped.
    """

    def __init__(
        self, trackers: Sequence[Tracker], config: RunConfig, tell: Callable[[str], None]
    ) -> None:
        self._trackers, self._config, self._tell = trackers, config, tell
        self._open: list[Tracker] = []
        self._step = self._left = 0

    def start(self, seed: int, tasks: int) -> None:
        """Begin a run."""
        self.end()
        self._step, self._left = 0, tasks
        config = self._config
        chosen = {"dataset": config.dataset, "method": config.label, "measure": config.measure}
        settings = {name: str(value) for name, value in config.settings.flat().items()}
        name = f"{config.dataset}-{config.label}-{config.measure}-seed-{seed}"
        for tracker in self._trackers:
            try:
                tracker.begin(name, chosen | settings | {"seed": str(seed)})
            except Exception as error:
                raise UsageError(
                    f"{type(tracker).__name__} cannot take a run: {error}; set it up, or run "
                    "without it"
                ) from error
            self._open.append(tracker)

    def embedding(self, progress: EmbeddingProgress) -> None:
        """Do nothing: the terminal shows this progress."""

    def __call__(self, event: Event) -> None:
        """Log an epoch, or the metrics after a task."""
        if isinstance(event, EpochRecord):
            self._step += 1
            self._log(_of_epoch(event))
        elif isinstance(event, TaskMetrics):
            self._log(_of_task(event))
            self._left -= 1
            if self._left == 0:
                self.end()

    def end(self) -> None:
        """End the current run, if there is one."""
        self._each(lambda tracker: tracker.end())
        self._open.clear()

    def _log(self, values: Mapping[str, float]) -> None:
        self._each(lambda tracker: tracker.log(values, self._step))

    def _each(self, do: Callable[[Tracker], None]) -> None:
        """Call a function for every open tracker; one that fails is dropped."""
        for tracker in [*self._open]:
            try:
                do(tracker)
            except Exception as error:
                self._open.remove(tracker)
                self._tell(f"{type(tracker).__name__} is not used from here on: {error}")


def _of_epoch(epoch: EpochRecord) -> dict[str, float]:
    """Return the values to log for an epoch."""
    share = epoch.trained / epoch.samples if epoch.samples else 0.0
    return {"task": epoch.task, "epoch/seconds": epoch.train, "epoch/share trained": share}


def _of_task(metrics: TaskMetrics) -> dict[str, float]:
    """Return all defined metrics after a task, and the accuracy of each task so far."""
    defined = {name: value for name, value in metrics.values.items() if value is not None}
    tasks = enumerate(metrics.per_test_task, start=1)
    return defined | {f"accuracy of task/{number}": value for number, value in tasks}


def new_trackers(wishes: Sequence[str]) -> list[Tracker]:
    """Return trackers by name.

    Parameters
    ----------
    wishes : sequence of str
        ``NAME`` or ``NAME=PLACE``, with a folder, experiment or project.

    Raises
    ------
    UsageError
        If names are unknown or packages missing; all mistakes are listed.
    """
    found, mistakes = [], []
    for wish in wishes:
        name, _, place = wish.partition("=")
        if name not in TRACKERS:
            mistakes.append(unknown_name("tracker", name, TRACKERS))
            continue
        try:
            found.append(TRACKERS[name](place))
        except ImportError as error:
            mistakes.append(
                f"tracker '{name}' needs the {name} package ({error}): "
                f"pip install {name}, or choose another"
            )
    raise_all(mistakes, UsageError)
    return found


@contextmanager
def tracking(
    trackers: Sequence[Tracker], config: RunConfig, tell: Callable[[str], None] = lambda _: None
) -> Iterator[Tracking]:
    """Track the runs of a configuration; the last one is ended in any case."""
    tracked = Tracking(trackers, config, tell)
    try:
        yield tracked
    finally:
        tracked.end()
