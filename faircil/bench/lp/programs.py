"""Weighting programs to measure: from files, or real ones from a short run; at any size."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from faircil.config import resolve
from faircil.data.tables import DAMAGE
from faircil.errors import DataError, FaircilError
from faircil.experiment import run
from faircil.metrics import TaskMetrics
from faircil.results.record import EpochRecord
from faircil.weighting.groups import Floats
from faircil.weighting.program import WeightProgram
from faircil.weighting.solver import SOLVERS, Solution, solve

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
            mistakes += [f"{path}: {line}" for line in str(error).removeprefix("- ").split("\n- ")]
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
    return [
        NamedProgram(f"{dataset} {measure}, task {epoch.task}", program)
        for epoch, program in zip(epochs_done, programs, strict=True)
        if epoch.epoch == epochs
    ]


@contextmanager
def recording() -> Iterator[list[WeightProgram]]:
    """While the block runs there is a solver ``record``, which keeps the programs it solves."""
    programs: list[WeightProgram] = []

    def record(program: WeightProgram) -> Solution:
        programs.append(program)
        return solve(program)

    SOLVERS[RECORDER] = record
    try:
        yield programs
    finally:
        del SOLVERS[RECORDER]


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
