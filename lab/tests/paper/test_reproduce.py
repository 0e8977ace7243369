from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from faircil.errors import DataError, StorageError, UsageError
from faircil.sweep.sweep import SweepOptions
from faircil.sweep.work import Outcome, Work
from faircil_lab.paper.exhibit import Page
from faircil_lab.paper.exhibits import Changes, chosen_exhibits, reproduce
from made_tables import MNIST, TABLE, make, put_files

TUNED = replace(TABLE, settings="tuned", seeds=(0, 1))
OPTIONS = SweepOptions()


class FakeSweep:
    """Makes any run at once, and remembers what it was asked for."""

    def __init__(self, fails: Sequence[str] = ()) -> None:
        self.calls: list[list[Work]] = []
        self._fails = fails

    def __call__(self, works: Sequence[Work]) -> list[Outcome]:
        self.calls.append(list(works))
        return [
            Outcome(work, None, "it diverged", diverged=True)
            if work.config.label in self._fails
            else Outcome(work, make(work))
            for work in works
        ]


@dataclass(frozen=True)
class Broken:
    """An exhibit that cannot be made."""

    error: Exception
    title: str = "Broken"
    paper: str = "nowhere"

    def requests(self):
        return ()

    def works(self, tuned):
        return ()

    def page(self, results) -> Page:
        raise self.error


@pytest.fixture(autouse=True)
def _files(monkeypatch, tmp_path):
    put_files(tmp_path / "data")
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path / "data"))


def test_settings_are_chosen_first_then_all_runs_are_one_sweep(tmp_path: Path):
    sweep = FakeSweep()
    exhibits = {"one": TUNED, "two": replace(TUNED, columns=(MNIST,)), "three": TABLE}
    pages = reproduce(exhibits, tmp_path, sweep, OPTIONS, index=False)
    first, last = sweep.calls
    assert {work.config.evaluate_on for work in last} == {"test"}
    trials = [work.key for work in first if work.config.evaluate_on == "validation"]
    assert (
        len(trials) == len(set(trials)) == 3 * 12
    )  # one and two ask for the same, FSW and its control too
    in_parallel = {work.key for work in first} - set(trials)
    ready = [work for work in TABLE.works({}) if work.config.dataset == "mnist"]
    assert in_parallel == {work.key for work in ready}  # of the one that needs no choice
    keys = [work.key for work in last]
    assert len(keys) == len(set(keys))
    assert list(pages) == ["one", "two", "three"]
    assert {file.name for file in tmp_path.glob("*.md")} == {"one.md", "two.md", "three.md"}


def test_runs_are_made_with_the_settings_that_were_chosen(tmp_path: Path):
    sweep = FakeSweep()
    pages = reproduce(
        {"one": replace(TUNED, rows=TABLE.rows[:1], pairs=())},
        tmp_path,
        sweep,
        OPTIONS,
        index=False,
    )
    settings = next(part for part in pages["one"].sections if part.heading == "Settings").table
    assert settings is not None
    chosen = settings.rows[0][2].strip("`").split()
    used = sweep.calls[-1][0].config.settings.flat()
    assert chosen
    for item in chosen:
        name, _, value = item.partition("=")
        assert str(used[name]) == str(type(used[name])(value))


def test_a_method_that_fails_is_named_and_the_others_go_on(tmp_path: Path):
    sweep = FakeSweep(fails=["icarl"])
    reproduce({"one": TUNED}, tmp_path, sweep, OPTIONS, index=False)
    text = (tmp_path / "one.md").read_text("utf-8")
    assert re.search(r"Not run: all 12 trials diverged.* \(iCaRL\)\.", text)
    assert "| iCaRL | .918 ± .005 | not run | – | not run |" in text
    assert "| FSW | .925 ± .004 | .92" in text
    assert "icarl on mnist" not in text


def test_the_index_is_written_with_all_pages_only(tmp_path: Path):
    reproduce({"one": TABLE}, tmp_path, FakeSweep(), OPTIONS, index=True)
    assert "[A small table](one.md)" in (tmp_path / "README.md").read_text("utf-8")


def test_an_exhibit_that_cannot_be_made_has_a_page_that_says_so(tmp_path: Path):
    exhibits = {"bad": Broken(DataError("no such file")), "good": TABLE}
    pages = reproduce(exhibits, tmp_path, FakeSweep(), OPTIONS, index=True)
    assert pages["bad"].answer == "Not made: no such file"
    assert "Not made: no such file" in (tmp_path / "bad.md").read_text("utf-8")
    assert "# A small table" in (tmp_path / "good.md").read_text("utf-8")


def test_a_full_disk_ends_it(tmp_path: Path):
    with pytest.raises(StorageError):
        reproduce(
            {"bad": Broken(StorageError("full"))}, tmp_path, FakeSweep(), OPTIONS, index=False
        )


def test_finished_runs_give_the_same_pages_again(tmp_path: Path):
    for name in ("a", "b"):
        reproduce({"one": TUNED}, tmp_path / name, FakeSweep(), OPTIONS, index=True)
    for file in ("one.md", "README.md"):
        assert (tmp_path / "a" / file).read_text() == (tmp_path / "b" / file).read_text()


def test_names_are_chosen_once_and_unknown_ones_named_together():
    known = {"table1": TABLE, "other": TUNED}
    assert list(chosen_exhibits(["other", "other"], known, Changes())) == ["other"]
    assert list(chosen_exhibits(["all"], known, Changes())) == ["table1", "other"]
    with pytest.raises(UsageError) as caught:
        chosen_exhibits(["tabel1", "what", "all"], known, Changes())
    message = str(caught.value)
    assert "unknown table or figure 'tabel1': did you mean 'table1'? Known: all, other" in message
    assert "unknown table or figure 'what'" in message


def test_changes_reach_the_exhibits_that_know_of_them():
    known = {"table": TABLE, "broken": Broken(DataError(""))}
    found = chosen_exhibits(["all"], known, Changes(seeds=(7,), settings="tuned"))
    assert found["table"] == replace(TABLE, seeds=(7,), settings="tuned")
    assert found["broken"] == known["broken"]
    assert chosen_exhibits(["table"], known, Changes())["table"] == TABLE
