"""The solvers to measure, each with what it needs before the clock starts."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from faircil.data.table_columns import DAMAGE
from faircil.errors import DataError, FaircilError, SolverError, unknown_name
from faircil.metrics import TaskMetrics
from faircil.results.record import EpochRecord
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.weighting.choice import solve_on_device, stored_rows
from faircil.weighting.groups import Floats
from faircil.weighting.program import WeightProgram
from faircil.weighting.solver import SOLVERS, Solution, solve
from faircil.weighting.solver.columns import StoredRows

UNITS = {"": 1, "k": 1_000, "M": 1_000_000}
LARGEST = 100_000_000  # columns: beyond, the arrays take tens of gigabytes


def parse_sizes(texts: Sequence[str], mistakes: list[str]) -> tuple[int, ...]:
    """Read ``1000``, ``12k`` or ``1M``; sorted, each once; adds to ``mistakes`` what is wrong.

    Examples
    --------
    >>> parse_sizes(["1M", "12k", "1000"], [])
    (1000, 12000, 1000000)
    """
    sizes = set()
    for text in texts:
        match = re.fullmatch(r"(\d{1,9})([kM]?)", text, re.ASCII)
        if match is None:
            mistakes.append(
                f"--sizes: '{text}' is no number of columns; write 1000, 12k or 1M "
                "(files come before --sizes)"
            )
            continue
        size = int(match[1]) * UNITS[match[2]]
        if 1 <= size <= LARGEST:
            sizes.add(size)
        else:
            mistakes.append(f"--sizes: '{text}' is not between 1 and {LARGEST:,} columns")
    return tuple(sorted(sizes))


ARRAYS = tuple(field.name for field in fields(WeightProgram))
NOISE = 0.02  # a drawn column differs from its original by this much, relatively
RECORDER = "record"
RUNS = (("digits", "eer"), ("biased-digits", "eo"))  # dataset and measure
EPOCHS = 2  # the first epoch of a task keeps every sample, from the second on there is a choice


@dataclass(frozen=True)
class NamedProgram:
    """A program, and what to call it."""

    name: str
    program: WeightProgram


def read_programs(paths: Sequence[Path], mistakes: list[str]) -> list[NamedProgram]:
    """Read programs from ``.npz`` files; adds to ``mistakes`` what is wrong with any of them."""
    stems = [path.stem for path in paths]
    found = []
    for path in paths:
        try:
            program = _read(path)
        except DataError as error:
            mistakes += [f"{path}: {sentence}" for sentence in error.args]
        else:
            found.append(
                NamedProgram(path.stem if stems.count(path.stem) == 1 else str(path), program)
            )
    return found


def _read(path: Path) -> WeightProgram:
    if not path.is_file():
        raise DataError("there is no such file; check the path")
    if not zipfile.is_zipfile(path):
        raise DataError("this is not an .npz archive; write it with numpy.savez")
    with np.load(path, allow_pickle=False) as archive:
        missing = [name for name in ARRAYS if name not in archive.files]
        if missing:
            raise DataError(
                f"arrays are missing: {', '.join(missing)}; a program has {', '.join(ARRAYS)}"
            )
        try:
            program = WeightProgram(*(archive[name] for name in ARRAYS))
        except DAMAGE as error:
            raise DataError(f"an array cannot be read as numbers: {error}") from None
    if len(program) == 0:
        raise DataError("the program has no columns; expected at least one")
    return program


def recorded_programs(dataset: str, measure: str, epochs: int = EPOCHS) -> list[NamedProgram]:
    """Run FSW on a dataset and return the programs of the last epoch of each task but the first.

    Parameters
    ----------
    dataset, measure : str
    epochs : int
        Per task.
    """
    epochs_done: list[EpochRecord] = []

    def listen(event: EpochRecord | TaskMetrics) -> None:
        if isinstance(event, EpochRecord) and event.weights is not None:
            epochs_done.append(event)

    with recording() as programs:
        overrides = [f"epochs={epochs}", f"solver={RECORDER}"]
        run(resolve(dataset=dataset, measure=measure, overrides=overrides), 0, listener=listen)
    of_epochs = programs[1:]  # the first one tries the solver, before training
    return [
        NamedProgram(f"{dataset} {measure}, task {epoch.task}", program)
        for epoch, program in zip(epochs_done, of_epochs, strict=True)
        if epoch.epoch == epochs
    ]


def all_recorded(report: Callable[[str], None]) -> list[NamedProgram]:
    """Record the programs of all short runs, and say which is made."""
    programs = []
    for dataset, measure in RUNS:
        report(f"recording the programs of a short run: {dataset}, {measure}")
        programs += recorded_programs(dataset, measure)
    return programs


@contextmanager
def recording() -> Iterator[list[WeightProgram]]:
    """While the block runs there is a solver ``record``, which keeps the programs it solves."""
    programs: list[WeightProgram] = []

    def record(program: WeightProgram) -> Solution:
        programs.append(program)
        return solve(program)

    with SOLVERS.temporarily(RECORDER, record):
        yield programs


def resized(program: WeightProgram, n: int, seed: int = 0) -> WeightProgram:
    """Make a program of the same kind with ``n`` columns.

    Columns are drawn with replacement, each entry is multiplied by 1 + 2 % noise, and all of them
    by old size over new size, so that all columns together weigh as much as before.
    """
    generator = np.random.default_rng(seed)
    chosen = generator.integers(len(program), size=n)

    def draw(rows: Floats) -> Floats:
        drawn = np.empty((len(rows), n))
        for row, values in zip(drawn, rows, strict=True):
            generator.standard_normal(out=row)
            row *= NOISE
            row += 1
            row *= values[chosen]
            row *= len(program) / n
        return drawn

    try:
        return replace(
            program,
            gap_rows=draw(program.gap_rows),
            floor_rows=draw(program.floor_rows),
            cost=draw(program.cost[None])[0],
        )
    except MemoryError:
        raise FaircilError(
            f"not enough memory for a program of {n:,} columns; leave out this size"
        ) from None


REFERENCE = "highs"  # ratios are against it
ON_DEVICE = "device"  # the exact solver with the program in the memory of a GPU
PROBE = WeightProgram(
    gap_rows=np.array([[1.0, 2.0, -1.0]]),
    gap_offsets=np.array([1.0]),
    cost=np.array([-0.5, 0.25, 0.1]),
    floor_rows=np.array([[1.0, 1.0, 0.0]]),
    floor_offsets=np.array([1.5]),
)


@dataclass(frozen=True)
class SolverCase:
    """A solver under measurement.

    Parameters
    ----------
    name : str
    prepare : callable
        Brings a program to the form and device that the solver needs; not timed.
    solve : callable
        Solves what ``prepare`` returned; timed.
    """

    name: str
    prepare: Callable[[WeightProgram], Any]
    solve: Callable[[Any], Solution]


def all_cases(device: torch.device | None = None) -> dict[str, SolverCase]:
    """Return every solver there is, installed or not, by name; with a GPU also the one for it."""
    cases = {name: SolverCase(name, lambda program: program, SOLVERS[name]) for name in SOLVERS}
    if device is None or device.type == "cpu":
        return cases

    def to_device(program: WeightProgram) -> tuple[StoredRows, Floats, int]:
        return stored_rows(program, device), program.offsets, len(program.gap_offsets)

    return cases | {
        ON_DEVICE: SolverCase(ON_DEVICE, to_device, lambda given: solve_on_device(*given))
    }


def usable_cases(
    names: Sequence[str] | None, mistakes: list[str], device: torch.device | None = None
) -> tuple[list[SolverCase], list[str]]:
    """Choose the solvers to measure.

    Parameters
    ----------
    names : sequence of str or None
        Those the user names; None: all that are installed.
    mistakes : list of str
        Gets what is wrong with the names.
    device : torch.device, optional
        A GPU to measure, too.

    Returns
    -------
    cases : list of SolverCase
    notes : list of str
        Why a solver that was not named is left out.
    """
    known = all_cases(device)
    unknown = [name for name in names or () if name not in known]
    mistakes += [unknown_name("solver", name, known) for name in unknown]
    cases, reasons = [], []
    for name in dict.fromkeys(known if names is None else names):
        if name in known:
            reason = _why_not(known[name])
            if reason is None:
                cases.append(known[name])
            else:
                reasons.append(f"solver '{name}' cannot be used here: {reason}")
    if names is None:
        return cases, reasons
    mistakes += reasons
    return cases, []


def _why_not(case: SolverCase) -> str | None:
    """Try a tiny program, which also loads what the solver needs; None if it works."""
    try:
        case.solve(case.prepare(PROBE))
    except SolverError as error:
        return str(error)
    return None
