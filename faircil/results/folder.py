"""Run folders: writing, finding, checking and replacing finished runs.

``config.json`` (resolved configuration, seed, version), ``environment.json``, ``summary.json``
(the results), ``metrics.jsonl`` (tidy rows), ``epochs.jsonl``, ``predictions.csv``,
``probabilities.npz`` where post-processing can use them, and ``SHA256SUMS`` of all these. A run on
validation data has no predictions. ``model``, if kept, is the final model. It is not among the
checksums, since it may learn more or be removed without changing the run; it has hashes of its own.

A folder is written under a hidden name and renamed at the end, so it is always complete. Only its
owner can read it, since predictions are about people.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from faircil.errors import DataError, StorageError, raise_all
from faircil.files import (
    AGAIN,
    SUMS,
    check_checksums,
    damaged,
    make_private,
    read_checksums,
    read_json,
    resolved,
    write_checksums,
    write_json,
    write_rows,
)
from faircil.results.record import (
    PARTS as IDENTITY,
    SPLIT,
    RunResult,
    RunSummary,
    identity,
    summarise_run,
    version,
)
from faircil.results.run_files import PROBABILITIES, tidy_rows, write_predictions

# The files from which results are read; larger files are checked when they are used.
READ = ("config.json", "environment.json", "summary.json", "epochs.jsonl", "metrics.jsonl")
OWN = (*READ, "predictions.csv", PROBABILITIES, SUMS, "model")
MODEL_TEXT = "model.json"  # identifies the folder of a model
OF_MODEL = (MODEL_TEXT, "card.json", "card.md", "tensors-*.safetensors")


def seed_folder(folder: Path, seed: int) -> Path:
    """Return where the run with this seed is, or will be."""
    return folder / f"seed-{seed}"


def model_folder(run: Path) -> Path:
    """Return the folder of a run's final model, which exists if the model was kept."""
    return run / "model"


def seed_folders(folder: Path) -> dict[int, Path]:
    """Return the existing ``seed-N`` paths in a folder, by seed in ascending order."""
    paths = {path.name.removeprefix("seed-"): path for path in folder.glob("seed-*")}
    seeds = sorted(int(seed) for seed in paths if seed.isdecimal())
    return {seed: seed_folder(folder, seed) for seed in seeds if str(seed) in paths}


def write_run(
    folder: Path,
    result: RunResult,
    environment: Mapping[str, Any],
    code: str = "",
    write_model: Callable[[Path], None] | None = None,
) -> RunSummary:
    """Write a run as ``folder``; an existing run is removed once the new one is complete.

    Parameters
    ----------
    folder : Path
    result : RunResult
    environment : mapping
        Environment of the run, see :func:`faircil.results.record.environment`.
    code : str
        Hash of the code that executed it; a run without one is never reused.
    write_model : callable, optional
        Writes the final model to a given folder.

    Raises
    ------
    StorageError
        If it cannot be written, or something other than a run is in its place.
    """
    check_replaceable(folder)
    partial = folder.with_name(f".{folder.name}.partial")
    summary = summarise_run(result, folder, code)
    try:
        _remove(partial)
        make_private(partial)
        write_json(partial / "config.json", identity(result.config, result.seed, code))
        write_json(partial / "environment.json", environment)
        write_json(partial / "summary.json", asdict(summary))
        write_rows(partial / "metrics.jsonl", tidy_rows(result))
        write_rows(partial / "epochs.jsonl", (asdict(epoch) for epoch in result.epochs))
        if result.config["evaluate_on"] == "test":  # a trial does not need them
            write_predictions(partial, result)
        write_checksums(partial)
        if write_model is not None:
            write_model(model_folder(partial))
        _put_in_place(partial, folder)
    except OSError as error:
        raise StorageError(
            f"cannot write the run to {folder}: {error.strerror or error}; free space, or choose "
            "another folder with `folder`"
        ) from None
    finally:
        _remove(partial)
    return summary


def check_run_place(folder: Path) -> None:
    """Raise an error if something other than a run exists at this path."""
    if folder.is_dir() and (is_run_folder(folder) or not any(folder.iterdir())):
        return
    if folder.exists() or folder.is_symlink():
        raise StorageError(
            f"{folder} was not written by faircil, so it is not replaced; move it away, or choose "
            "another folder with `folder`"
        )


def check_replaceable(folder: Path) -> None:
    """Raise an error if a run cannot replace what exists at this path, or if files would be lost.

    Hidden files, such as those of file managers, are removed with the replaced run.
    """
    check_run_place(folder)
    others = _other_files(folder, OWN) + _other_files(model_folder(folder), OF_MODEL)
    if others:
        raise StorageError(
            f"{folder} also has files that are no part of the run, such as "
            f"{others[0].relative_to(folder)}, so it is not replaced; move them away, or choose "
            "another folder with `folder`"
        )


def _other_files(folder: Path, own: Collection[str]) -> list[Path]:
    """Return files in the folder of a run or model that do not belong to it."""
    with suppress(DataError):
        own = {*own, *read_checksums(folder)}
    shown = sorted(path for path in folder.glob("*") if not path.name.startswith("."))
    return [path for path in shown if not any(fnmatchcase(path.name, name) for name in own)]


