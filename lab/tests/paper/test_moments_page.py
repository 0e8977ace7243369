"""The page of learning from moments: what auto takes, whether it harms, and what fairness costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil.sweep.work import Outcome
from faircil.tuning import auto
from faircil_lab.paper.contenders import REPLAY, Contender, Entry
from faircil_lab.paper.exhibit import Results
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.moments_page import (
    AUTO,
    MOMENTS_TABLE,
    Automatic,
    cost_section,
    overview,
    standing,
)
from faircil_lab.paper.tables import EQUAL_CLASSES, MOMENTS, RIDGE, moment_column
from run_summaries import make_run

COLUMN = moment_column(Target("digits", "eer"))
NOISE = (0.0, 0.01, -0.01, 0.005)


def entry(
    contender: Contender, accuracy: float, disparity: float, worst: float, scale: float = 1.0
) -> Entry:
    runs = [
        make_run("m", seed=s, accuracy=accuracy + e, eer_task=disparity + e, worst_group=worst - e)
        for s, e in enumerate(scale * noise for noise in NOISE)
    ]
    return Entry(contender, tuple(runs), "faircil run")


def test_a_plain_method_harms_only_if_it_is_surely_better_in_both() -> None:
    own = entry(AUTO, 0.90, 0.05, 0.6)
    better, worse = entry(REPLAY, 0.95, 0.02, 0.5, 0.9), entry(RIDGE[0], 0.95, 0.08, 0.7, 0.9)
    found = standing(COLUMN, [better, worse, own], "not chosen")
    assert found.better == (REPLAY.name,)
    assert found.above == (RIDGE[0].name,)
    # The same means, but seeds that scatter by more than the difference.
    assert standing(COLUMN, [entry(REPLAY, 0.95, 0.02, 0.5, 20), own], "not chosen").better == ()


def test_a_diverged_seed_counts_against_auto_and_judges_nobody_else() -> None:
    own, better = entry(AUTO, 0.90, 0.05, 0.6), entry(REPLAY, 0.95, 0.02, 0.7, 0.9)
    lost = standing(COLUMN, [entry(REPLAY, 0.8, 0.2, 0.1), replace(own, diverged=1)], "not chosen")
    assert lost.behind
    found = standing(COLUMN, [replace(better, diverged=1), own], "not chosen")
    assert not found.behind
    ours, plain = entry(MOMENTS, 0.90, 0.05, 0.6), entry(EQUAL_CLASSES, 0.91, 0.07, 0.5)
    table = cost_section({COLUMN: [replace(ours, diverged=1), plain]}).table
    assert table is not None
    assert table.rows == ()


def test_the_cost_of_fairness_is_what_differs_from_equal_classes() -> None:
    ours, plain = entry(MOMENTS, 0.90, 0.05, 0.6), entry(EQUAL_CLASSES, 0.91, 0.07, 0.5)
    section = cost_section({COLUMN: [ours, plain]})
    assert section.table is not None
    assert section.table.rows == (("digits (EER)", "−.010", "−.020", "+.100"),)
    alone = cost_section({COLUMN: [ours]}).table
    assert alone is not None
    assert alone.rows == ()


def test_the_overview_says_what_is_missing(tmp_path: Path) -> None:
    ours = entry(MOMENTS, 0.90, 0.05, 0.6)
    lost = Entry(REPLAY, (), "faircil run", diverged=5)
    absent = Entry(RIDGE[0], (), "faircil run", "files absent")
    section = overview({COLUMN: [ours, lost, absent]})
    assert section.table is not None
    assert [row[1] for row in section.table.rows] == [".901 / .051 / .599", "diverged", "not run"]
    assert section.picture is not None
    section.picture.draw(tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000


def test_auto_is_settled_by_held_out_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "chance_of", lambda _: None)
    automatic = Automatic(COLUMN.target)
    works = list(automatic.works((0, 1)))
    trials = auto.trials_of(automatic.make)
    assert works[: len(trials.works)] == trials.works
    # Four candidates for images; both that learn from moments also with equal groups.
    assert len(works) == len(trials.works) + 6 * 2
    assert len({work.key for work in works}) == len(works)
    made = {
        work.key: Outcome(work, make_run("m", seed=work.seed, accuracy=0.9 if good else 0.5))
        for work in works
        for good in [work.config.method == "gdumb"]
    }
    choice = automatic.choice(Results(made, {}, Path()))
    assert isinstance(choice, auto.Choice)
    assert choice.chosen.method == "gdumb"
    row = automatic.entry(choice, (0, 1), Results(made, {}, Path()))
    assert [run.metrics["accuracy"] for run in row.runs] == [0.9, 0.9]
    assert row.command == "faircil run --dataset digits --measure eer --seeds 0-1"


def test_the_page_without_runs_says_so() -> None:
    table = replace(MOMENTS_TABLE, columns=(COLUMN,), seeds=(0,))
    works = table.works({})
    outcomes = {work.key: Outcome(work, None, "not run") for work in works}
    page = table.page(Results(outcomes, {}, Path(), run_missing=False))
    assert page.sections[1].table is not None
    assert page.sections[1].table.rows[0][:2] == ("digits (EER)", "not run")
    assert page.answer == "Not run yet."
