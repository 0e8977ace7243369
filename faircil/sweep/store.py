"""The store of runs: lookup by configuration, code and seed, with a lock per run.

A run is reused only if its files are unchanged and identify it as the requested run. Diverged
training leaves a note, since it would diverge again.
"""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faircil.errors import DataError, StorageError, raise_all
from faircil.files import claim, file_name, is_intact, locked, write_sealed
from faircil.results.folder import (
    MODEL_TEXT,
    check_replaceable,
    check_run_place,
    is_run_folder,
    read_identity,
    read_run,
    remove_run,
    restore_run,
    seed_folder,
    seed_folders,
)
from faircil.results.record import RunSummary, differing, identity
from faircil.runs.saved_states import state_folder
from faircil.sweep.work import Outcome, Work

ROOT = Path("runs")


def default_folder(config: Mapping[str, Any], label: str, code: str, root: Path = ROOT) -> Path:
    """Return ``runs/DATASET/METHOD-MEASURE-HASH-CODE``.

    Different configurations or code have different folders.
    """
    short = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:10]
    part = "-validation" if config.get("evaluate_on") == "validation" else ""
    name = f"{label}-{config['measure']}{part}-{short}-{code}"
    return root / file_name(str(config["dataset"])) / name


@dataclass(frozen=True)
class Store:
    """A location of runs.

    Parameters
    ----------
    root : Path
        Each configuration has its own subfolder, see :func:`default_folder`.
    folder : Path or None
        The folder of a single configuration, instead.
    any_code : bool
        Whether runs produced by other code are accepted; those of this code are preferred.
    """

    root: Path = ROOT
    folder: Path | None = None
    any_code: bool = False

    def folder_of(self, work: Work) -> Path:
        """Return the folder of a configuration for this code, with runs in ``seed-N``."""
        if self.folder is not None:
            return self.folder
        config = work.config
        return default_folder(config.model_dump(mode="json"), config.label, work.code, self.root)

    def find(self, work: Work) -> Outcome | None:
        """Return the outcome of a finished or diverged run; None if it has not been executed.

        Raises
        ------
        DataError
            If the stored run is damaged, altered or another run.
        StorageError
            If it is not a run at all, so that the location cannot be used.
        """
        wanted = work.identity
        for number, folder in enumerate(self._folders(work)):
            path = seed_folder(folder, work.seed)
            if path.exists():
                check_run_place(path)
            if path.is_dir() and any(path.iterdir()):
                return Outcome(work, _read(path, wanted, any_code=number > 0))
            note = _note(folder, work.seed)
            if note.is_file() and (problem := _read_note(note, wanted, any_code=number > 0)):
                return Outcome(work, None, problem, diverged=True)
        return None

    @contextmanager
    def alone(self, work: Work) -> Iterator[bool]:
        """Let one process at a time execute a run; yield whether this process may."""
        folder = self.folder_of(work)
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        claim(folder)
        with _locked(folder, work.seed) as mine:
            try:
                if mine:
                    restore_run(seed_folder(folder, work.seed))
                yield mine
            finally:
                lock = _lock(folder, work.seed)
                if mine and folder in new and list(folder.iterdir()) == [lock]:
                    _remove_empty(new, lock)

    def clear_states(self, work: Work) -> None:
        """Remove the states of a finished run whose process was killed before it removed them."""
        folder = self.folder_of(work)
        states = state_folder(folder, work.seed)
        if states.is_dir():
            with _locked(folder, work.seed) as mine:
                if mine:
                    shutil.rmtree(states, ignore_errors=True)

    def note_divergence(self, work: Work, problem: str) -> None:
        """Record that a run diverges, next to its folder."""
        folder = self.folder_of(work)
        claim(folder)
        write_sealed(_note(folder, work.seed), {"problem": problem, **work.identity})

    def forget_divergence(self, work: Work) -> None:
        """Remove the note written by :meth:`note_divergence`."""
        _note(self.folder_of(work), work.seed).unlink(missing_ok=True)

    def _folders(self, work: Work) -> list[Path]:
        """Return the folder of a configuration, then those of other code, if accepted."""
        own = self.folder_of(work)
        if not self.any_code or self.folder is not None:
            return [own]
        found = own.parent.glob(f"{glob.escape(own.name.rpartition('-')[0])}-*")
        others = [folder for folder in found if folder != own and folder.is_dir()]
        return [own, *sorted(others, key=lambda folder: folder.stat().st_mtime, reverse=True)]


