from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil.sweep.work import Outcome, Work
from faircil_lab.paper.contenders import FSW, config, request
from faircil_lab.paper.exhibit import Results
from faircil_lab.paper.table import TableRow
from figure_runs import results_of, tuned_with
from made_tables import ABSENT, ICARL, MNIST, TABLE, make, put_files


def test_shipped_settings_need_no_choice():
    assert list(TABLE.requests()) == []
    works = TABLE.works({})
    assert len(works) == 2 * 4 * 5
    assert {work.config.dataset for work in works} == {"mnist", "biasbios"}
    assert works[0].config == config(ICARL, "mnist", "eer", None)


def test_chosen_settings_are_those_of_the_request():
    table = replace(TABLE, settings="tuned", seeds=(0, 7))
    asked = list(table.requests())
    assert asked[0] == request(ICARL, "mnist", "eer")
    assert len(asked) == 2 * 3  # random weights have the settings of FSW
    tuned = {one: tuned_with(one) for one in asked[:1]}
    works = table.works(tuned)
    assert [work.seed for work in works] == [0, 7]
    assert works[0].config.settings.learner.lr == 0.1


def test_a_variant_takes_the_settings_of_its_method():
    original = replace(ICARL, name="original", fixed=("quota=total",), settings_of=ICARL)
    variant = TableRow(original)
    table = replace(TABLE, settings="tuned", rows=(TABLE.rows[0], variant))
    table = replace(table, columns=(MNIST,))
    assert set(table.requests()) == {request(ICARL, "mnist", "eer")}
    plain, other = table.works({one: tuned_with(one) for one in table.requests()})[::5]
    assert (plain.config.settings.learner.lr, other.config.settings.learner.lr) == (0.1, 0.1)
    assert (plain.config.settings.learner.quota, other.config.settings.learner.quota) == (
        "group",
        "total",
    )


def test_a_row_may_have_a_measure_of_its_own_and_a_column_fewer_rows():
    rows = (TableRow(FSW, measure="dp"), TableRow(ICARL))
    column = replace(ABSENT, target=replace(ABSENT.target, dataset="drug"))
    table = replace(TABLE, rows=rows, columns=(column, replace(column, only=("iCaRL",))), pairs=())
    found = [(work.config.label, work.config.measure) for work in table.works({})]
    assert found == [("fsw", "dp")] * 5 + [("icarl", "eo")] * 10


def test_held_out_samples_are_part_of_the_run_and_of_its_command():
    column = replace(ABSENT, target=replace(ABSENT.target, dataset="drug"))
    table = replace(TABLE, held_out=32, columns=(column,))
    assert {work.config.held_out for work in table.works({})} == {32}
    results = results_of(table, lambda _: None)
    assert "--held-out 32 --seeds 0-4" in table.entries(column, results)[0].command


def test_lines_have_runs_commands_and_reasons(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    put_files(tmp_path)
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    results = results_of(TABLE, lambda work: make(work) if work.seed < 2 else None)
    entry = TABLE.entries(MNIST, results)[1]
    assert [run.seed for run in entry.runs] == [0, 1]
    assert entry.command == "faircil run --dataset mnist --method fsw --measure eer --seeds 0-4"
    assert (entry.problem, entry.diverged) == (None, 3)
    absent = TABLE.entries(ABSENT, results)[1]
    assert (absent.runs, absent.problem) == ((), "files absent")
    assert absent.command.startswith("faircil run --dataset biasbios --method fsw --measure eo")


def test_where_files_are_absent_the_line_says_so():
    results = results_of(TABLE, make)
    assert {entry.problem for entry in TABLE.entries(ABSENT, results)} == {"files absent"}
    assert {entry.problem for entry in TABLE.entries(MNIST, results)} == {None}


def test_where_nothing_could_be_chosen_the_line_says_why(monkeypatch, tmp_path: Path):
    put_files(tmp_path)
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    table = replace(TABLE, settings="tuned")
    first, *_ = table.requests()
    results = Results({}, {}, Path("runs"), not_tuned={first: "all trials failed"})
    entries = table.entries(MNIST, results)
    assert entries[0].problem == "all trials failed"
    assert entries[1].problem == "no settings were chosen"
    assert entries[0].command.startswith("faircil run --dataset mnist --method icarl")


def test_results_find_runs_by_the_key_of_the_work():
    work = Work(config(FSW, "mnist", "eer", None), 3)
    results = Results({work.key: Outcome(work, make(work))}, {}, Path("runs"))
    assert [run.seed for run in results.runs(work.config, [3])] == [3]
