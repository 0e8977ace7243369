from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil_lab.suite.leaderboard import LEADERBOARD, BoardResults, front, line
from faircil_lab.suite.ranking import PLAIN_ROW
from suite_rows import STREAM, SUITE, made_row

ENVIRONMENT = {
    "packages": {"numpy": "2", "highspy": "1", "torch": "2"},
    "processor": "made",
    "gpu": None,
    "python": "3.12",
}


@pytest.fixture(scope="module")
def results() -> BoardResults:
    rows = (
        made_row(PLAIN_ROW, 0.8, 0.2, 0.4),
        made_row("fair", 0.82, 0.05, 0.6),
        made_row("levels", 0.7, 0.04, 0.3),
        made_row("sent", 0.75, 0.3, 0.2, origin="predictions"),
        made_row("bound", 0.4, 0.01, 0.0, reference=True),
        made_row("some", 0.8, 0.2, 0.4, seeds=(0, 1), missing={STREAM.dataset: "seed 2: diverged"}),
        made_row("fair", 0.9, 0.05, 0.7),
    )
    return BoardResults(rows, SUITE, command="faircil bench fair-cil", environment=ENVIRONMENT)


def test_the_last_row_of_a_name_counts_and_the_weakest_side_decides(results: BoardResults) -> None:
    assert [place.name for place in results.places][:2] == ["fair", PLAIN_ROW]
    assert len(results.rows) == 6
    assert results.places[0].means == {"final_accuracy": 1, "disparity": 1, "worst_group": 1}


def test_the_page_says_how_to_read_and_how_to_join(results: BoardResults) -> None:
    page = LEADERBOARD.findings(results).page({"front": "front.svg"})
    for title in (
        "## All streams",
        "## Made up: toy-groups",
        "## Scores",
        "## Add a row",
        "## Rules",
    ):
        assert title in page
    assert "Of 4 ranked rows, `fair` comes first" in page
    lines = {text.split(" | ")[0]: text for text in page.split("\n## ")[2].splitlines()}
    assert "| levels down |" in lines["| levels"]
    assert lines["| some"].startswith("| some | – |")
    assert lines["| some"].endswith("| 2 of 5 seeds |")
    assert lines["| fair"].startswith("| fair | 1 / 1 / 1 |")
    assert "ranked on 0 of 1 streams, which takes 5 seeds" in page
    assert "reference, not ranked" in page
    assert "predictions, not run here" in page
    assert "Missing on toy-groups: seed 2: diverged." in page
    assert "By chance alone, these rows would show a disparity of .020 to .020" in page
    assert "![accuracy against disparity on each stream](front.svg)" in page


def test_a_stream_without_rows_is_named_and_has_no_table() -> None:
    extra = replace(STREAM, dataset="toy", title="other")
    suite = replace(SUITE, streams=(STREAM, extra))
    rows = (made_row(PLAIN_ROW),)
    results = BoardResults(rows, suite, command="x", environment=ENVIRONMENT)
    page = LEADERBOARD.findings(results).page({"front": "front.svg"})
    assert "No row is complete yet. Nothing is scored yet on toy." in page
    assert "## Other: toy" not in page
    assert "| 0 of 1 | ranked on 1 of 2 streams |" in page  # levelling down is known of one alone


def test_every_score_is_a_line_of_the_table(results: BoardResults) -> None:
    findings = LEADERBOARD.findings(results)
    assert len(findings.rows) == 6 * 5
    (found,) = [r for r in findings.rows if (r["row"], r["score"]) == ("levels", "disparity")]
    assert found["levels_down"]
    assert found["rank"] == 4
    assert found["low"] < found["mean"] < found["high"]


def test_a_row_that_levels_down_is_hollow(results: BoardResults, tmp_path: Path) -> None:
    (axes, *empty) = front(results).axes
    assert not any(one.axison for one in empty)
    marks = {bar.get_label(): bar.lines[0] for bar in axes.containers}
    assert marks["levels"].get_markerfacecolor() == "white"
    assert marks["fair"].get_markerfacecolor() != "white"
    assert len(marks) == 6


def test_a_line_says_what_a_row_has(results: BoardResults) -> None:
    assert line(results.rows[1]) == "fair: 1 stream, 5 seeds each"
    assert line(made_row("x", missing={"toy": "files absent"})).endswith("missing: toy")
