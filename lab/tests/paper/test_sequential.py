from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil_lab.paper import sequential
from faircil_lab.paper.contenders import CONTENDERS, FSW, REPLAY
from faircil_lab.paper.exhibit import Page
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.sequential import Sequential
from figure_runs import results_of, run_of

MNIST, FASHION, DRUG, ABSENT = (
    Target("mnist", "eer"),
    Target("fashion-mnist", "eer"),
    Target("drug", "dp"),
    Target("biasbios", "eo"),
)
# Disparity after the last task by label; a little noise by seed comes on top.
DISPARITY = {"fsw": 0.02, "er": 0.05, "er+random": 0.02, "der++": 0.01}


def make(work: Work) -> RunSummary:
    noise = 0.001 * ((work.seed * 7 + len(work.config.label)) % 5)
    last = DISPARITY.get(work.config.label, 0.1) + noise
    metrics = {"accuracy": 1 - last, "eer_task": last, "dp_predicted": last}
    run = run_of(work, **metrics)
    return replace(run, per_task=[{**run.per_task[0], "eer_task": 0.0}, run.per_task[1]])


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Page]:
    monkeypatch.setattr(sequential, "TARGETS", (MNIST, FASHION, DRUG, ABSENT))
    shown = tuple(c for c in CONTENDERS if c.method in {"joint", "fsw", "er", "der++"})
    monkeypatch.setattr(sequential, "CONTENDERS", shown)

    def page(run: Callable[[Work], RunSummary | None]) -> Page:
        exhibit = Sequential(settings="shipped")
        return exhibit.page(results_of(exhibit, run))

    return page


def test_the_answer_counts_what_differs_and_not_drug(page_of: Callable[..., Page]) -> None:
    page = page_of(make)
    replay, random, der = page.findings
    assert "smaller on 2 of 2 panels, larger on 0, not significantly different on 0" in replay
    assert "smaller on 0 of 2 panels, larger on 0, not significantly different on 2" in random
    assert "smaller on 0 of 2 panels, larger on 2, not significantly different on 0" in der
    assert page.answer == (f"Shown for 3 of 4 pairs of dataset and measure. {replay}")


def test_a_section_shows_each_method_at_the_end_and_on_average(
    page_of: Callable[..., Page], tmp_path: Path
) -> None:
    _, mnist, _, drug, absent = page_of(make).sections
    assert mnist.table is not None
    assert mnist.table.header[1:3] == (
        "accuracy, after the last task",
        "eer_task, after the last task",
    )
    by_name = {row[0]: row[1:] for row in mnist.table.rows}
    assert by_name["FSW"] == (".978 ± .002", ".022 ± .002", ".978 ± .002", ".022 ± .002")
    assert "DER++ with FSW by group" in by_name
    assert absent.text == "Not run: files absent (all)."
    assert drug.picture is not None
    drug.picture.draw(tmp_path / "drug.png")
    assert (tmp_path / "drug.png").stat().st_size > 5000


def test_what_failed_is_named_and_the_rest_is_shown(page_of: Callable[..., Page]) -> None:
    page = page_of(lambda work: None if work.config.label == "fsw" else make(work))
    assert page.sections[1].text.startswith("5 of 5 seeds diverged: FSW; FSW by group.")
    assert page.findings == ()
    assert page.sections[1].table is not None


def test_with_nothing_run_the_commands_are_still_there(page_of: Callable[..., Page]) -> None:
    page = page_of(lambda _: None)
    assert page.answer == "Not run yet."
    assert all(section.commands for section in page.sections[1:])


def test_runs_are_those_of_the_tables() -> None:
    exhibit = Sequential(settings="shipped")
    labels = {work.config.label for work in exhibit.works({})}
    assert {FSW.method, REPLAY.method, "icarl", "er+random", "er+balanced"} <= labels
    assert {work.seed for work in exhibit.works({})} == {0, 1, 2, 3, 4}
    assert len(Sequential().requests()) == len([c for c in CONTENDERS if not c.settings_of]) * 8
