"""Time and memory of whole runs."""

from __future__ import annotations

import json
import os
import subprocess  # runs this Python, without a shell  # nosec B404
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any

from faircil.data.datasets import DATASETS
from faircil.errors import FaircilError, UsageError
from faircil.learners import LEARNERS
from faircil.results.record import Seconds
from faircil.runs.config import RunConfig, resolve
from faircil_lab.bench.measuring import Circumstances

METHODS = ("er", "fsw", "fsw:granularity=group")
REFERENCE = "er"  # ratios are against it


@dataclass(frozen=True)
class TimedMethod:
    """A method on a dataset.

    Parameters
    ----------
    dataset : str
    name : str
        ``METHOD[+WEIGHTING][:NAME=VALUE]…``, such as ``fsw:granularity=group``.
    settings : tuple of str
        ``NAME=VALUE`` for all methods alike.
    """

    dataset: str
    name: str
    settings: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Options of ``faircil run`` for it."""
        method, weighting, overrides = self._parts()
        return [
            *("--dataset", self.dataset, "--method", method),
            *(("--weighting", weighting) if weighting else ()),
            *(("--set", *overrides) if overrides else ()),
        ]

    def config(self) -> RunConfig:
        """Return the configuration; UsageError if there is none of that kind."""
        method, weighting, overrides = self._parts()
        return resolve(
            dataset=self.dataset, method=method, weighting=weighting, overrides=overrides
        )

    def _parts(self) -> tuple[str, str | None, list[str]]:
        method, weighting, own = method_parts(self.name)
        return method, weighting, [*self.settings, *own]


def method_parts(name: str) -> tuple[str, str | None, list[str]]:
    """Take ``METHOD[+WEIGHTING][:NAME=VALUE]…`` apart.

    Examples
    --------
    >>> method_parts("er+fsw:lam=1"), method_parts("der++")
    (('er', 'fsw', ['lam=1']), ('der++', None, []))
    """
    head, *own = name.split(":")
    method, plus, weighting = head.rpartition("+")
    return (head, None, own) if head in LEARNERS or not plus else (method, weighting, own)


def timed_methods(
    datasets: Sequence[str], names: Sequence[str], settings: Sequence[str], mistakes: list[str]
) -> list[TimedMethod]:
    """Return every method on every dataset; adds to ``mistakes`` what cannot be run, each once."""
    found = [
        TimedMethod(dataset, name, tuple(settings))
        for dataset in dict.fromkeys(datasets)
        for name in dict.fromkeys(names)
    ]
    lines: dict[str, None] = {}
    for contender in found:
        try:
            contender.config()
        except UsageError as error:
            lines |= dict.fromkeys(map(str, error.args))
    mistakes += lines
    return found


def missing_files(datasets: Sequence[str]) -> list[str]:
    """Return what the loaders would say of datasets whose files are not there."""
    # Their content takes long to read, so it is checked only where something is missing.
    incomplete = [DATASETS[name] for name in datasets if DATASETS[name].missing_files()]
    said = (file.message for row in incomplete for file in row.check_files() if file.state != "ok")
    return list(dict.fromkeys(said))


@dataclass(frozen=True)
class RunCost:
    """What one whole run took.

    Parameters
    ----------
    dataset, method : str
    repeat : int
        From 1.
    seconds : Seconds
    memory : float or None
        Peak of the whole process in GiB, where the system reports it.
    accuracy : float
        Mean over tasks, to see that runs are what they should be.
    """

    dataset: str
    method: str
    repeat: int
    seconds: Seconds
    memory: float | None
    accuracy: float


@dataclass(frozen=True)
class EpochCost:
    """What the statistics of an epoch take, against one forward pass over the task.

    Parameters
    ----------
    dataset, measure : str
    task : int
        From 2.
    samples, groups : int
        Of the task, and of all groups compared.
    forward : float
        Seconds of a forward pass without gradients over the task's samples.
    statistics : mapping
        Seconds of the statistics, by kind of gradient.
    """

    dataset: str
    measure: str
    task: int
    samples: int
    groups: int
    forward: float
    statistics: Mapping[str, float]


@dataclass(frozen=True)
class EpochWorkload:
    """An epoch's task on generated data: two new classes among old ones.

    Parameters
    ----------
    samples : int
        Of the current task.
    groups : int
        Of each class: its attribute values.
    classes : int
        Old and new.
    features : int
        Inputs of the net.
    """

    samples: int = 10_000
    groups: int = 2
    classes: int = 10
    features: int = 256


@dataclass(frozen=True)
class ScalePoint:
    """What the weights of an epoch take at a workload in which one factor was varied.

    Parameters
    ----------
    factor : str
        A field of :class:`EpochWorkload`.
    workload : EpochWorkload
    statistics, lp : float
        Seconds of the statistics and of the program.
    """

    factor: str
    workload: EpochWorkload
    statistics: float
    lp: float

    @property
    def value(self) -> int:
        """Value of the factor."""
        return int(getattr(self.workload, self.factor))


RunOutcome = RunCost | EpochCost | ScalePoint


@dataclass(frozen=True)
class RunResults(Circumstances):
    """A benchmark of runs.

    Parameters
    ----------
    outcomes : tuple of RunCost, EpochCost and ScalePoint
    repeats : int
        Of whole runs.
    """

    outcomes: tuple[RunOutcome, ...]
    repeats: int

    @property
    def runs(self) -> list[RunCost]:
        """The whole runs."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, RunCost)]

    @property
    def epochs(self) -> list[EpochCost]:
        """The statistics of epochs."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, EpochCost)]

    @property
    def points(self) -> list[ScalePoint]:
        """The growth on generated data."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, ScalePoint)]


def measure_runs(contenders: Sequence[TimedMethod], repeats: int, device: str) -> Iterator[RunCost]:
    """Run all methods of a dataset in turns, ``repeats`` times, then those of the next."""
    for dataset in dict.fromkeys(contender.dataset for contender in contenders):
        for repeat in range(1, repeats + 1):
            for contender in contenders:
                if contender.dataset == dataset:
                    yield run_once(contender, repeat, device)


def run_once(contender: TimedMethod, repeat: int, device: str) -> RunCost:
    """Run a method in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "faircil", "run", *contender.arguments]
        command += ["--json", "--quiet", "--device", device, "--out", folder]
        document, memory = outcome_of(command)
    run = document["runs"][0]
    return RunCost(
        contender.dataset,
        contender.name,
        repeat,
        Seconds(**run["seconds"]),
        memory,
        run["accuracy"],
    )


def outcome_of(
    command: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})
) -> tuple[dict[str, Any], float | None]:
    """Return what the command printed, and its peak memory in GiB.

    Parameters
    ----------
    command : sequence of str
    variables : mapping
        Of its environment, besides those of this process.
    """
    environment = {**os.environ, **variables}
    # Files and not pipes: nothing reads them while we wait.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as messages:
        # The command is made here.
        process = subprocess.Popen(  # nosec B603
            command, stdout=output, stderr=messages, env=environment
        )
        try:
            memory = _wait(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode:
            raise FaircilError(_read(messages).strip().removeprefix("error:").strip())
        document: dict[str, Any] = json.loads(_read(output))
        return document, memory


def _wait(process: subprocess.Popen[bytes]) -> float | None:
    """Wait for the end of a process; return its peak memory, None where the system hides it."""
    if not hasattr(os, "wait4"):
        process.wait()
        return None
    # The peak counts what the parent held when it forked, so this comes before data is loaded.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * bytes_per_unit / 2**30


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
