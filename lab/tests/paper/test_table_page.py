from __future__ import annotations

from dataclasses import replace

import pytest

from faircil_lab.paper.page import Page, Section, Verdict
from faircil_lab.paper.table_page import ComparisonTable
from figure_runs import results_of, run_of, tuned_with
from made_tables import ABSENT, ICARL, MNIST, TABLE, make, put_files


@pytest.fixture(autouse=True)
def _files(monkeypatch, tmp_path):
    put_files(tmp_path)
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))


def page_of(table: ComparisonTable = TABLE, run=make) -> Page:
    return table.page(results_of(table, run))


def section(page: Page, heading: str) -> Section:
    return next(part for part in page.sections if part.heading == heading)


def rows(page: Page, heading: str) -> dict[str, tuple[str, ...]]:
    table = section(page, heading).table
    assert table is not None
    return {row[0]: row[1:] for row in table.rows}


def test_a_line_has_the_paper_ours_the_difference_and_the_verdict():
    page = page_of()
    table = section(page, "MNIST (EER)").table
    assert table is not None
    assert table.header == (
        *("method", "accuracy: paper", "ours", "difference", "verdict"),
        *("eer_task: paper", "ours", "difference", "verdict"),
    )
    found = rows(page, "MNIST (EER)")
    assert found["FSW"][:4] == (".925 ± .004", ".925 ± .002 °", "+.000", "same")
    assert found["iCaRL"][4:] == (".048 ± .003", ".090 ± .002", "+.042", "worse")
    assert found["replay"][::2] == ("–", "–", "–", "–")


def test_verdicts_stand_for_published_values_only_and_are_kept_by_method():
    page = page_of()
    assert len(page.verdicts) == 2 * 4  # two methods, two metrics, two columns
    assert page.by_method["fsw"] == (Verdict.SAME,) * 2 + (Verdict.NOT_RUN,) * 2
    assert page.by_method["icarl"][1] is Verdict.WORSE
    assert "er" not in page.by_method


def test_what_is_not_run_keeps_the_published_value_and_says_why():
    found = rows(page_of(), "BiasBios (EO)")
    assert found["FSW"][:4] == (".808 ± .002", "not run: files absent", "–", "not run")
    failed = page_of(run=lambda work: None if work.config.label == "icarl" else make(work))
    assert rows(failed, "MNIST (EER)")["iCaRL"][1] == "not run"
    assert section(failed, "MNIST (EER)").text == "Not run: it diverged (iCaRL)."


def test_missing_seeds_are_told():
    page = page_of(run=lambda work: make(work) if work.seed < 3 else None)
    assert "(3 of 5 seeds)" in rows(page, "MNIST (EER)")["FSW"][1]


def test_only_a_proven_best_is_bold_and_bounds_take_no_part():
    better = {"fsw": 0.0, "er": 0.1, "er+random": 0.2, "icarl": 0.3}

    def run(work):
        value = better[work.config.label] + 0.001 * (work.seed * len(work.config.label) % 5)
        return run_of(work, accuracy=1 - value, eer_task=value)

    found = rows(page_of(run=run), "MNIST (EER)")
    assert found["FSW"][1].startswith("**")
    assert not any("°" in cell or "*" in cell for cell in found["replay"])
    joint = replace(TABLE.rows[1], contender=replace(ICARL, name="joint training", method="joint"))
    table = replace(TABLE, rows=(*TABLE.rows, joint))
    better["joint"] = -0.1
    assert rows(page_of(table, run), "MNIST (EER)")["FSW"][1].startswith("**")


def test_claims_are_paired_over_seeds_and_become_findings():
    page = page_of()
    found = section(page, "What is told apart").table
    assert found is not None
    readings = {(row[0], row[2]): row[-1] for row in found.rows}
    assert readings["FSW − replay", "eer_task"] == "better"
    assert readings["FSW − replay, random weights", "eer_task"] == "not told apart"
    assert page.findings[0].startswith("**FSW against replay**: disparity is better on MNIST (EER)")
    assert "disparity is not told apart on MNIST (EER)" in page.findings[1]
    assert "FSW against replay: disparity better on 1 of 1, worse on 0" in page.answer


def test_with_one_seed_nothing_is_claimed():
    page = page_of(replace(TABLE, seeds=(0,)))
    assert page.findings == ()
    assert all(part.heading != "What is told apart" for part in page.sections)


def test_a_page_without_runs_says_what_is_missing_and_how_to_get_it():
    page = page_of(run=lambda _: None)
    assert page.answer == "Not run yet: 8 published values stand without one of ours."
    assert set(page.verdicts) == {Verdict.NOT_RUN}
    assert len(section(page, "MNIST (EER)").commands) == 4


def test_metrics_beside_have_no_claim_and_many_metrics_several_tables():
    many = replace(MNIST, metrics=("accuracy", "eer_task"), besides=("dp", "eo_gap"))
    page = page_of(replace(TABLE, columns=(many,)))
    table = section(page, "MNIST (EER)").table
    assert table is not None
    assert table.header[-2:] == ("dp: ours", "eo_gap: ours")
    layers = replace(
        TABLE,
        topic="layers",
        rows=TABLE.rows[1:2],
        pairs=(),
        columns=(
            replace(MNIST, metrics=("accuracy", "eo_gap", "seconds lp"), key="biased-mnist eo"),
        ),
    )
    headings = [part.heading for part in page_of(layers).sections]
    assert headings[1:3] == ["MNIST: accuracy, eo_gap", "MNIST: seconds lp"]
    assert "Machines" in headings


def test_reasons_name_the_defects_of_published_rows():
    reasons = rows(page_of(), "Why published rows may differ")
    assert reasons["iCaRL"][0] == "yes"
    assert reasons["FSW"][0] == "no"


def test_settings_say_how_they_were_chosen():
    assert "shipped" in section(page_of(), "Settings").text
    table = replace(TABLE, settings="tuned")
    tuned = {request: tuned_with(request) for request in table.requests()}
    page = table.page(results_of(table, make, tuned))
    settings = section(page, "Settings")
    assert "at most 12 configurations (random) on seed 10" in settings.text
    assert "test data took no part" in settings.text
    assert settings.table is not None
    assert settings.table.rows[1] == (
        *("MNIST (EER)", "FSW", "`lr=0.1`", "accuracy - eer", ".500", "1"),
    )
    assert "DRUG" not in settings.text
    assert "--set lr=0.1" in section(page, "MNIST (EER)").commands[1]


def test_where_the_seed_draws_the_split_the_page_says_what_that_means():
    drug = replace(ABSENT, target=replace(ABSENT.target, dataset="drug"))
    table = replace(TABLE, settings="tuned", columns=(drug,))
    tuned = {request: tuned_with(request) for request in table.requests()}
    page = table.page(results_of(table, make, tuned))
    assert "test rows under other seeds" in section(page, "Settings").text
