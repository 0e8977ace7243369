"""Measurements that are kept as files, and statements of the paper that they check."""

from __future__ import annotations

import hashlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from faircil.errors import FaircilError, StorageError
from faircil.report.statistics import Interval
from faircil.results.code import digest_code
from faircil_lab.paper.exhibit import Grid, Page, Results, Section, Verdict

FOLDER = "measurements"
NOT_MADE = "not run: it was not measured yet, and nothing was to be run"

Values = TypeVar("Values")


@dataclass(frozen=True)
class Measurement(ABC, Generic[Values]):
    """Parameters of something to measure.

    ``name`` begins its files, ``values`` is the dataclass that it computes, and ``sources`` are
    modules that its result depends on, besides its own and those that it imports.
    """

    name: ClassVar[str]
    values: ClassVar[type[Any]]
    sources: ClassVar[tuple[ModuleType, ...]] = ()

    @abstractmethod
    def compute(self) -> Values:
        """Measure; DataError where the data is not there."""

    def identity(self) -> dict[str, Any]:
        """Return the parameters that its result depends on."""
        return asdict(self)


@dataclass(frozen=True)
class Measured(Generic[Values]):
    """The values of a measurement, or why there are none."""

    measurement: Measurement[Values]
    values: Values | None
    problem: str | None = None


def measured(
    measurement: Measurement[Values],
    root: Path,
    *,
    run_missing: bool = True,
    any_code: bool = False,
) -> Measured[Values]:
    """Read a measurement, or make it and keep it.

    Parameters
    ----------
    measurement : Measurement
    root : Path
        Where runs and measurements are kept.
    run_missing : bool
        Whether to make what is not there.
    any_code : bool
        Whether to use what other code has measured; that of this code goes first, then the latest.
    """
    own = file_of(measurement, root)
    for file in [own, *(_others(own) if any_code else [])]:
        values = _read(file, measurement)
        if values is not None:
            return Measured(measurement, values)
    if not run_missing:
        return Measured(measurement, None, NOT_MADE)
    try:
        values = measurement.compute()
    except StorageError:
        raise  # a full disk is no matter of one measurement
    except FaircilError as error:  # such as absent files, or an encoder that is not installed
        return Measured(measurement, None, f"not run: {error}")
    _write(own, measurement, values)
    return Measured(measurement, values)


def file_of(measurement: Measurement[Values], root: Path) -> Path:
    """Return where a measurement is kept, with this code."""
    parameters = _digest(_canonical(measurement.identity()))[:10]
    return root / FOLDER / f"{measurement.name}-{parameters}-{_code(measurement)}.json"


def _code(measurement: Measurement[Values]) -> str:
    """Return a short hash of the code that the result depends on."""
    modules = [type(measurement).__module__, *(source.__name__ for source in measurement.sources)]
    return digest_code(modules)


def _others(own: Path) -> list[Path]:
    """Return the files of the same parameters by other code, the latest first."""
    found = own.parent.glob(f"{own.name.rpartition('-')[0]}-*.json")
    times = {file: file.stat().st_mtime for file in found if file != own}
    return sorted(times, key=lambda file: times[file], reverse=True)


def _read(file: Path, measurement: Measurement[Values]) -> Values | None:
    """Return the values in a file; None where it is missing, damaged, altered or another's."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["sha256"] != _digest(_canonical(content["values"])):
            return None
        if _canonical(content["parameters"]) != _canonical(measurement.identity()):
            return None
        values: Values = TypeAdapter(measurement.values).validate_python(content["values"])
    except (OSError, ValueError, KeyError, TypeError, ValidationError):
        return None
    return values


def _write(file: Path, measurement: Measurement[Values], values: Values) -> None:
    """Write a file under a hidden name and rename it: it appears whole or not at all."""
    plain = TypeAdapter(measurement.values).dump_python(values, mode="json")
    content = {
        "parameters": measurement.identity(),
        "sha256": _digest(_canonical(plain)),
        "values": plain,
    }
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(_canonical(content) + b"\n")
        partial.replace(file)
    except OSError as error:
        raise StorageError(
            f"cannot write the measurement {file}: {error.strerror or error}; free space, or "
            "choose another folder with --runs"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


HEADER = ("statement", "paper", "ours", "verdict")
YES = "yes"  # what the paper says where it prints no number


@dataclass(frozen=True)
class Statement:
    """What the paper says, in other words, its number if it has one, and ours."""

    says: str
    paper: str
    ours: str
    verdict: Verdict


def statement(says: str, ours: str, holds: bool, paper: str = YES) -> Statement:
    """Make a statement that was confirmed or was not."""
    return Statement(says, paper, ours, Verdict.SAME if holds else Verdict.DIFFERENT)


def not_run(says: str, problem: str, paper: str = YES) -> Statement:
    """Make a statement that could not be checked."""
    return Statement(says, paper, problem, Verdict.NOT_RUN)


def statement_section(statements: Sequence[Statement], text: str, command: str) -> Section:
    """Write statements as a table."""
    rows = tuple((s.says, s.paper, s.ours, s.verdict.value) for s in statements)
    return Section("What the paper says", text, Grid(HEADER, rows), commands=(command,))


def page_of(
    answer: str, statements: Sequence[Statement], text: str, command: str, *sections: Section
) -> Page:
    """Put a page together: statements first, then what they rest on."""
    first = statement_section(statements, text, command)
    return Page(answer, (first, *sections), tuple(s.verdict for s in statements))


def look_up(measurement: Measurement[Values], results: Results) -> Measured[Values]:
    """Read a measurement, or make it where that is wanted."""
    return measured(
        measurement, results.root, run_missing=results.run_missing, any_code=results.any_code
    )


def problem_of(found: Sequence[Measured[Values]]) -> str | None:
    """Return why one of several measurements is missing, if one is."""
    return next((one.problem for one in found if one.problem is not None), None)


def values_of(found: Sequence[Measured[Values]]) -> list[Values]:
    """Return what was measured."""
    return [one.values for one in found if one.values is not None]


def above_zero(found: Interval) -> bool:
    """Whether a mean is above 0 beyond chance; with one value, whether it is above 0 at all."""
    return (found.mean if found.low is None else found.low) > 0
