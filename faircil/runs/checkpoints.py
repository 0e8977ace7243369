"""States of runs on disk, so that a run that was stopped goes on where it was.

A state is one ``safetensors`` file with the objects as JSON in its header; no pickle. Its name has
its number and the hash of its bytes, and it appears under that name when it is whole. So what is
there was written to the end, and what was altered since is noticed. The two newest are kept: if the
last is damaged, the one before will do. They hold rows of the task and of the buffer, so they are
for the owner alone, and they are removed when the run is finished.

Saving takes a share of the time of a run at most, whatever the size of its state: the next one is
due when the last one has paid off.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from faircil.errors import DataError, FaircilError
from faircil.files import file_digest
from faircil.learners import learner_named
from faircil.packing import Packed, pack, told, unpack
from faircil.runs.state import RunState

DOCUMENT = "state"  # key in the header
STATES = "*-*.safetensors"
KEPT = 2
PAUSE = 2.0  # seconds between two states, at least
SHARE = 0.02  # of the time of a run that saving may take


@dataclass(frozen=True)
class Saved:
    """A state with the run that it is of.

    Parameters
    ----------
    identity : dict
        Of the run: its configuration, seed and code.
    state : RunState
    """

    identity: dict[str, Any]
    state: RunState


def save_state(state: RunState, file: Path, identity: Mapping[str, Any] | None = None) -> None:
    """Write a state that :func:`load_state` reads; the training data of its task is part of it."""
    packed = pack(Saved(dict(identity or {}), state))
    file.touch(mode=0o600)
    save_file(packed.tensors, file, {DOCUMENT: json.dumps(packed.document)})


def load_state(
    file: Path, device: torch.device | str = "cpu", identity: Mapping[str, Any] | None = None
) -> RunState:
    """Read a state; that runs no code of the file.

    Raises
    ------
    DataError
        If it is damaged, or of another run.
    """
    try:
        with safe_open(file, "pt") as content:
            document = json.loads((content.metadata() or {})[DOCUMENT])
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError) as error:
        raise DataError(f"{file.name} cannot be read: {told(error)}") from None
    saved = unpack(Packed(document, tensors), device=device, registered=learner_named)
    if not isinstance(saved, Saved) or not isinstance(saved.state, RunState):
        raise DataError(f"{file.name} holds no state of a run")
    if saved.identity != dict(identity or {}):
        raise DataError(f"{file.name} is the state of another run")
    return saved.state


class Checkpoints:
    """The states of one run.

    Parameters
    ----------
    folder : Path
        Where they are; made when the first is saved.
    identity : mapping
        Of the run, as JSON.
    tell : callable
        Takes a line about a state that cannot be used or saved.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._folder, self._identity, self._tell = folder, identity, tell
        self._due = time.perf_counter() + PAUSE
        self._number = 0

    def latest(self, device: torch.device | str = "cpu") -> RunState | None:
        """Return the newest state that is what was saved; None without one."""
        for path in sorted(self._folder.glob(STATES), reverse=True):
            number, _, digest = path.stem.partition("-")
            self._number = max(self._number, int(number) if number.isdecimal() else 0)
            try:
                if file_digest(path) != digest:
                    raise DataError(f"{path.name} is not what was saved")
                return load_state(path, device, self._identity)
            except (DataError, OSError) as error:
                self._tell(f"a saved state cannot be used, the one before is: {error}")
        return None

    def __call__(self, state: RunState) -> None:
        """Save a state, if it is due."""
        start = time.perf_counter()
        if start < self._due:
            return
        try:
            self._save(state)
        except (OSError, SafetensorError, FaircilError) as error:
            # The run itself goes on; to lose it for this would be the wrong way round.
            self._tell(f"the state of the run cannot be saved in {self._folder}: {told(error)}")
            self._due = float("inf")
            return
        now = time.perf_counter()
        self._due = now + max(PAUSE, (now - start) / SHARE)

    def _save(self, state: RunState) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._number += 1
        partial = self._folder / "partial"
        try:
            save_state(state, partial, self._identity)
            partial.replace(self._folder / f"{self._number:06d}-{file_digest(partial)}.safetensors")
        finally:
            partial.unlink(missing_ok=True)
        for old in sorted(self._folder.glob(STATES))[:-KEPT]:
            old.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all states: the run is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)
