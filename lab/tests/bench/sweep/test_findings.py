from __future__ import annotations

import json
from dataclasses import replace

import pytest

from faircil_lab.bench.sweeps import PARTS, Processes, TimeParts
from faircil_lab.bench.sweeps_page import SWEEP_TIMES, sentences, summarise_sweeps, time_per_run
from sweep_costs import ONE, TWO, cost, sweep_results

RESULTS = sweep_results()


def test_document_and_rows_hold_everything() -> None:
    findings = SWEEP_TIMES.findings(RESULTS)
    document = json.loads(json.dumps(findings.document))
    assert document["complete"] is True
    assert len(document["runs"]) == 10
    assert len(document["findings"]) == 4
    one, two = document["summary"]
    assert (one["name"], one["speedup"]) == ("1 process on the CPU", 1.0)
    assert two["shares"]["train"] == pytest.approx(0.5)
    assert document["sweeps"][1]["parts"]["train"] == pytest.approx(0.5 * 2 * 15)
    assert len(findings.rows) == 2 * (3 + 8)
    row = findings.rows[3]
    assert (row["case"], row["repeat"], row["quantity"]) == ("1 process on the CPU", 1, "start")
    assert row["value"] == pytest.approx(4.0)
    assert set(findings.figures) == {"time"}
    assert len(findings.tables) == 2


def test_page_has_all_parts() -> None:
    text = SWEEP_TIMES.page(RESULTS, {"time": "t.svg"})
    for words in (
        "faircil bench sweep\n```",
        "The same 10 runs, on validation data",
        "\n- With 2 processes on the CPU: 10 runs in 15.0 s,",
        "![where the time of a process is spent, per run](t.svg)",
        "| processes | runs | time | runs per second | against the first | cores per process |",
        "| 1 process on the CPU | 10 | 20.0 s | 0.500 | 1.00 | 1.00 |",
        "| 2 processes on the CPU | 10 | 15.0 s | 0.667 | 1.33 | 1.00 |",
        "| processes | start | load data | weights | train | evaluate | write | all else | idle at",
        "| 2 processes on the CPU | 20.0 % | 10.0 % | 10.0 % | 50.0 % | 2.0 % | 1.0 % | 3.0 % | 4.",
    ):
        assert words in text


def test_page_of_a_part() -> None:
    only = sweep_results(cost(ONE, 20.0), notes=("Others were busy",), complete=False)
    text = SWEEP_TIMES.page(only, {"time": "t.svg"})
    assert "\nOthers were busy.\n" in text
    assert "fastest" not in text
    assert text.endswith("The benchmark was interrupted here.\n")


def test_sentences_say_what_the_numbers_say() -> None:
    one, two, itself, fastest = sentences(summarise_sweeps(RESULTS.costs))
    assert one == (
        "With 1 process on the CPU: 10 runs in 20.0 s, 0.500 runs per second. 62.0 % of the time "
        "is the runs themselves, 20.0 % start, 10.0 % load data; with nothing but the runs it "
        "would be 1.61 times as fast."
    )
    assert "0.667 runs per second, 1.33 times as many as with 1 process on the CPU. 62.0 %" in two
    assert itself == (
        "With 2 processes on the CPU a run itself (weights, training, evaluation) takes 1.50 times "
        "as long as with 1 process on the CPU."
    )
    assert fastest == "The fastest: 2 processes on the CPU."


def test_sentences_name_the_largest_parts_and_the_fastest() -> None:
    usual, slow = cost(ONE, 20.0), cost(TWO, 40.0)
    idle = replace(slow, parts=TimeParts(1, 0, 0, 60, 0, 0, 4, 15))
    *_, two, itself, fastest = sentences(summarise_sweeps([usual, idle]))
    assert "75.0 % of the time is the runs themselves, 18.8 % idle at the end, 5.0 % all" in two
    assert "takes 4.84 times as long" in itself
    assert fastest == "The fastest: 1 process on the CPU."


def test_disturbed_cases_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    gpu, many = Processes(0, 2), Processes(4)
    rows = summarise_sweeps([cost(case, 9.0, cores=0.6) for case in (ONE, TWO, gpu, many)])
    warnings = [text for text in sentences(rows) if "other programs were running" in text]
    assert [text.split(" a process")[0] for text in warnings] == [
        "**With 1 process on the CPU",
        "**With 2 processes on the CPU",
    ]
    assert "a process had 0.60 of a core" in warnings[0]


def test_bars_add_up_to_the_time_per_run() -> None:
    rows = summarise_sweeps([*RESULTS.costs, cost(Processes(2, 14), 3.0)])
    (axes,) = time_per_run(rows).axes
    ends = [0.0] * 3
    for bars in axes.containers:
        for row, bar in enumerate(bars):
            assert bar.get_x() == pytest.approx(ends[row])
            ends[row] += bar.get_width()
    assert ends == pytest.approx([2.0, 3.0, 4.8])
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels[2] == "2 processes on the CPU\nand 14 processes on the GPU"
    assert [text.get_text().strip() for text in axes.texts] == [
        "0.500 runs per second", "0.667 runs per second", "3.33 runs per second",
    ]  # fmt: skip


def test_medians_rates_and_speedup() -> None:
    one, two = summarise_sweeps(
        [
            *(cost(ONE, wall, repeat=r) for r, wall in enumerate((20.0, 90.0, 10.0), start=1)),
            *(cost(TWO, wall, repeat=r) for r, wall in enumerate((8.0, 9.0, 4.0), start=1)),
        ]
    )
    assert (one.repeats, one.runs, one.processes, one.wall) == (3, 10, 1, 20.0)
    assert (one.rate, one.speedup) == (0.5, 1.0)
    assert (two.case, two.processes, two.rate, two.speedup) == (TWO, 2, 1.25, 2.5)


def test_shares_are_means_that_add_up_to_one() -> None:
    usual = cost(ONE, 10.0)
    parts = TimeParts(0, 0, 0, 15, 0, 0, 0, 15)
    other = replace(usual, repeat=2, wall=30.0, parts=parts, cores=0.5)
    (row,) = summarise_sweeps([usual, other])
    assert row.shares.total == pytest.approx(1)
    assert (row.shares.train, row.shares.start) == pytest.approx((0.5, 0.1))
    assert row.cores == 0.75
    assert row.shares.idle == pytest.approx((0.04 + 0.5) / 2)


def test_time_per_run_is_the_same_where_processes_do_not_hinder_each_other() -> None:
    one, two, four = summarise_sweeps([cost(ONE, 20.0), cost(TWO, 10.0), cost(Processes(4), 20.0)])
    for part in PARTS:
        assert getattr(two.per_run, part) == pytest.approx(getattr(one.per_run, part))
        assert getattr(four.per_run, part) == pytest.approx(4 * getattr(one.per_run, part))
    assert one.per_run.total == pytest.approx(2.0)
