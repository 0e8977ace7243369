"""States of runs on disk, from which a stopped run is resumed; and writing its result.

A state is a ``safetensors`` file with the objects as JSON in its header; no pickle. Its name
contains its number and the hash of its bytes, and the file gets this name when it is complete. So
an existing state was written completely, and later changes are detected. The two newest are kept:
if the last is damaged, the one before is used. States contain rows of the task and of the buffer,
so they are readable by the owner only, and they are removed when the run is finished.

Saving takes at most a fixed fraction of the time of a run, whatever the size of its state: a state
is due when the run has lasted long enough to pay for it and for all earlier ones. A stop signal
saves the run at once, see :mod:`faircil.stopping`. A finished run is written somewhere, even if its
folder fails.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from faircil.data.stream import TaskStream
from faircil.errors import DataError, FaircilError, StorageError
from faircil.files import file_digest, free_room
from faircil.learners import learner_named
from faircil.packing import Packed, pack, told, unpack
from faircil.results.folder import write_run
from faircil.results.record import RunResult, RunSummary, differing
from faircil.runs.config import RunConfig
from faircil.runs.state import RunState
from faircil.stopping import check, requested

DOCUMENT = "state"  # key in the header
STATES = "*-*.safetensors"
KEPT = 2
PAUSE = 2.0  # minimum number of seconds between two states
SHARE = 0.02  # largest fraction of a run's time for saving
SPEED = 1e8  # assumed bytes per second for the first state
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Saved:
    """A state, with the identity of its run.

    Parameters
    ----------
    identity : dict
        Of the run: its configuration, seed and code.
    state : RunState
    """

    identity: dict[str, Any]
    state: RunState


def save_state(state: RunState, file: Path, identity: Mapping[str, Any] | None = None) -> None:
    """Write a state for :func:`load_state`, including the training data of its task."""
    packed = pack(Saved(dict(identity or {}), state), learner_named)
    file.touch(mode=0o600)
    save_file(packed.tensors, file, {DOCUMENT: json.dumps(packed.document)})


def load_state(
    file: Path, device: torch.device | str = "cpu", identity: Mapping[str, Any] | None = None
) -> RunState:
    """Read a state, without running code from the file.

    Raises
    ------
    DataError
        If it is damaged, or belongs to another run.
    """
    try:
        with safe_open(file, "pt") as content:
            document = json.loads((content.metadata() or {})[DOCUMENT])
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError) as error:
        raise DataError(f"{file.name} cannot be read: {told(error)}") from None
    saved = unpack(Packed(document, tensors), device=device, registered=learner_named)
    if not isinstance(saved, Saved) or not isinstance(saved.state, RunState):
        raise DataError(f"{file.name} does not hold the state of a run")
    wanted = dict(identity or {})
    if saved.identity != wanted:
        other = differing(saved.identity, wanted) or ["machine or version of a library"]
        raise DataError(f"{file.name} is the state of a run with another {' and '.join(other)}")
    return saved.state


def size_of(state: RunState) -> int:
    """Return the size of a state in bytes, almost all of it tensors."""
    return sum(tensor.nbytes for tensor in pack(state, learner_named).tensors.values())


def state_folder(folder: Path, seed: int) -> Path:
    """Return the folder of the states of the run with this seed, until it is finished."""
    return folder / f".seed-{seed}.state"


class Checkpoints:
    """The states of one run.

    Parameters
    ----------
    folder : Path
        Their folder; created when the first state is saved.
    identity : mapping
        Identity of the run, as JSON.
    tell : callable
        Called with a message if a state cannot be used or saved.
    room : int
        Bytes of disk space reserved for the result.
    """

    def __init__(
        self,
        folder: Path,
        identity: Mapping[str, Any],
        tell: Tell = lambda _: None,
        room: int = 0,
    ) -> None:
        self._folder, self._identity, self._tell, self._room = folder, identity, tell, room
        self._begun = time.perf_counter()
        self._due = self._begun + PAUSE
        self._size = 0
        self._spent = 0.0  # seconds
        self._complained = False

    def latest(self, device: torch.device | str = "cpu") -> RunState | None:
        """Return the newest undamaged state, or None."""
        for path in sorted(self._folder.glob(STATES), reverse=True):
            try:
                if file_digest(path) != path.stem.partition("-")[2]:
                    raise DataError(f"{path.name} is not what was saved")
                return load_state(path, device, self._identity)
            except (DataError, OSError) as error:
                self._tell(f"not used, a saved state in {self._folder}: {error}")
        return None

    def __call__(self, state: RunState) -> None:
        """Save a state if it is due, or if the run is to stop; in that case, raise afterwards."""
        start = time.perf_counter()
        if not requested():
            if start < self._due:
                return
            if not self._spent and start < self._plan(size_of(state) / SPEED):
                return
        try:
            self._save(state)
        except (OSError, SafetensorError, FaircilError) as error:
            # The run itself continues: a failed save must not end it.
            if not self._complained:
                why = str(error) if isinstance(error, FaircilError) else told(error)
                self._tell(
                    f"the state of the run cannot be saved in {self._folder}: {why}; the run "
                    "continues, but progress from now on would be lost if it were stopped"
                )
            self._complained = True
        else:
            self._complained = False
        check()
        now = time.perf_counter()
        self._spent += now - start
        self._due = max(now + PAUSE, self._plan(now - start))

    def _plan(self, cost: float) -> float:
        """Return when a state that takes ``cost`` seconds is due: when all have been paid for."""
        self._due = self._begun + (self._spent + cost) / SHARE
        return self._due

    def _save(self, state: RunState) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        free = free_room(self._folder)
        if free < self._size + self._room:
            raise FaircilError(
                f"{free / 1e6:,.0f} MB are free on the disk, and the result needs about "
                f"{self._room / 1e6:,.0f} MB; free space"
            )
        # Number it after all existing states, also those of a restarted run: the last are kept.
        numbers = [path.name.partition("-")[0] for path in self._folder.glob(STATES)]
        last = max((int(number) for number in numbers if number.isdecimal()), default=0)
        partial = self._folder / "partial"
        try:
            save_state(state, partial, self._identity)
            self._size = partial.stat().st_size
            partial.replace(self._folder / f"{last + 1:06d}-{file_digest(partial)}.safetensors")
        finally:
            partial.unlink(missing_ok=True)
        for old in sorted(self._folder.glob(STATES))[:-KEPT]:
            old.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove all states, since the run is finished."""
        shutil.rmtree(self._folder, ignore_errors=True)


