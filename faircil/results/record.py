"""Records of a run in memory: results, their summary over tasks and seeds, the environment."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version as installed
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

import faircil
from faircil.counts import ENOUGH
from faircil.metrics import METRICS, TaskMetrics
from faircil.moments import PassRecord
from faircil.postprocess.tasks import TaskProbabilities

PACKAGES = ("torch", "numpy", "scipy", "highspy", "scikit-learn")
EXTRAS = ("transformers", "tokenizers")  # packages that a run may use, if installed


def version() -> str:
    """Return the version of faircil."""
    return faircil.__version__


def environment(command: str, device: str, code: str = "") -> dict[str, Any]:
    """Describe the machine and the libraries.

    Parameters
    ----------
    command : str
        The command line, to repeat the run.
    device : str
        Device of the run.
    code : str
        Hash of the code that the result depends on, if known.
    """
    import torch  # here, so that results can be read without loading it

    return {
        "command": command,
        "faircil": version(),
        "code": code,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "device": device,
        "gpu": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        "threads": torch.get_num_threads(),
        "packages": {name: installed(name) for name in (*PACKAGES, *filter(_is_there, EXTRAS))},
    }


def _is_there(package: str) -> bool:
    try:
        return bool(installed(package))
    except PackageNotFoundError:
        return False


# Parts of an identity that two equal runs share, as named in messages.
PARTS = {"config": "configuration", "code": "code", "seed": "seed"}


def identity(config: Mapping[str, Any], seed: int, code: str) -> dict[str, Any]:
    """Return the identity of a run: configuration, seed and code. The version is informative."""
    return {"faircil": version(), "code": code, "seed": seed, "config": dict(config)}


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the parts in which two identities differ."""
    return [name for key, name in PARTS.items() if one.get(key) != other.get(key)]


@dataclass(frozen=True)
class Seconds:
    """Wall time of a run by activity; ``total`` is from the first task to the last evaluation."""

    gradient: float
    lp: float
    train: float
    eval: float
    total: float


SPLIT = tuple(field.name for field in fields(Seconds))


@dataclass(frozen=True, slots=True)
class GroupWeights:
    """Weights of a group of the current task: number of samples, mean weight, and the group's loss.

    ``attribute`` is 0 if the measure compares classes; the loss is that of the setting ``loss``.
    """

    label: int
    attribute: int
    samples: int
    mean: float
    loss: float


@dataclass(frozen=True)
class WeightRecord:
    """The weighting of an epoch.

    Parameters
    ----------
    kept, dropped, partial : int
        Number of weights that are 1, 0, and in between.
    objective, bound : float
        Objective of the program, with its proven lower bound.
    gradient, lp : float
        Seconds.
    groups : tuple of GroupWeights
        Groups of the current task.
    """

    kept: int
    dropped: int
    partial: int
    objective: float
    bound: float
    gradient: float
    lp: float
    groups: tuple[GroupWeights, ...] = ()


@dataclass(frozen=True)
class EpochRecord:
    """An epoch: it trained on ``trained`` of ``samples`` in ``steps`` and ``train`` seconds.

    ``task`` and ``epoch`` count from 1; ``weights`` is None if the epoch was not weighted.
    ``tokens`` is the number of tokens passed through the text encoder in training, including
    replayed ones; None if no encoder is trained. ``passed`` contains the choices of a one-pass
    method.
    """

    task: int
    epoch: int
    samples: int
    trained: int
    steps: int
    train: float
    weights: WeightRecord | None
    tokens: int | None = None
    passed: PassRecord | None = None


@dataclass(frozen=True)
class Predictions:
    """Predictions for the test samples of all seen classes after a task; all arrays (n,).

    ``probability`` is that of the predicted class.
    """

    y_true: NDArray[np.int64]
    y_pred: NDArray[np.int64]
    probability: NDArray[np.float32]
    sensitive: NDArray[np.int64] | None
    task: NDArray[np.int64]


@dataclass(frozen=True)
class Names:
    """The names of the numbered classes and attribute values."""

    classes: tuple[str, ...]
    attribute: str | None = None
    attribute_values: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunResult:
    """One finished run.

    Parameters
    ----------
    config : mapping
        The resolved configuration, as in ``config.json``.
    label : str
        Short name of the method.
    seed : int
    names : Names
    per_task : tuple of TaskMetrics
        After each task.
    predictions : tuple of Predictions
        After each task.
    epochs : tuple of EpochRecord
    seconds : Seconds
    notes : tuple of str
        Notes for the user.
    probabilities : tuple of TaskProbabilities
        After each task; empty without an attribute or a buffer.
    """

    config: Mapping[str, Any]
    label: str
    seed: int
    names: Names
    per_task: tuple[TaskMetrics, ...]
    predictions: tuple[Predictions, ...]
    epochs: tuple[EpochRecord, ...]
    seconds: Seconds
    notes: tuple[str, ...] = ()
    probabilities: tuple[TaskProbabilities, ...] = ()

    @property
    def accuracy_matrix(self) -> NDArray[np.float64]:
        """See :func:`accuracy_matrix`."""
        return accuracy_matrix(self.per_task)

    def after_task(self, position: int) -> dict[str, float | None]:
        """Return all metrics after the task at ``position`` (from 0)."""
        return dict(self.per_task[position].values)

    def averages(self) -> dict[str, float | None]:
        """See :func:`averages`."""
        return averages(self.per_task)


