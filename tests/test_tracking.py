"""Runs in trackers: what they are told, and that the real packages take it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from faircil.cli import main
from faircil.errors import UsageError
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.saved_states import load_state, save_state
from faircil.runs.state import RunState
from faircil.tracking import TRACKERS, new_trackers, tracking

CONFIG = resolve(dataset="digits", method="er", overrides=["epochs=2", "buffer_size=4"])
SHORT = ("--dataset", "digits", "--method", "er", "--set", "epochs=1", "--seeds", "0", "--no-model")


class Notes:
    """A tracker that writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[tuple[str, object, object]] = []

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        self.said.append(("begin", name, dict(settings)))

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.said.append(("log", dict(values), step))

    def end(self) -> None:
        self.said.append(("end", None, None))


def test_trackers_hear_epochs_and_metrics_of_a_run() -> None:
    notes = Notes()
    with tracking([notes], CONFIG) as tracked:
        tracked.start(3, 5)
        found = run(CONFIG, 3, listener=tracked)
    kinds = [kind for kind, _, _ in notes.said]
    assert kinds == ["begin", *(["log"] * 3) * 5, "end"]  # two epochs and metrics, five tasks
    _, name, settings = notes.said[0]
    assert name == "digits-er-eer-seed-3"
    assert isinstance(settings, dict)
    assert settings["epochs"] == "2"
    assert settings["dataset"] == "digits"
    kind, last, step = notes.said[-2]
    assert (kind, step) == ("log", 10)
    assert isinstance(last, dict)
    assert last["accuracy"] == found.per_task[-1].values["accuracy"]
    assert last["accuracy of task/5"] == found.per_task[-1].per_test_task[4]


def test_a_run_that_goes_on_is_told_from_its_beginning(tmp_path: Path) -> None:
    whole, notes, file = Notes(), Notes(), tmp_path / "state"

    def save(state: RunState) -> None:
        if len(state.epochs) == 5:
            save_state(state, file)

    with tracking([whole], CONFIG) as tracked:
        tracked.start(3, 5)
        run(CONFIG, 3, listener=tracked, checkpoint=save)
    state = load_state(file)
    with tracking([notes], CONFIG) as tracked:
        tracked.start(3, 5)
        for event in state.history():
            tracked(event)
        run(CONFIG, 3, listener=tracked, state=state)
    assert [(kind, step) for kind, _, step in notes.said] == [
        (kind, step) for kind, _, step in whole.said
    ]


def test_a_run_that_fails_is_ended() -> None:
    notes = Notes()
    with suppress(KeyboardInterrupt), tracking([notes], CONFIG) as tracked:
        tracked.start(0, 5)
        raise KeyboardInterrupt
    assert [kind for kind, _, _ in notes.said] == ["begin", "end"]


class Broken(Notes):
    """A tracker that fails where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self._where = where

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        super().begin(name, settings)
        if self._where == "begin":
            raise OSError("no server")

    def log(self, values: Mapping[str, float], step: int) -> None:
        raise OSError("server gone")


def test_a_tracker_that_fails_loses_no_run() -> None:
    broken, whole, told = Broken("log"), Notes(), list[str]()
    with tracking([broken, whole], CONFIG, told.append) as tracked:
        tracked.start(0, 5)
        run(CONFIG, 0, listener=tracked)
    assert told == ["Broken is not used from here on: server gone"]
    assert whole.said[-1][0] == "end"
    with tracking([whole, Broken("begin")], CONFIG) as tracked:
        with pytest.raises(UsageError, match="Broken cannot take a run: no server"):
            tracked.start(0, 5)
        assert whole.said[-1][0] == "begin"
    assert whole.said[-1][0] == "end"


def test_names_and_packages_are_checked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(place: str) -> Notes:
        raise ImportError("No module named 'absent'")

    monkeypatch.setitem(TRACKERS, "absent", absent)
    with pytest.raises(UsageError) as caught:
        new_trackers(["absent=here", "tensorbord"])
    assert "tracker 'absent' needs the absent package" in str(caught.value)
    assert "did you mean 'tensorboard'" in str(caught.value)


def test_tracking_is_of_one_run_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *SHORT, "--jobs", "2", "--track", "tensorbord"]) == 2
    said = capsys.readouterr().err
    assert "--track follows one run at a time" in said
    assert "tensorbord" in said


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_the_package_takes_a_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    assert main(["run", *SHORT, "--track", name, "-o", "out", "--quiet"]) == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file() and "out" not in path.parts]
    assert written
