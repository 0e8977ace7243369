from __future__ import annotations

import pytest

from bench_results import cost
from faircil_lab.bench.whole_runs_page import summarise_runs


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
