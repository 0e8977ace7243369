from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench_results import cost, run_results
from faircil_lab.bench.whole_runs_page import (
    RUN_TIMES,
    epoch_table,
    growth,
    run_tables,
    scale_tables,
    summarise_runs,
    time_split,
)

RESULTS = run_results()


def test_document_and_rows_hold_everything() -> None:
    findings = RUN_TIMES.findings(RESULTS)
    document = json.loads(json.dumps(findings.document))
    assert [run["method"] for run in document["runs"]] == ["er", "fsw"]
    assert document["summary"][1]["ratio"] == 0.5
    assert document["epochs"][0]["statistics"]["all layers"] == 0.12
    assert document["growth"][1]["workload"]["samples"] == 4000
    assert document["complete"] is True
    assert len(findings.rows) == 2 * 7 + 2 * 3 + 2 * 2
    assert {
        "part": "growth", "name": "samples", "case": "generated", "number": 4000,
        "quantity": "statistics", "value": 0.004,
    } in findings.rows  # fmt: skip
    assert set(findings.figures) == {"split", "growth"}
    assert len(findings.tables) == 3


def test_page_has_all_parts() -> None:
    text = RUN_TIMES.page(RESULTS, {"split": "s.svg", "growth": "g.svg"})
    for words in (
        "faircil bench run\n```",
        "![where the time goes](s.svg)",
        "### made\n",
        "| fsw | 1.00 | 0.50 | 3.00 | 0.50 | 5.00 | 0.50 | 10.0 % | 0.50 GiB |",
        "| made | 2 to 3 | 200 | 8 to 12 | 10.0 ms | 13.0 ms | 1.30 | 130 ms | 10.00 |",
        "![growth](g.svg)",
        "10,000 samples of two new classes",
        "### Growth with samples\n",
        "| 4,000 | 4.00 ms | 10.0 ms | 14.0 ms |",
        "| exponent | 1.00 | 0.00 |",
    ):
        assert words in text


def test_page_has_only_what_was_measured() -> None:
    only = replace(
        RESULTS, outcomes=RESULTS.outcomes[:1], notes=("Others were busy",), complete=False
    )
    findings = RUN_TIMES.findings(only)
    assert set(findings.figures) == {"split"}
    text = findings.page({"split": "s.svg"})
    assert "Statistics" not in text
    assert "generated" not in text
    assert "\nOthers were busy.\n" in text
    assert text.endswith("The benchmark was interrupted here.\n")


def test_tables_leave_open_what_is_unknown() -> None:
    unknown = replace(cost("fsw", 5.0), memory=None)
    ((cells,),) = [table.cells for table in run_tables([unknown])]
    assert [cell.text for cell in cells][-3:] == ["–", "10.0 %", "–"]
    (table,) = scale_tables(RESULTS.points[:1])
    assert len(table.cells) == 1
    assert epoch_table(RESULTS.epochs[:1]).cells[0][1].text == "2"


def test_bars_add_up_to_the_parts_of_the_time() -> None:
    (axes,) = time_split(summarise_runs(RESULTS.runs)).axes
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert max(ends) == pytest.approx(10.0)
    assert len(ends) == 8


def test_growth_has_a_panel_per_factor() -> None:
    (axes,) = growth(RESULTS.points).axes
    statistics, lp = axes.get_lines()
    assert list(statistics.get_ydata()) == [0.001, 0.004]
    assert list(lp.get_xdata()) == [1000, 4000]
    assert axes.get_xlabel() == "samples of the task"


def test_medians_ratio_and_share() -> None:
    runs = [
        *(cost("er", total, repeat=r) for r, total in enumerate((10.0, 30.0, 20.0), start=1)),
        *(cost("fsw", total, repeat=r) for r, total in enumerate((5.0, 5.0, 90.0), start=1)),
    ]
    er, fsw = summarise_runs(runs)
    assert (er.method, er.repeats, er.seconds.total, er.ratio) == ("er", 3, 20.0, 1.0)
    assert (fsw.seconds.total, fsw.ratio) == (5.0, 0.25)
    assert fsw.lp_share == pytest.approx(0.1)
    assert fsw.memory == 0.5


def test_ratio_is_against_plain_replay_on_the_same_dataset() -> None:
    rows = summarise_runs([cost("er", 10.0), cost("fsw", 5.0, dataset="other")])
    assert [row.ratio for row in rows] == [1.0, None]
