from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil_lab.paper import biographies
from faircil_lab.paper.biographies import (
    BIOGRAPHIES,
    ON_WORDS,
    BiographiesTable,
    ReferenceValues,
    TextReference,
)
from faircil_lab.paper.contenders import CONTENDERS
from faircil_lab.paper.exhibit import Grid, Page, Results
from faircil_lab.paper.exhibits import EXHIBITS
from faircil_lab.paper.render import as_markdown
from faircil_lab.paper.store import NOT_MADE, Measured
from figure_runs import results_of, run_of, tuned_with
from tiny_bios import in_place_of_the_sample

GAPS = {"fsw": 0.05, "er": 0.09, "er+random": 0.06, "er+balanced": 0.06}


def make(work: Work) -> RunSummary:
    noise = 0.001 * ((work.seed * (3 + len(work.config.label))) % 5)
    gap = GAPS.get(work.config.label, 0.1) + noise
    return run_of(work, accuracy=0.9 - gap, eo_gap=gap, dp=0.02)


def page_of(  # type: ignore[no-untyped-def]
    exhibit: BiographiesTable = BIOGRAPHIES, run=make
) -> Page:
    tuned = {request: tuned_with(request) for request in exhibit.requests()}
    return exhibit.page(results_of(exhibit, run, tuned))


def table(page: Page, heading: str) -> Grid:
    found = next(part.table for part in page.sections if part.heading == heading)
    assert found is not None
    return found


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    with in_place_of_the_sample(tmp_path):
        yield


@pytest.fixture
def _references(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have word counts measured, and no encoder."""

    def found(measurement: TextReference, _: Results) -> Measured[ReferenceValues]:
        if measurement.kind == ON_WORDS:
            values = ReferenceValues(0.86 + 0.01 * (measurement.seed % 2), 0.8, 0.07, 0.87, 0.06)
            return Measured(measurement, values)
        return Measured(measurement, None, "not run: encoder 'minilm' is NOT installed")

    monkeypatch.setattr(biographies, "look_up", found)


@pytest.mark.usefixtures("_files", "_references")
def test_all_methods_stand_in_one_table_without_columns_for_the_paper() -> None:
    page = page_of()
    grid = table(page, "BiasBios sample (EO)")
    assert grid.header == ("method", "accuracy", "eo_gap", "dp")
    assert table(page, "Times on BiasBios sample (EO)").header == ("method", "seconds total")
    assert [row[0] for row in grid.rows] == [contender.name for contender in CONTENDERS]
    rows = {row[0]: row[1:] for row in grid.rows}
    assert rows["FSW"] == (".848 ± .002 °", ".052 ± .002 °", ".020 ± .000 °")
    assert page.verdicts == ()
    text = as_markdown("biographies", BIOGRAPHIES, page)
    assert "verdict" not in text
    assert "Why published rows may differ" not in text
    assert "`DER++` differs from the original in two points" in text
    assert "`same`" not in text
    assert "BiasBios sample is split by the seed" in text
    assert "## Machines" in text


@pytest.mark.usefixtures("_files", "_references")
def test_pairs_have_intervals_and_findings() -> None:
    page = page_of()
    claims = {
        (row[0], row[2]): row for row in table(page, "Which differences are significant").rows
    }
    assert len(claims) == 5 * 2
    name = "FSW − replay", "eo_gap"
    assert claims[name][3] == "−.038"
    assert "…" in claims[name][4]
    assert claims[name][-1] == "better"
    assert claims["DER++ with FSW by group − DER++", "eo_gap"][-1] == "not significantly different"
    assert page.findings[0].startswith("**FSW against replay**: disparity is better on")
    assert "Of 10 comparisons" in page.answer
    assert "FSW is better than replay in eo_gap" in page.answer
    same = page_of(run=lambda work: replace(make(work), metrics=run_of(work).metrics))
    assert same.answer.endswith("DER++, 0 are significant.")


@pytest.mark.usefixtures("_files", "_references")
def test_references_stand_beside_joint_training_or_say_why_not() -> None:
    page = page_of()
    rows = {row[0]: row[1:] for row in table(page, "References").rows}
    words, embeddings, joint = rows.values()
    assert words == (".864 ± .005", ".800 ± .000", ".070 ± .000", ".870 ± .000", ".060 ± .000")
    assert embeddings == ("not run", "–", "–", "–", "–")
    assert joint == (".798 ± .002", ".798 ± .002", ".102 ± .002", "–", "–")
    section = next(part for part in page.sections if part.heading == "References")
    assert "Not run: encoder 'minilm' is NOT installed." in section.text
    assert "TF-IDF + logistic regression .864 ± .005, joint training .798 ± .002." in page.answer


def test_without_files_nothing_is_measured_and_lines_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    page = BIOGRAPHIES.page(Results({}, {}, tmp_path))
    assert page.answer == "Not run yet."
    cells = {row[1] for row in table(page, "BiasBios sample (EO)").rows}
    assert cells == {"not run: files absent"}
    assert {row[1] for row in table(page, "References").rows} == {"not run"}
    section = next(part for part in page.sections if part.heading == "References")
    assert "Not run: " in section.text
    assert "biasbios" in section.text


def test_where_nothing_is_to_be_run_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    page = BIOGRAPHIES.page(Results({}, {}, tmp_path, run_missing=False))
    section = next(part for part in page.sections if part.heading == "References")
    assert NOT_MADE.removeprefix("not run: ") in section.text


def test_it_is_an_exhibit_whose_seeds_can_be_changed() -> None:
    assert EXHIBITS["biographies"] is BIOGRAPHIES
    few = replace(BIOGRAPHIES, seeds=(0,), settings="shipped")
    assert len(few.works({})) == len(CONTENDERS)
    assert "no counterpart" in few.paper
