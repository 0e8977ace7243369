"""Every method with the shipped settings: rows, shared runs, targets; and how they were chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from faircil.learners import LEARNERS
from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil_lab.paper import chosen_settings
from faircil_lab.paper.chosen_settings import GRIDS, ChosenSettings
from faircil_lab.paper.claims import Column
from faircil_lab.paper.exhibit import Page
from faircil_lab.paper.methods import GOALS, METHODS_TABLE, MNIST, ROWS
from faircil_lab.paper.tables import ABLATION
from figure_runs import results_of, run_of


def rows(page: Page, heading: str) -> list[tuple[str, ...]]:
    table = next(part.table for part in page.sections if part.heading == heading)
    assert table is not None
    return list(table.rows)


def test_every_method_stands_there_with_every_weighting_it_takes() -> None:
    names = {row.contender.name for row in ROWS}
    for method, learner in LEARNERS.items():
        assert method in names
        assert (f"{method} + fsw by group" in names) == (learner.no_weighting is None)
    assert names >= GOALS.keys()


def test_runs_are_shared_with_the_other_pages() -> None:
    own = {work.key for work in METHODS_TABLE.works({})}
    shared = [
        work
        for work in ABLATION.works({})
        if (work.config.dataset, work.config.measure) in {("mnist", "eer"), ("biased-mnist", "dp")}
    ]
    assert len(shared) == (5 + 4) * 5  # plain replay has the same runs whatever the measure
    assert {work.key for work in shared} <= own


def test_controls_differ_from_fsw_in_the_weighting_alone() -> None:
    configs = {
        work.config.label: work.config
        for work in METHODS_TABLE.works({})
        if work.config.dataset == "mnist" and work.config.settings.weights.granularity == "sample"
    }
    by_weighting = {(config.method, config.weighting): config for config in configs.values()}
    for method in ("er", "der++"):
        own = by_weighting[method, "fsw"]
        for control in ("random", "balanced"):
            assert own.model_copy(update={"weighting": control}) == by_weighting[method, control]


def test_targets_are_met_or_missed_and_a_diverged_seed_misses() -> None:
    table = replace(METHODS_TABLE, columns=(Column(MNIST, ("accuracy", "eer_task")),), pairs=())

    def make(work: Work) -> RunSummary | None:
        if work.config.label == "clad" or (work.config.label == "joint" and work.seed == 0):
            return None
        return run_of(work, accuracy=0.98, eer_task=0.01, eer=0.5)

    found = {
        (row[1], row[2]): row[3:] for row in rows(table.page(results_of(table, make)), "Targets")
    }
    assert found["er + fsw", "accuracy"] == ("≥ .924", ".980 ± .000", "met")
    assert found["er + fsw", "eer"][-1] == "**missed**"
    assert found["finetune", "eer_task"][0] == ".320 … .335"
    assert found["joint", "accuracy"][-1] == "**missed**"
    assert found["clad", "accuracy"] == ("≥ .825", "–", "**missed**")  # all seeds diverged


def test_settings_are_ranked_by_accuracy_over_groups_on_validation_data(monkeypatch) -> None:
    monkeypatch.setattr(chosen_settings, "MEASURES", {"mnist": "eer"})
    exhibit = ChosenSettings()
    works = exhibit.works({})
    assert {work.config.evaluate_on for work in works} == {"validation"}
    assert {work.seed for work in works} == {10, 11}
    assert {work.config.method for work in works} == set(GRIDS)

    def make(work: Work) -> RunSummary | None:
        if work.config.settings.learner.lr == 0.1:
            return None
        return run_of(work, accuracy=0.9 - work.config.settings.learner.lr, eo=None)

    page = exhibit.page(results_of(exhibit, make))
    found = {row[0]: row[1:] for row in rows(page, "MNIST")}
    assert found["`wa`"] == (
        "`lr=0.01`",
        "2 of 3",
        "**lr=0.001 .899**; lr=0.01 .890; lr=0.1 –",
    )
    assert "DRUG is split by the seed" in page.sections[0].text
    assert "of their grid for" in page.answer


def test_a_missing_run_is_named(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(chosen_settings, "MEASURES", {"digits": "eer"})
    monkeypatch.setitem(chosen_settings.DATASET_NAMES, "digits", "Digits")
    exhibit = ChosenSettings()
    page = exhibit.page(results_of(exhibit, lambda _: None, diverged=False))
    assert page.answer == "Not run yet."
    assert page.sections[1].text == "Not run: out of memory."
