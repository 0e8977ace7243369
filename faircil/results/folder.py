"""Run folders: a finished run as files that people and programs can open.

``config.json`` (resolved configuration, seed, version), ``environment.json``, ``summary.json``
(the run in its numbers), ``metrics.jsonl`` (tidy rows), ``epochs.jsonl``, ``predictions.csv``,
``probabilities.npz`` where post-processing can use them, and ``SHA256SUMS`` of all these. A run on
validation data has no predictions.
A folder appears whole or not at all: it is written under a hidden name and renamed at the end.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from faircil.errors import DataError, StorageError
from faircil.results.checksums import write_checksums
from faircil.results.environment import code_digest, version
from faircil.results.files import damaged, read_json, write_json, write_rows
from faircil.results.probabilities import write_probabilities
from faircil.results.record import METRIC_NAMES, RunResult
from faircil.results.rows import prediction_rows, tidy_rows
from faircil.results.summary import RunSummary, summarise_run


def write_run(folder: Path, result: RunResult, environment: Mapping[str, Any]) -> RunSummary:
    """Write a run as ``folder``; what is there already is replaced once the new one is whole.

    Parameters
    ----------
    folder : Path
    result : RunResult
    environment : mapping
        Where the run was made, see :func:`faircil.results.environment.environment`.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    summary = summarise_run(result, folder, code_digest())
    try:
        _remove(partial)
        partial.mkdir(parents=True)
        write_json(partial / "config.json", identity(result.config, result.seed))
        write_json(partial / "environment.json", environment)
        write_json(partial / "summary.json", asdict(summary))
        write_rows(partial / "metrics.jsonl", tidy_rows(result))
        write_rows(partial / "epochs.jsonl", (asdict(epoch) for epoch in result.epochs))
        if result.config["evaluate_on"] == "test":  # of a trial, nobody needs them
            _write_predictions(partial, result)
        write_checksums(partial)
        _put_in_place(partial, folder)
    except OSError as error:
        raise StorageError(
            f"cannot write the run to {folder}: {error.strerror or error}; free space, or choose "
            "another folder with --out"
        ) from None
    finally:
        _remove(partial)
    return summary


def identity(config: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return what makes two runs the same: configuration, seed and code."""
    return {"faircil": version(), "code": code_digest(), "seed": seed, "config": dict(config)}


def read_identity(folder: Path) -> dict[str, Any]:
    """Return the identity of the run in ``folder``."""
    found = read_json(folder / "config.json")
    if not isinstance(found, dict):
        raise damaged(folder / "config.json")
    return found


def read_run(folder: Path) -> RunSummary:
    """Read a finished run."""
    values = read_json(folder / "summary.json")
    try:
        run = TypeAdapter(RunSummary).validate_python({**values, "dir": str(folder)})
    except (TypeError, ValidationError):
        run = None
    if run is None or not _is_complete(run):
        raise DataError(
            f"{folder / 'summary.json'} was not written by this version of faircil ({version()})"
        )
    return run


def find_runs(paths: Iterable[Path]) -> list[RunSummary]:
    """Read all runs at or below the given folders, each once, in order."""
    folders: dict[Path, Path] = {}
    for path in paths:
        if not path.is_dir():
            raise DataError(f"{path} is not a folder; give folders that `faircil run` has written")
        found = sorted(file.parent for file in path.rglob("summary.json"))
        # A hidden folder is one that was being written when the machine stopped.
        found = [f for f in found if not any(p.startswith(".") for p in f.relative_to(path).parts)]
        if not found:
            raise DataError(f"{path} holds no finished run (no summary.json in it or below)")
        for folder in found:
            folders.setdefault(folder.resolve(), folder)
    try:
        return [read_run(folder) for folder in folders.values()]
    except DataError as error:
        raise DataError(f"{error}; run it again, or remove its folder") from None


def _put_in_place(new: Path, target: Path) -> None:
    """Rename ``new`` to ``target``; what was there goes last, and comes back if this fails."""
    old = target.with_name(f".{target.name}.old")
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


def _write_predictions(folder: Path, result: RunResult) -> None:
    with (folder / "predictions.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(prediction_rows(result))
    if result.probabilities:
        write_probabilities(folder, result)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_complete(run: RunSummary) -> bool:
    """Whether a summary has all that reports read."""
    metrics = all(set(METRIC_NAMES) <= values.keys() for values in (run.metrics, *run.per_task))
    return metrics and {"dataset", "measure", "settings"} <= run.config.keys()
