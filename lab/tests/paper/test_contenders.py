from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil.sweep.command import command_of
from faircil.sweep.work import Work
from faircil_lab.paper.contenders import (
    CONTENDERS,
    FILES_ABSENT,
    FSW,
    REPLAY,
    Contender,
    Entry,
    LineUp,
    commands,
    config,
    missing,
    request,
)
from faircil_lab.paper.metrics import Target
from figure_runs import results_of, run_of, tuned_with
from made_tables import put_files

BY_METHOD = {(c.method, c.weighting): c for c in CONTENDERS if not c.fixed}


def test_the_paper_has_nine() -> None:
    assert [c.method for c in CONTENDERS if c.in_paper] == [
        *("joint", "finetune", "icarl", "wa", "clad", "gss", "ocs", "fairl", "fsw")
    ]


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda c: c.name)
def test_everyone_can_be_chosen_for_and_run_on_what_was_chosen(contender: Contender) -> None:
    wanted = request(contender, "biased-mnist", "eo")
    tuned = tuned_with(wanted, [("lr=0.003", {})])
    chosen = config(contender, "biased-mnist", "eo", tuned)
    assert chosen.settings.learner.lr == 0.003
    assert chosen.evaluate_on == "test"
    assert wanted.config(tuned.best.overrides).settings == chosen.settings
    group = "granularity=group" in contender.fixed
    assert chosen.settings.weights.granularity == ("group" if group else "sample")


@pytest.mark.parametrize("name", [("joint", None), ("er", None), ("der++", None)])
def test_without_weighting_eo_and_dp_choose_among_the_same_runs(name: tuple[str, None]) -> None:
    eo, dp = (request(BY_METHOD[name], "drug", measure) for measure in ("eo", "dp"))
    assert eo != dp
    assert (eo.objective, dp.objective) == (None, "accuracy - dp")
    assert eo.config(["lr=0.01"]) == dp.config(["lr=0.01"])


@pytest.mark.parametrize("name", [("fsw", None), ("er", "random"), ("er", "balanced")])
def test_with_weighting_every_measure_has_its_own_runs(name: tuple[str, str | None]) -> None:
    eo, dp = (request(BY_METHOD[name], "drug", measure) for measure in ("eo", "dp"))
    assert (eo.config([]).measure, dp.config([]).measure) == ("eo", "dp")
    assert dp.objective is None


def test_its_configuration_has_what_was_chosen() -> None:
    by_group = next(c for c in CONTENDERS if c.method == "der++" and c.weighting)
    tuned = tuned_with(request(by_group, "drug", "dp"), [("lr=0.05", {})])
    text = command_of(config(by_group, "drug", "dp", tuned), range(5))
    assert text == (
        "faircil run --dataset drug --method der++ --weighting fsw --measure dp "
        "--set lr=0.05 granularity=group --seeds 0-4"
    )


def test_a_dataset_whose_files_are_absent_has_a_command() -> None:
    assert command_of(config(FSW, "biasbios", "eo", None), range(5)) == (
        "faircil run --dataset biasbios --method fsw --measure eo --seeds 0-4"
    )


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