def accuracy_matrix(per_task: Sequence[TaskMetrics]) -> NDArray[np.float64]:
    """Return the accuracy of task t after task l in row l, column t; NaN for later tasks.

    Tasks without new classes have a row but no column.
    """
    matrix = np.full((len(per_task), len(per_task[-1].per_test_task)), np.nan)
    for row, metrics in enumerate(per_task):
        matrix[row, : len(metrics.per_test_task)] = metrics.per_test_task
    return matrix


def averages(per_task: Sequence[TaskMetrics]) -> dict[str, float | None]:
    """Summarise each metric by its mean over tasks or its last value, as its table row specifies.

    Tasks for which a metric does not apply are excluded from its mean.
    """
    values: dict[str, float | None] = {}
    for name, metric in METRICS.items():
        after = [task.values[name] for task in per_task]
        known = [value for value in after if value is not None]
        mean_over_tasks = float(np.mean(known)) if known else None
        values[name] = after[-1] if metric.at_end else mean_over_tasks
    return values


Values = Mapping[str, float | None]


@dataclass(frozen=True)
class GroupResult:
    """Accuracy of the final model on a group of the test data.

    Parameters
    ----------
    label : str
        Name of the class.
    attribute : str or None
        Name of the attribute value; None without an attribute.
    n : int
        Number of test samples.
    accuracy : float
    """

    label: str
    attribute: str | None
    n: int
    accuracy: float

    @property
    def too_small(self) -> bool:
        """Whether there are too few test samples to evaluate the group."""
        return self.n < ENOUGH


@dataclass(frozen=True)
class RunSummary:
    """A finished run as stored in ``summary.json``.

    ``metrics`` are the metrics over all tasks (see :func:`averages`), ``per_task`` the metrics
    after each task, ``steps`` the number of updates, ``seconds`` the wall time by activity,
    ``code`` the hash of the code that produced it. ``groups`` are those of the test data after the
    last task; None in runs of earlier versions, which may also lack newer metrics and their
    ``names``.
    """

    label: str
    code: str
    config: Mapping[str, Any]
    seed: int
    metrics: Values
    steps: int
    seconds: Mapping[str, float]
    per_task: Sequence[Values]
    notes: Sequence[str]
    dir: str
    groups: Sequence[GroupResult] | None = None
    names: Names | None = None

    def value(self, metric: str) -> float | None:
        """Return a metric of the whole run; None if the run does not have it.

        Earlier versions did not store ``final_accuracy``, which is the last accuracy.
        """
        if metric == "final_accuracy" and metric not in self.metrics:
            return self.per_task[-1].get("accuracy")
        return self.metrics.get(metric)

    def as_json(self) -> dict[str, Any]:
        """Return the run as ``faircil run --json`` prints it."""
        return {
            "seed": self.seed,
            **self.metrics,
            "steps": self.steps,
            "seconds": self.seconds,
            "per_task": list(self.per_task),
            "groups": [asdict(g) | {"too_small": g.too_small} for g in self.groups or ()],
            "dir": self.dir,
        }


def summarise_run(result: RunResult, folder: Path, code: str) -> RunSummary:
    """Summarise a run, produced by ``code`` and stored in ``folder``."""
    return RunSummary(
        label=result.label,
        code=code,
        config=result.config,
        seed=result.seed,
        metrics=result.averages(),
        steps=sum(epoch.steps for epoch in result.epochs),
        seconds=asdict(result.seconds),
        per_task=[result.after_task(position) for position in range(len(result.per_task))],
        notes=list(result.notes),
        dir=str(folder),
        groups=group_results(result.per_task[-1], result.names),
        names=result.names,
    )


def group_results(metrics: TaskMetrics, names: Names) -> list[GroupResult]:
    """Return the groups by name; without an attribute, the classes."""
    if not metrics.groups:
        return [
            GroupResult(names.classes[item.label], None, item.n, item.accuracy)
            for item in metrics.classes
        ]
    return [
        GroupResult(
            names.classes[group.label],
            names.attribute_values[group.attribute],
            group.n,
            group.accuracy,
        )
        for group in metrics.groups
    ]


def over_seeds(runs: Sequence[RunSummary]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return mean and standard deviation (n − 1) over runs of all metrics, steps and seconds.

    A value is None if a run does not have it; deviations also for a single run.
    """
    means: dict[str, Any] = {}
    deviations: dict[str, Any] = {}
    for name in METRICS:
        means[name], deviations[name] = spread([run.value(name) for run in runs])
    means["steps"], deviations["steps"] = spread([run.steps for run in runs])
    pairs = {key: spread([run.seconds[key] for run in runs]) for key in SPLIT}
    means["seconds"] = {key: pair[0] for key, pair in pairs.items()}
    deviations["seconds"] = {key: pair[1] for key, pair in pairs.items()}
    return means, deviations


def spread(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return mean and standard deviation; None where they are undefined."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None
    return mean(known), stdev(known) if len(known) > 1 else None


def as_document(runs: Sequence[RunSummary]) -> dict[str, Any]:
    """Return the JSON document of ``faircil run --json``."""
    means, deviations = over_seeds(runs)
    return {"runs": [run.as_json() for run in runs], "mean": means, "std": deviations}