BESIDE = 2**20  # bytes of a run other than its predictions
PREDICTION = 48  # bytes of a row of predictions


def expected_size(config: RunConfig, stream: TaskStream) -> int:
    """Return the approximate size in bytes of a run's files, without its model."""
    if config.evaluate_on != "test":
        return BESIDE
    rows = sum(accumulate(len(task.test) for task in stream.tasks))  # all so far after each task
    width = 4 * len(stream.class_names) if stream.attribute else 0  # of probabilities
    return BESIDE + rows * (PREDICTION + width)


TRIES, BETWEEN_TRIES = 20, 15.0  # attempts to write a finished run, and seconds between them


def write_finished(
    folder: Path,
    result: RunResult,
    made_on: Mapping[str, Any],
    code: str,
    write_model: Callable[[Path], None] | None = None,
    tell: Tell = lambda _: None,
) -> RunSummary:
    """Write a run as :func:`write_run` does, without losing it if that fails.

    It is then written to a temporary folder instead. If that fails too, it is kept in memory and
    retried for some minutes, or until the program is to stop.

    Raises
    ------
    StorageError
        With the place of the run instead, or with its metrics if it could not be written.
    """
    values = ((name, value) for name, value in result.averages().items() if value is not None)
    metrics = "its metrics: " + ", ".join(f"{name} {value:.4f}" for name, value in values)
    for left in range(TRIES - 1, -1, -1):
        try:
            return write_run(folder, result, made_on, code, write_model)
        except StorageError as error:
            problem = str(error)
        for model in dict.fromkeys((write_model, None)):
            elsewhere = _write_elsewhere(folder.name, result, made_on, code, model)
            if elsewhere is not None:
                raise StorageError(
                    f"{problem}\nThe finished run of seed {result.seed} is in {elsewhere} instead; "
                    f"move it to {folder} when there is room; {metrics}"
                )
        if not left or requested():
            break
        tell(
            f"{problem}; the finished run of seed {result.seed} is kept in memory and written when "
            f"there is room: {left} more tries, every {BETWEEN_TRIES:g} seconds"
        )
        _pause(BETWEEN_TRIES)
    raise StorageError(
        f"{problem}\nThe finished run of seed {result.seed} could not be written anywhere; "
        f"{metrics}"
    )


def _write_elsewhere(
    name: str,
    result: RunResult,
    made_on: Mapping[str, Any],
    code: str,
    write_model: Callable[[Path], None] | None,
) -> Path | None:
    """Write a run to a new temporary folder; return None if that fails as well."""
    try:
        new = Path(tempfile.mkdtemp(prefix="faircil-"))
    except OSError:
        return None
    try:
        write_run(new / name, result, made_on, code, write_model)
    except StorageError:
        shutil.rmtree(new, ignore_errors=True)
        return None
    return new / name


def _pause(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not requested():
        time.sleep(min(seconds, 0.2))
