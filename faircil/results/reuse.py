"""Which runs a folder holds already, so that none is made twice and none is lost by mistake."""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from faircil.errors import FaircilError, StorageError
from faircil.results.folder import identity, read_identity, read_run
from faircil.results.identity import code_digest
from faircil.results.record import RunSummary

ROOT = Path("runs")
ADVICE = "choose another folder with --out"
PARTS = {"config": "configuration", "code": "code", "faircil": "version", "seed": "seed"}


def default_folder(config: Mapping[str, Any], label: str, root: Path = ROOT) -> Path:
    """Return ``runs/DATASET/METHOD-MEASURE-HASH-CODE``.

    Another configuration or other code, another folder.
    """
    short = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:10]
    part = "-validation" if config.get("evaluate_on") == "validation" else ""
    name = f"{label}-{config['measure']}{part}-{short}-{code_digest()}"
    return root / str(config["dataset"]) / name


def folders_of_any_code(config: Mapping[str, Any], label: str, root: Path = ROOT) -> list[Path]:
    """Return the folders of a configuration, those of this code first, then the latest first."""
    own = default_folder(config, label, root)
    found = own.parent.glob(f"{glob.escape(own.name.rpartition('-')[0])}-*")
    others = [folder for folder in found if folder != own and folder.is_dir()]
    return [own, *sorted(others, key=lambda folder: folder.stat().st_mtime, reverse=True)]


def seed_folder(folder: Path, seed: int) -> Path:
    """Return where the run with this seed is, or will be."""
    return folder / f"seed-{seed}"


def finished_runs(
    folder: Path, config: Mapping[str, Any], *, replace: bool = False
) -> dict[int, RunSummary]:
    """Return the runs of this configuration in ``folder``, by seed.

    Parameters
    ----------
    folder : Path
    config : mapping
        The resolved configuration.
    replace : bool
        Whether damaged runs, those of another configuration and those made by other code may be
        replaced; else they are an error.
    """
    if folder.exists() and not folder.is_dir():
        raise FaircilError(f"{folder} is a file; {ADVICE}")
    if (folder / "summary.json").exists():
        raise FaircilError(f"{folder} is itself a finished run; {ADVICE}, such as {folder.parent}")
    found: dict[int, RunSummary] = {}
    for seed, path in _runs_in(folder).items():
        try:
            _check_same(path, config, seed)
            found[seed] = read_run(path)
        except FaircilError as error:
            if not replace:
                raise type(error)(f"{error}; {ADVICE}, or replace it with --force") from None
    return found


def remove_others(folder: Path, config: Mapping[str, Any]) -> None:
    """Remove the runs in ``folder`` that are damaged or not of this configuration."""
    same = finished_runs(folder, config, replace=True)
    for seed, path in _runs_in(folder).items():
        if seed not in same:
            shutil.rmtree(path, ignore_errors=True)


def claim(folder: Path) -> None:
    """Make the folder and see that it can be written: better before a long run than after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise StorageError(
            f"cannot write to {folder}: {error.strerror or error}; {ADVICE}"
        ) from None


def _runs_in(folder: Path) -> dict[int, Path]:
    paths = {path.name.removeprefix("seed-"): path for path in folder.glob("seed-*")}
    return {int(seed): paths[seed] for seed in sorted(paths) if seed.isdecimal()}


def _check_same(path: Path, config: Mapping[str, Any], seed: int) -> None:
    """Raise if the run at ``path`` is another one."""
    found, wanted = read_identity(path), identity(config, seed)
    differing = [name for key, name in PARTS.items() if found.get(key) != wanted[key]]
    if differing:
        raise FaircilError(
            f"{path.parent} holds another run: {path.name} has another {' and '.join(differing)}"
        )