MOST_NAMED = 5


def check_folder(folder: Path, work: Work) -> None:
    """Raise an error if a folder cannot take runs of a configuration, or has other runs.

    Parameters
    ----------
    folder : Path
        It need not exist.
    work : Work
        A run of the configuration, with any seed.
    """
    check_place(folder)
    problems = list(_others(folder, work).values())
    if len(problems) > MOST_NAMED:
        problems[MOST_NAMED:] = [f"{len(problems) - MOST_NAMED} more seeds like these"]
    raise_all(problems, DataError)


def check_place(folder: Path) -> None:
    """Raise an error if a folder cannot hold runs: it is a file, a model, or a run itself."""
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{folder} is a file; choose another folder with `folder`")
    if (folder / MODEL_TEXT).exists():
        raise StorageError(f"{folder} is a model; choose another folder with `folder`")
    if (folder / "summary.json").exists():
        raise StorageError(
            f"{folder} is itself a finished run; choose another folder with `folder`, such as "
            f"{folder.parent}"
        )


def check_others(folder: Path, work: Work) -> None:
    """Raise an error if :func:`remove_others` would remove files not written by faircil."""
    for seed in _others(folder, work):
        path = seed_folder(folder, seed)
        if is_run_folder(path):
            check_replaceable(path)


def remove_others(folder: Path, work: Work) -> None:
    """Remove runs that are damaged or of another configuration, except those being written."""
    for seed in _others(folder, work):
        path = seed_folder(folder, seed)
        with _locked(folder, seed) as mine:
            if mine and _problem(path, work, seed):
                remove_run(path)


def _others(folder: Path, work: Work) -> dict[int, str]:
    """Return the seeds whose folder is not a finished run of the configuration, with reasons."""
    problems = {}
    for seed, path in seed_folders(folder).items():
        if _problem(path, work, seed):
            # Another process may be replacing it at this moment.
            with _locked(folder, seed) as mine:
                if mine and (problem := _problem(path, work, seed)):
                    problems[seed] = problem
    return problems


def _problem(path: Path, work: Work, seed: int) -> str | None:
    try:
        _read(path, identity(work.identity["config"], seed, work.code))
    except DataError as error:
        return str(error)
    return None


def _read(path: Path, wanted: Mapping[str, Any], *, any_code: bool = False) -> RunSummary:
    """Read a run, and check that it is the requested one."""
    run = read_run(path)
    found = read_identity(path)
    parts = differing(found | {"code": wanted["code"]} if any_code else found, wanted)
    if parts:
        raise DataError(
            f"{path.parent} holds another run: {path.name} has another {' and '.join(parts)}"
        )
    return run


def _locked(folder: Path, seed: int) -> AbstractContextManager[bool]:
    """Lock a seed, if it is free."""
    return locked(_lock(folder, seed))


def _lock(folder: Path, seed: int) -> Path:
    return folder / f".seed-{seed}.lock"


def _remove_empty(folders: Iterable[Path], lock: Path) -> None:
    """Remove the empty folders of a run that failed, for example because of invalid data.

    Folders used by another process in the meantime stay. The lock is held, so that the next process
    to take it can detect that it was removed.
    """
    with suppress(OSError):
        lock.unlink()
        for folder in folders:
            folder.rmdir()


def _note(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}.diverged.json"


def _read_note(path: Path, wanted: Mapping[str, Any], *, any_code: bool) -> str | None:
    """Return the problem in a note; None if the note belongs to another run."""
    try:
        text = path.read_bytes().decode("utf-8")
        found = json.loads(text)
        old = isinstance(found, dict) and found.keys() == {"problem", *wanted}  # without a seal
        if not old and not is_intact(text, found):
            raise ValueError
    except (OSError, ValueError):
        raise DataError(f"{path} is damaged; remove it") from None
    same = not differing(found | {"code": wanted["code"]} if any_code else found, wanted)
    return found["problem"] if same else None