def is_run_folder(folder: Path) -> bool:
    """Return whether a folder was written as a run, damaged or not: it has or lists an identity."""
    with suppress(DataError):
        if "config.json" in read_checksums(folder):
            return True
    with suppress(DataError):
        return read_identity(folder).keys() >= IDENTITY.keys()
    return False


def remove_run(folder: Path) -> None:
    """Remove a run, but nothing else; readers see the complete run or nothing."""
    if is_run_folder(folder):
        check_replaceable(folder)
        old = _old(folder)
        _remove(old)
        folder.rename(old)
        _remove(old)


def restore_run(folder: Path) -> None:
    """Restore a run whose replacement was interrupted between its two steps."""
    if not folder.exists() and is_run_folder(_old(folder)):
        _old(folder).rename(folder)


def read_identity(folder: Path) -> dict[str, Any]:
    """Return the identity of the run in ``folder``."""
    found = read_json(folder / "config.json")
    if not isinstance(found, dict):
        raise damaged(folder / "config.json")
    return found


def read_run(folder: Path) -> RunSummary:
    """Read a finished run; a DataError reports what was altered or is missing."""
    if not (folder / "summary.json").exists():
        raise DataError(f"{folder / 'summary.json'} is missing, so {folder} is not a finished run")
    check_checksums(folder, READ)
    values = read_json(folder / "summary.json")
    try:
        run = TypeAdapter(RunSummary).validate_python({**values, "dir": str(folder)})
        ReadConfig.model_validate(run.config)
    except (TypeError, ValidationError):
        run = None
    if run is None or not _is_complete(run):
        raise DataError(
            f"{folder / 'summary.json'} was not written by this version of faircil ({version()})"
        )
    return run


def find_runs(paths: Iterable[Path]) -> list[RunSummary]:
    """Read all runs at or below the given folders, each once, in order.

    Raises
    ------
    DataError
        If there is no run, or if some cannot be used because they are altered, incomplete or
        copies; all of these are listed.
    """
    folders: dict[Path, Path] = {}
    for path in paths:
        for folder in _folders_at(path):
            folders.setdefault(resolved(folder), folder)
    runs: dict[str, RunSummary] = {}
    mistakes = []
    for folder in folders.values():
        try:
            run = read_run(folder)
            _check_original(run, runs)
        except DataError as error:
            mistakes.append(f"{error}; {AGAIN}")
    raise_all(mistakes, DataError)
    return list(runs.values())


def _folders_at(path: Path) -> list[Path]:
    """Return the folders of runs at or below a folder, including those without a summary."""
    if not path.is_dir():
        raise DataError(f"{path} is not a folder; give folders that `faircil run` has written")
    found = {file.parent for file in path.rglob("summary.json")}
    found |= {folder for folder in path.rglob("seed-*") if _seed_of(folder) is not None}
    found |= {path} if _seed_of(path) is not None else set()
    # A hidden folder was being written when the machine stopped.
    shown = [f for f in found if not any(p.startswith(".") for p in f.relative_to(path).parts)]
    if not shown:
        raise DataError(f"{path} holds no finished run (no summary.json in it or below)")
    return sorted(shown)


def _seed_of(folder: Path) -> int | None:
    """Return the seed in the name of a run's folder; None for other folders."""
    seed = folder.name.removeprefix("seed-")
    return int(seed) if seed != folder.name and seed.isdecimal() and folder.is_dir() else None


def _check_original(run: RunSummary, others: dict[str, RunSummary]) -> None:
    """Add a run to the others; raise an error if it is a copy."""
    folder = Path(run.dir)
    if _seed_of(folder) not in (None, run.seed):
        raise DataError(f"{folder} holds the run of seed {run.seed}: it is a copy")
    key = json.dumps([run.config, run.code, run.seed], sort_keys=True)
    if others.setdefault(key, run) is not run:
        raise DataError(
            f"{folder} and {others[key].dir} are the same run, with the same configuration, code "
            "and seed, and it counts once: give one of them"
        )


def _put_in_place(new: Path, target: Path) -> None:
    """Rename ``new`` to ``target``; remove the old target last, and restore it on failure."""
    old = _old(target)
    _remove(old)
    if target.exists():
        target.rename(old)
    try:
        new.rename(target)
    except BaseException:
        if old.exists():
            old.rename(target)
        raise
    _remove(old)


def _old(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class ReadOwn(BaseModel):
    """The roles of own data that reports read."""

    model_config = ConfigDict(extra="allow")

    sensitive: tuple[str, ...] = ()
    tasks: str | None = None
    test_column: str | None = None
    test_share: float | None = None


class ReadConfig(BaseModel):
    """The part of a configuration that reports read; it may be from an earlier version."""

    model_config = ConfigDict(extra="allow")

    dataset: str
    measure: str
    settings: dict[str, Any]
    method: str
    weighting: str = ""
    own: ReadOwn | None = None
    data_sha256: str | None = None
    evaluate_on: str = "test"
    favoured: tuple[str, ...] = ()


def _is_complete(run: RunSummary) -> bool:
    """Return whether a summary has all values that reports read, none of them infinite or NaN."""
    parts = (run.metrics, *run.per_task)
    metrics = all("accuracy" in values for values in parts)
    known = [value for values in parts for value in values.values() if value is not None]
    timed = run.seconds.keys() >= {*SPLIT}
    finite = all(map(math.isfinite, [*known, *run.seconds.values()]))
    return metrics and timed and finite and bool(run.per_task)
