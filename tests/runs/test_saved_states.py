"""States on disk: which one is used, what is said of the others, and a disk that is full."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from faircil import files
from faircil.errors import DataError, StorageError
from faircil.metrics import TaskMetrics
from faircil.results import folder as results_folder
from faircil.results.folder import read_run
from faircil.results.record import RunSummary
from faircil.runs import saved_states
from faircil.runs.experiment import Event, run
from faircil.runs.saved_states import Checkpoints, load_state, state_folder
from faircil.stopping import Stopped, check, exit_code, listening, waiting
from faircil.sweep.work import Unwatched, Work, make_run
from small_runs import small_config, small_stream

pytestmark = pytest.mark.usefixtures("hears_signals")
IDENTITY = {"faircil": "1", "code": "abc", "seed": 0, "config": {"lr": 0.1}}


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every state be due."""
    monkeypatch.setattr(saved_states, "PAUSE", 0.0)
    monkeypatch.setattr(saved_states, "SHARE", float("inf"))


class Kept(NamedTuple):
    """A folder of states, what was told of them, and the epochs after which they were saved."""

    folder: Path
    told: list[str]

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*.safetensors"))

    def latest(self, identity: dict[str, Any] = IDENTITY) -> int | None:
        """Return the epochs of the state that is used."""
        state = Checkpoints(self.folder, identity, self.told.append).latest()
        return None if state is None else len(state.epochs)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    """Return the states of a run of six epochs: the last two are there."""
    found = Kept(tmp_path / "states", [])
    states = Checkpoints(found.folder, IDENTITY, found.told.append)
    run(small_config(), 0, stream=small_stream(attribute=False), checkpoint=states)
    assert found.told == []
    assert [file.name[:6] for file in found.files()] == ["000005", "000006"]
    return found


def test_the_newest_state_is_used(kept: Kept) -> None:
    assert kept.latest() == 6
    assert kept.told == []
    assert {file.stat().st_mode & 0o777 for file in kept.files()} == {0o600}
    assert kept.folder.stat().st_mode & 0o777 == 0o700


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def alter(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("damage", [truncate, alter, empty])
def test_a_damaged_state_is_named_and_the_one_before_used(
    kept: Kept, damage: Callable[[Path], None]
) -> None:
    before, last = kept.files()
    damage(last)
    assert kept.latest() == 5
    assert kept.told == [
        f"not used, a saved state in {kept.folder}: {last.name} is not what was saved"
    ]
    damage(before)
    assert kept.latest() is None
    assert len(kept.told) == 3


def test_what_is_saved_next_comes_after_a_damaged_state(kept: Kept) -> None:
    truncate(kept.files()[1])
    states = Checkpoints(kept.folder, IDENTITY)
    state = states.latest()
    assert state is not None
    states(state)
    assert [file.name[:6] for file in kept.files()] == ["000006", "000007"]
    assert kept.latest() == 5


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("config", {"lr": 0.2}, "another configuration"),
        ("code", "abd", "another code"),
        ("seed", 1, "another seed"),
        ("torch", "0", "another machine or version of a library"),
    ],
)
def test_the_state_of_another_run_is_not_used(
    kept: Kept, part: str, value: object, said: str
) -> None:
    assert kept.latest(IDENTITY | {part: value}) is None
    assert all(line.endswith(f"is the state of a run with {said}") for line in kept.told)
    assert len(kept.told) == 2


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    saved_states.save_file({"a": torch.zeros(1)}, file)
    with pytest.raises(DataError, match="cannot be read"):
        load_state(file)


