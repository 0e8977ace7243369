"""Runs in the trackers that people use: TensorBoard, MLflow, Weights & Biases.

A tracker does three things, see :class:`Tracker`, and :class:`Tracking` tells it what a run does. A
step is an epoch of the run, counted over all tasks, so that metrics after a task stand at its last
epoch. Settings of the run come with it, under the names of ``--set``.
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
    """Takes runs, one after another."""

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Begin a run of this name."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Take numbers by name."""

    def end(self) -> None:
        """End the run, finished or not."""


class TensorBoard:
    """Writes event files for TensorBoard, a folder for each run.

    Parameters
    ----------
    place : str
        The folder of all runs.
    """

    def __init__(self, place: str) -> None:
        self._place = Path(place or "tensorboard")
        self._new_writer = import_module("torch.utils.tensorboard").SummaryWriter

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Open a folder, with the settings as a text."""
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
    """Logs to MLflow: where ``MLFLOW_TRACKING_URI`` says, or at its usual place.

    Parameters
    ----------
    place : str
        Name of the experiment.
    """

    def __init__(self, place: str) -> None:
        self._place = place or PROJECT
        self._mlflow = import_module("mlflow")

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Start a run of the experiment, which is made if it is not there."""
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
    """Logs to Weights & Biases; ``WANDB_MODE=offline`` keeps all on this machine.

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
    """Tells trackers what a run does; a watcher of runs, see :class:`faircil.sweep.work.Watcher`.

    A tracker that cannot begin is an error, since nothing is lost yet. One that fails later is left
    out, and the run goes on.

    Parameters
    ----------
    trackers : sequence of Tracker
    config : RunConfig
    tell : callable
        Takes a line about a tracker that is left out.
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
        """Leave this to the progress on the terminal."""

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
        """End the run that is open, if one is."""
        self._each(lambda tracker: tracker.end())
        self._open.clear()

    def _log(self, values: Mapping[str, float]) -> None:
        self._each(lambda tracker: tracker.log(values, self._step))

    def _each(self, do: Callable[[Tracker], None]) -> None:
        """Do something with every open tracker; one that fails is left out from then on."""
        for tracker in [*self._open]:
            try:
                do(tracker)
            except Exception as error:
                self._open.remove(tracker)
                self._tell(f"{type(tracker).__name__} is not used from here on: {error}")


def _of_epoch(epoch: EpochRecord) -> dict[str, float]:
    """Return what people follow while a task is learned."""
    share = epoch.trained / epoch.samples if epoch.samples else 0.0
    return {"task": epoch.task, "epoch/seconds": epoch.train, "epoch/share trained": share}


def _of_task(metrics: TaskMetrics) -> dict[str, float]:
    """Return all metrics after a task that are defined, and the accuracy of each task so far."""
    defined = {name: value for name, value in metrics.values.items() if value is not None}
    tasks = enumerate(metrics.per_test_task, start=1)
    return defined | {f"accuracy of task/{number}": value for number, value in tasks}


def new_trackers(wishes: Sequence[str]) -> list[Tracker]:
    """Return trackers by name.

    Parameters
    ----------
    wishes : sequence of str
        ``NAME`` or ``NAME=PLACE``: the folder, experiment or project.

    Raises
    ------
    UsageError
        With all mistakes: names that are unknown, packages that are missing.
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
    """Track the runs of a configuration; whatever happens, the last one is ended."""
    tracked = Tracking(trackers, config, tell)
    try:
        yield tracked
    finally:
        tracked.end()
