"""Run folders: a finished run as files that people and programs can open.

``config.json`` (resolved configuration, seed, version), ``environment.json``, ``summary.json``
(the run as ``--json`` prints it), ``metrics.jsonl`` (tidy rows), ``epochs.jsonl``,
``predictions.csv``. A folder appears whole or not at all: it is written under another name and
renamed at the end.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from faircil.errors import DataError, FaircilError
from faircil.results.environment import code_digest, environment, version
from faircil.results.record import RunResult
from faircil.results.summary import RunSummary, summarise_run


def write_run(folder: Path, result: RunResult, command: str) -> RunSummary:
    """Write a run as ``folder``; what is there already is replaced once the new one is whole.

    Parameters
    ----------
    folder : Path
    result : RunResult
    command : str
        What the user typed, to run it again.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    summary = summarise_run(result, folder)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write_json(partial / "config.json", identity(result.config, result.seed))
        _write_json(partial / "environment.json", environment(command))
        _write_json(partial / "summary.json", asdict(summary))
        _write_rows(partial / "metrics.jsonl", tidy_rows(result))
        _write_rows(partial / "epochs.jsonl", (asdict(epoch) for epoch in result.epochs))
        _write_predictions(partial / "predictions.csv", result)
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as error:
        raise FaircilError(
            f"cannot write the run to {folder}: {error.strerror or error}; free space or choose "
            "another folder with --out"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return summary


def identity(config: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return what makes two runs the same: configuration, seed and code."""
    return {"faircil": version(), "code": code_digest(), "seed": seed, "config": dict(config)}


def read_identity(folder: Path) -> dict[str, Any]:
    """Return the identity of the run in ``folder``."""
    found: dict[str, Any] = _read_json(folder / "config.json")
    return found


def read_run(folder: Path) -> RunSummary:
    """Read a finished run."""
    values = _read_json(folder / "summary.json")
    try:
        return RunSummary(**{**values, "dir": str(folder)})
    except TypeError:
        raise DataError(
            f"{folder / 'summary.json'} was not written by this version of faircil ({version()}); "
            "run it again"
        ) from None


def default_folder(config: Mapping[str, Any], label: str) -> Path:
    """Return ``runs/DATASET/METHOD-MEASURE-HASH``: another configuration, another folder."""
    content = json.dumps([config, code_digest()], sort_keys=True)
    short = hashlib.sha256(content.encode()).hexdigest()[:8]
    return Path("runs") / str(config["dataset"]) / f"{label}-{config['measure']}-{short}"


def finished_run(folder: Path, config: Mapping[str, Any], seed: int) -> RunSummary | None:
    """Return the run of this configuration and seed in ``folder``; None if there is none yet.

    Refuses a folder that holds runs of another configuration, or made by other code.
    """
    if folder.exists() and not folder.is_dir():
        raise FaircilError(f"{folder} is a file; choose a folder with --out")
    for other in sorted(folder.glob("seed-*")):
        found = read_identity(other)
        wanted = identity(config, found.get("seed", seed))
        if found != wanted:
            differing = [key for key in wanted if found.get(key) != wanted[key]]
            raise FaircilError(
                f"{folder} holds another run ({other.name}: other {' and '.join(differing)}); "
                "choose another folder with --out, or replace it with --force"
            )
    target = folder / f"seed-{seed}"
    return read_run(target) if target.exists() else None


def find_runs(paths: list[Path]) -> list[RunSummary]:
    """Read all runs at or below the given folders, each once, in order."""
    folders: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            raise DataError(f"{path} is not a folder; give folders that `faircil run` has written")
        found = sorted(file.parent for file in path.rglob("summary.json"))
        found = [folder for folder in found if not folder.name.endswith(".partial")]
        if not found:
            raise DataError(f"{path} holds no finished run (no summary.json in it or below)")
        folders.update(dict.fromkeys(found))
    return [read_run(folder) for folder in folders]


def tidy_rows(result: RunResult) -> Iterator[dict[str, Any]]:
    """Yield one row per value: after which task, metric, test task, class, attribute value, n."""
    names = result.names
    for position, metrics in enumerate(result.per_task):
        row: dict[str, Any] = {"seed": result.seed, "task": position + 1}
        for name, value in result.after_task(position).items():
            yield row | {"metric": name, "value": value}
        for test_task, value in enumerate(metrics.per_test_task, start=1):
            yield row | {"metric": "task_accuracy", "test_task": test_task, "value": value}
        for item in metrics.classes:
            yield row | {
                "metric": "class_accuracy",
                "class": names.classes[item.label],
                "n": item.n,
                "value": item.accuracy,
            }
        for group in metrics.groups:
            yield row | {
                "metric": "group_accuracy",
                "class": names.classes[group.label],
                "attribute": names.attribute_values[group.attribute],
                "n": group.n,
                "value": group.accuracy,
            }


def _write_predictions(path: Path, result: RunResult) -> None:
    names = result.names
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(
            [
                "after_task",
                "task",
                "y_true",
                "y_pred",
                *([names.attribute] if names.attribute else []),
            ]
        )
        for after, part in enumerate(result.predictions, start=1):
            columns: list[list[Any]] = [
                [after] * len(part.y_true),
                (part.task + 1).tolist(),
                [names.classes[label] for label in part.y_true],
                [names.classes[label] for label in part.y_pred],
            ]
            if part.sensitive is not None:
                columns.append([names.attribute_values[z] for z in part.sensitive])
            writer.writerows(zip(*columns, strict=True))


def _write_json(path: Path, value: Any) -> None:
    path.write_text(
        json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
    )


def _write_rows(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} is missing; {path.parent} is no finished run") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise DataError(f"{path} is damaged; remove {path.parent} and run it again") from None