class Trial:
    """A run that is made into a folder, as a sweep does it, and what is told and heard of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told, self.heard = folder, list[str](), list[Event]()
        self.stop: int | None = None  # signal to send after the first task

    def make(self, **options: Any) -> RunSummary:
        self.heard.clear()
        return make_run(
            Work(small_config(), 0),
            self.folder,
            command="",
            device=torch.device("cpu"),
            load=lambda *_: small_stream(attribute=False),
            watcher=self,
            tell=self.told.append,
            **options,
        )

    def start(self, seed: int, tasks: int) -> None:
        assert (seed, tasks) == (0, 3)

    embedding = Unwatched.embedding

    def __call__(self, event: Event) -> None:
        self.heard.append(event)
        if self.stop is not None and isinstance(event, TaskMetrics):
            signal.raise_signal(self.stop)

    @property
    def states(self) -> list[Path]:
        return sorted(state_folder(self.folder, 0).glob("*.safetensors"))


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(saved_states, "BETWEEN_TRIES", 0.0)
    return Trial(tmp_path / "out")


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_state_that_cannot_be_saved_costs_the_run_nothing(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_states, "save_file", full)
    assert read_run(Path(trial.make().dir)).seed == 0
    (said,) = trial.told
    assert "cannot be saved" in said
    assert "No space left on device; the run continues" in said


def test_states_leave_room_for_the_result(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([10**9, *[10] * 1000])
    monkeypatch.setattr(files, "free_room", lambda _: next(free))
    monkeypatch.setattr(saved_states, "free_room", lambda _: next(free))
    trial.make()
    (said,) = trial.told
    assert "0 MB are free on the disk, and the result needs about 2 MB; free space" in said
    assert not trial.states


def test_room_is_looked_for_before_training(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "free_room", lambda _: 10**6)
    with pytest.raises(StorageError, match="has room for 1 MB, and the run will write about 1 MB"):
        trial.make()
    assert trial.heard == []


def fill(monkeypatch: pytest.MonkeyPatch, *places: Path, tries: int = 1000) -> None:
    """Let the disk of these places be full, for a number of tries."""
    write, left = results_folder.write_rows, [tries]

    def write_rows(path: Path, rows: Any) -> None:
        if any(place in path.parents for place in places) and left[0]:
            left[0] -= 1
            full()
        write(path, rows)

    monkeypatch.setattr(results_folder, "write_rows", write_rows)


def test_a_finished_run_without_room_goes_elsewhere(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch, trial.folder)
    with pytest.raises(StorageError) as caught:
        trial.make()
    (place,) = (tmp_path / "temporary").glob("faircil-*/seed-0")
    run = read_run(place)
    for said in (
        f"cannot write the run to {trial.folder / 'seed-0'}: No space left on device",
        f"The finished run of seed 0 is in {place} instead; move it to",
        f"its metrics: accuracy {run.metrics['accuracy']:.4f}, ",
    ):
        assert said in str(caught.value)
    assert trial.states
    # With room again, the same command ends it in a moment.
    monkeypatch.undo()
    again = trial.make()
    assert again.metrics == run.metrics
    assert not trial.states


def test_a_run_that_fits_nowhere_is_tried_again(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch, tmp_path, tries=4)  # two places, two times
    assert read_run(Path(trial.make().dir)).dir == str(trial.folder / "seed-0")
    assert len(trial.told) == 2
    assert "kept in memory and written when there is room: 19 more tries" in trial.told[0]
    assert not list((tmp_path / "temporary").iterdir())


def test_in_the_end_the_metrics_are_printed(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(monkeypatch, tmp_path)
    monkeypatch.setattr(saved_states, "TRIES", 2)
    with pytest.raises(
        StorageError, match=r"could not be written anywhere; its metrics: accuracy 0\."
    ):
        trial.make()
    assert len(trial.told) == 1


def test_a_stop_saves_the_run_and_its_watcher_hears_all_of_it(trial: Trial) -> None:
    trial.stop = signal.SIGTERM
    with listening(), pytest.raises(Stopped, match="SIGTERM") as caught:
        trial.make()
    assert exit_code(caught.value) == 143
    assert len(trial.heard) == 3
    trial.stop = None
    stopped = trial.make()
    assert trial.told == ["seed 0 continues in task 2, after epoch 0 and 1 steps"]
    resumed = [type(event) for event in trial.heard]
    whole = trial.make(anew=True)
    assert resumed == [type(event) for event in trial.heard]
    assert stopped.metrics == whole.metrics
    assert len(trial.told) == 1


def test_what_is_begun_anew_leaves_states_aside(trial: Trial) -> None:
    trial.stop = signal.SIGINT
    with listening(), pytest.raises(Stopped):
        trial.make()
    trial.stop = None
    trial.make(anew=True)
    assert trial.told == []


def test_states_of_another_run_do_not_push_out_those_of_a_run_that_is_begun_anew(
    kept: Kept,
) -> None:
    before = Checkpoints(kept.folder, IDENTITY).latest()
    assert before is not None
    other = IDENTITY | {"config": {"lr": 0.2}}
    states = Checkpoints(kept.folder, other)  # as with --force: what is there is not looked at
    states(before)
    assert kept.latest(other) == 6
    states(before)
    assert [file.name[:6] for file in kept.files()] == ["000007", "000008"]


def test_a_second_signal_does_not_wait() -> None:
    with listening(), waiting():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Stopped):
            check()


def test_ignored_signals_stay_ignored() -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with listening():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_errors_after_a_signal_are_its_consequence() -> None:
    assert exit_code(ImportError()) is None
    assert exit_code(KeyboardInterrupt()) == 130
    with listening(), waiting():
        signal.raise_signal(signal.SIGTERM)
        assert exit_code(ImportError()) == 143
    with listening():
        assert exit_code(ImportError()) is None
