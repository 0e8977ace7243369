from __future__ import annotations

from dataclasses import replace

import pytest

from faircil_lab.bench.sweeps import PARTS, Processes, TimeParts
from faircil_lab.bench.sweeps_page import summarise_sweeps
from sweep_costs import ONE, TWO, cost


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
