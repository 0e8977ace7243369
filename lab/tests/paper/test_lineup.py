from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil.sweep.work import Work
from faircil_lab.paper.contenders import (
    FILES_ABSENT,
    FSW,
    REPLAY,
    Entry,
    LineUp,
    commands,
    missing,
    request,
)
from faircil_lab.paper.metrics import Target
from figure_runs import results_of, run_of, tuned_with
from made_tables import put_files

DRUG, ABSENT = Target("drug", "eo"), Target("biasbios", "eo")


def test_shipped_settings_need_no_search() -> None:
    line_up = LineUp([FSW, REPLAY], [DRUG], "shipped", seeds=[0, 1])
    assert line_up.requests() == []
    works = line_up.works({})
    assert [(work.config.label, work.seed) for work in works] == [
        ("fsw", 0),
        ("fsw", 1),
        ("er", 0),
        ("er", 1),
    ]


def test_only_what_was_chosen_is_run() -> None:
    line_up = LineUp([FSW, REPLAY], [DRUG], seeds=[0])
    fsw, replay = line_up.requests()
    works = line_up.works({fsw: tuned_with(fsw, [("lr=0.3", {})])})
    assert [(work.config.label, work.config.settings.learner.lr) for work in works] == [
        ("fsw", 0.3)
    ]
    assert replay == request(REPLAY, "drug", "eo")


def test_entries_have_runs_or_say_why_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    put_files(tmp_path, "drug")
    line_up = LineUp([FSW, REPLAY], [DRUG, ABSENT], "tuned", seeds=[0, 1])
    fsw, replay = line_up.requests()[:2]

    class Both:
        title = paper = ""
        requests, works = line_up.requests, line_up.works

    def make(work: Work) -> object:
        return run_of(work) if work.seed == 0 else None

    results = results_of(Both(), make, {fsw: tuned_with(fsw)})  # type: ignore[arg-type]
    results = replace(results, not_tuned={replay: "all trials failed"})
    half, none = line_up.entries(DRUG, results)
    assert ([run.seed for run in half.runs], half.problem, half.diverged) == ([0], None, 1)
    assert (none.runs, none.problem) == ((), "all trials failed")
    assert "lr=0.1" in half.command
    assert line_up.entry(FSW, ABSENT, results).problem == FILES_ABSENT


def test_reasons_are_named_once() -> None:
    entries = [Entry(FSW, (), "a", "why"), Entry(REPLAY, (), "a", "why")]
    assert missing(entries) == "Not run: why (all)."
    assert missing([entries[0], Entry(REPLAY, (), "a")]) == "Not run: why (FSW)."
    assert missing([Entry(REPLAY, (), "a")]) == ""
    assert commands(entries) == ("a",)


def test_diverged_seeds_are_counted_by_method() -> None:
    text = missing([Entry(FSW, (), "a", diverged=2), Entry(REPLAY, (), "a")])
    assert text.startswith("2 of 2 seeds diverged: FSW.")
    assert "counts against a method" in text
