"""Where the runs of a sweep are kept: addressed by configuration, code and seed.

A run is used again only if its files are as they were written and say that it is the run looked
for. A training that diverged leaves a note, since it would diverge again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from faircil.errors import DataError, FaircilError
from faircil.files import check_checksums
from faircil.results.folder import identity, read_identity, read_run
from faircil.results.record import RunSummary
from faircil.results.reuse import claim, default_folder, folders_of_any_code, seed_folder
from faircil.sweep.work import Outcome, Work

# The files that results are made from; larger ones are checked by whoever reads them.
READ = ("config.json", "environment.json", "summary.json", "epochs.jsonl", "metrics.jsonl")


def folder_of(work: Work, root: Path) -> Path:
    """Return the folder of a configuration, with this code."""
    return default_folder(work.config.model_dump(mode="json"), work.config.label, root)


def find(work: Work, root: Path, *, any_code: bool = False) -> Outcome | None:
    """Return the finished run, or that it diverged; None where it is still to be made.

    Parameters
    ----------
    work : Work
    root : Path
    any_code : bool
        Whether a run that other code has made will do; one of this code goes first.

    Raises
    ------
    DataError
        If what is there is damaged, altered or another run.
    """
    config, label = work.config.model_dump(mode="json"), work.config.label
    folders = [folder_of(work, root)]
    if any_code:
        folders = folders_of_any_code(config, label, root)
    for folder in folders:
        path = seed_folder(folder, work.seed)
        if path.is_dir():
            return Outcome(work, _read(path, work, own=folder == folders[0]))
        if _note(folder, work).is_file():
            return Outcome(work, None, _read_note(_note(folder, work)), diverged=True)
    return None


def note_divergence(work: Work, root: Path, problem: str) -> None:
    """Remember that a run diverges, beside the place of its folder."""
    folder = folder_of(work, root)
    claim(folder)
    _note(folder, work).write_text(json.dumps({"problem": problem}) + "\n", encoding="utf-8")


@contextmanager
def alone(work: Work, root: Path) -> Iterator[bool]:
    """Let one process at a time make a run; gives whether this one may.

    The lock goes with the process that holds it, however it ends.
    """
    folder = folder_of(work, root)
    claim(folder)
    lock = FileLock(folder / f".seed-{work.seed}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def _read(path: Path, work: Work, *, own: bool) -> RunSummary:
    """Read a run and make sure that it is the one."""
    check_checksums(path, READ)
    found, wanted = read_identity(path), identity(work.config.model_dump(mode="json"), work.seed)
    parts = ("config", "seed", "code", "faircil") if own else ("config", "seed")
    if any(found.get(part) != wanted[part] for part in parts):
        raise DataError(f"{path} is another run than its place says")
    return read_run(path)


def _note(folder: Path, work: Work) -> Path:
    return folder / f"seed-{work.seed}.diverged.json"


def _read_note(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["problem"])
    except (OSError, ValueError, KeyError, TypeError):
        raise FaircilError(f"{path} is damaged; remove it") from None
