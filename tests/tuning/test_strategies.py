from __future__ import annotations

import sys
from itertools import product

import pytest

from faircil.errors import FaircilError, UsageError
from faircil.tuning.request import Trial, TuneRequest
from faircil.tuning.space import problem_of
from faircil.tuning.tune import STRATEGIES
from run_summaries import make_run

TRIED = ("lr=0.001,0.01,0.1", "tau=1,2,5,10", "lam=0.1,0.5,1")


def search(name, value, **changes):
    """Run a strategy to its end; ``value`` gives a point's accuracy, None where it diverges."""
    request = TuneRequest("mnist", "fsw", "eer", **({"tried": TRIED} | changes))
    strategy = STRATEGIES[name](problem_of(request))
    rounds, trials = [], []
    while proposed := strategy.propose(trials):
        rounds.append(proposed)
        for point in proposed:
            accuracy = value(dict(text.split("=") for text in point))
            run = make_run("fsw", accuracy=accuracy, eer=0.0, eo=None)
            runs = () if accuracy is None else (run,)
            trials.append(Trial(point, runs, accuracy))
    return rounds


def smooth(point):
    return -abs(float(point["lr"]) - 0.01) - abs(float(point["tau"]) - 2) - float(point["lam"])


def test_sequential_is_one_setting_after_another():
    # The slow, obvious way: best learning rate at the shipped tau and lam, and so on.
    tau, lam = "10", "1"
    first = [(f"lr={lr}", f"tau={tau}", f"lam={lam}") for lr in ("0.001", "0.01", "0.1")]
    second = [("lr=0.01", f"tau={tau}", f"lam={lam}") for tau in ("1", "2", "5")]
    third = [("lr=0.01", "tau=2", f"lam={lam}") for lam in ("0.1", "0.5")]
    assert search("sequential", smooth) == [first, second, third]


def test_sequential_stops_at_the_budget():
    rounds = search("sequential", smooth, budget=5)
    assert [len(points) for points in rounds] == [3, 2]


def test_sequential_goes_on_from_the_shipped_settings_if_all_diverge():
    rounds = search("sequential", lambda point: None)
    assert ("lr=0.001", "tau=1", "lam=1") in rounds[1]


def test_random_draws_without_replacement_and_by_seed():
    (drawn,) = search("random", smooth)
    values = {text.split("=")[0]: text.split("=")[1].split(",") for text in TRIED}
    each = [[f"{name}={value}" for value in some] for name, some in values.items()]
    assert len(drawn) == len(set(drawn)) == 12
    assert set(drawn) < set(product(*each))
    assert search("random", smooth) == [drawn]
    (other,) = search("random", smooth, seeds=(11,))
    assert set(other) != set(drawn)


def test_random_with_more_budget_begins_with_the_same():
    (few,), (many,) = search("random", smooth, budget=5), search("random", smooth, budget=35)
    assert many[:5] == few
    assert len(set(many)) == 35


def test_random_prefers_nothing():
    counts = dict.fromkeys(("lr=0.001", "lr=0.01", "lr=0.1"), 0)
    for seed in range(100):
        (drawn,) = search("random", smooth, seeds=(seed,), budget=6)
        for point in drawn:
            counts[point[0]] += 1
    # 600 draws of 3 values: 200 each, a standard deviation of about 10.
    assert all(150 < count < 250 for count in counts.values())


def test_random_takes_the_whole_of_a_small_grid():
    (drawn,) = search("random", smooth, tried=("lr=1,2", "tau=1,2", "lam=1"), budget=4)
    assert len(set(drawn)) == 4


def test_methods_with_the_same_settings_try_the_same():
    points = [
        STRATEGIES["random"](problem_of(TuneRequest("mnist", "er", "eer", weighting))).propose([])
        for weighting in ("fsw", "random", "balanced")
    ]
    assert points[0] == points[1] == points[2]


def test_grid_is_all_or_an_error():
    (points,) = search("grid", smooth, budget=36)
    assert len(set(points)) == 36
    with pytest.raises(UsageError, match=r"has 36 configurations, more than the budget of 12.*36"):
        search("grid", smooth)


def test_optuna_tries_nothing_twice_and_uses_its_budget():
    pytest.importorskip("optuna")
    rounds = search("optuna", smooth)
    assert [len(points) for points in rounds] == [4, 4, 4]
    assert len({point for points in rounds for point in points}) == 12
    assert rounds == search("optuna", smooth)


def test_optuna_learns():
    pytest.importorskip("optuna")
    first, second = 0.0, 0.0
    for seed in range(6):
        values = [
            [smooth(dict(text.split("=") for text in point)) for point in points]
            for points in search("optuna", smooth, seeds=(seed,))
        ]
        first, second = first + sum(values[0]), second + sum(values[1])
    assert second > first + 6  # of 24 points each: better by a quarter of a step of tau and more


def test_optuna_goes_on_after_divergence():
    pytest.importorskip("optuna")
    rounds = search("optuna", lambda point: None if point["lr"] == "0.1" else smooth(point))
    assert sum(map(len, rounds)) == 12


def test_optuna_takes_nearly_all_of_a_grid():
    pytest.importorskip("optuna")
    tried = ("lr=0.001,0.01,0.1", "tau=1,2", "lam=0.1")
    rounds = search("optuna", smooth, tried=tried, budget=5)
    assert len({point for points in rounds for point in points}) == 5
    assert [len(points) for points in search("optuna", smooth, tried=tried, budget=6)] == [6]


def test_without_optuna(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(FaircilError, match="pip install optuna"):
        search("optuna", smooth)
