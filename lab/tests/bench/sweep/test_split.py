from __future__ import annotations

import random

import pytest

from faircil.sweep.work import Spent
from faircil_lab.bench.sweeps import Arrival, TimeParts, split_time, summed


def arrival(at: float, process: int = 1, **spent: float) -> Arrival:
    """A run of 8 seconds of its own (1 + 1 weights, 4 training, 1 evaluation), unless said."""
    parts = {"device": 0.0, "load": 2.0, "run": 9.0, "write": 0.5, "total": 12.0, "cpu": 12.0}
    seconds = {"gradient": 1.0, "lp": 1.0, "train": 4.0, "eval": 1.0, "total": 8.0}
    return Arrival(at, Spent(process, **(parts | spent)), seconds)


def test_one_run() -> None:
    (parts,) = split_time([arrival(20.0, device=3.0, total=15.0)], wall=21.0).values()
    # Ready 5 seconds after the beginning; the device takes 3, the preparation of the run 1.
    assert parts == TimeParts(
        start=9, load=2, weights=2, train=4, evaluate=1, write=0.5, rest=1.5, idle=1
    )
    assert parts.runs == 7


def test_only_the_first_preparation_of_a_process_is_its_start() -> None:
    (parts,) = split_time([arrival(12.0), arrival(25.0)], wall=25.0).values()
    assert parts.start == 1
    # 0.5 + 1 unnamed within the runs, 1 preparation of the second, 1 between the two.
    assert parts == TimeParts(1, 4, 4, 8, 2, 1, rest=5, idle=0)


def test_a_process_that_ends_early_is_idle() -> None:
    late, early = split_time([arrival(14.0, 7), arrival(12.0, 3)], wall=15.0).values()
    assert (late.idle, early.idle) == (1, 3)
    assert (late.start, early.start) == (3, 1)


def test_parts_of_every_process_add_up_to_the_time_of_the_sweep() -> None:
    draw = random.Random(0)
    arrivals, wall = [], 100.0
    for process in range(5):
        at = draw.uniform(0, 10)
        for _ in range(4):
            at += draw.uniform(12, 20)
            arrivals.append(arrival(at, process))
    by_process = split_time(sorted(arrivals, key=lambda one: one.at), wall)
    assert sorted(by_process) == list(range(5))
    assert [parts.total for parts in by_process.values()] == pytest.approx([wall] * 5)
    assert summed(list(by_process.values())).total == pytest.approx(5 * wall)
    assert all(min(parts.rest, parts.idle, parts.start) >= 0 for parts in by_process.values())
