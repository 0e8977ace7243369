from __future__ import annotations

from dataclasses import replace

import pytest

from faircil.errors import FaircilError, UsageError
from faircil.tuning.request import NotTuned, TuneRequest
from faircil.tuning.tune import tune, tune_all, tune_each

REQUEST = TuneRequest("toy", "er", "eer", tried=("lr=0.001,0.01,0.1", "tau=1,2"))
DIVERGED = "training diverged in task 1, epoch 1: lower the learning rate"


def test_the_best_of_all_is_chosen(pretend):
    def metrics(config, _):
        lr, tau = config.settings.learner.lr, config.settings.learner.tau
        return {"accuracy": 0.9 - abs(lr - 0.01), "eer": 0.1 * tau}

    finish = pretend(metrics)
    tuned = tune(REQUEST, finish)
    assert tuned.best.overrides == ("lr=0.01", "tau=1")
    assert tuned.best.score == pytest.approx(0.8)
    assert len(tuned.trials) == 6
    assert all(work.config.evaluate_on == "validation" for work in finish.rounds[0])


def test_equals_go_to_the_first(pretend):
    assert tune(REQUEST, pretend(lambda *_: {})).best.overrides == ("lr=0.001", "tau=1")


def test_means_over_seeds(pretend):
    # tau=2 is best on the first seed alone, tau=1 on average.
    table = {(1, 10): 0.5, (1, 11): 0.5, (2, 10): 0.75, (2, 11): 0.0}
    finish = pretend(lambda c, seed: {"accuracy": table[c.settings.learner.tau, seed], "eer": 0.0})
    request = replace(REQUEST, tried=("tau=1,2",), seeds=(10, 11))
    tuned = tune(request, finish)
    assert tuned.best.overrides == ("tau=1",)
    assert [trial.score for trial in tuned.trials] == [0.5, 0.375]
    assert [run.seed for run in tuned.best.runs] == [10, 11]


def test_rounds_of_all_requests_are_side_by_side(pretend):
    finish = pretend(lambda *_: {})
    sequential = replace(REQUEST, strategy="sequential")
    found = tune_all([REQUEST, sequential, replace(sequential, method="fsw"), REQUEST], finish)
    # 6 at once and 3 + 3 learning rates; then 2 + 2 taus: the shipped one is not among them.
    assert [len(works) for works in finish.rounds] == [12, 4]
    assert found[0] is not found[1]
    assert found[0] == found[3]
    assert [len(tuned.trials) for tuned in found] == [6, 5, 5, 6]


def test_a_diverged_trial_has_lost(pretend):
    finish = pretend(lambda c, _: DIVERGED if c.settings.learner.lr == 0.001 else {})
    tuned = tune(REQUEST, finish)
    assert [trial.score is None for trial in tuned.trials] == [True] * 2 + [False] * 4
    assert tuned.trials[0].problem == DIVERGED
    assert tuned.best is tuned.trials[2]


def test_real_divergence_is_known_as_such(finish_here):
    request = replace(REQUEST, tried=("lr=0.01,1e30",), fixed=("epochs=1",))
    assert tune(request, finish_here).best.overrides == ("lr=0.01",)


def test_all_diverged(pretend):
    with pytest.raises(FaircilError, match="er on toy: all 6 trials diverged; try other values"):
        tune(REQUEST, pretend(lambda *_: DIVERGED))


def test_a_trial_that_is_missing_might_have_won(pretend):
    finish = pretend(lambda c, _: "file x is missing" if c.settings.learner.lr == 0.1 else {})
    sequential = replace(REQUEST, strategy="sequential")
    broken, stopped, fine = tune_each(
        [REQUEST, sequential, replace(REQUEST, fixed=("lr=1",), tried=("tau=1,2",))], finish
    )
    assert isinstance(broken, NotTuned)
    assert "since 2 of 6 trials are missing: file x is missing" in broken.problem
    assert "1 of 3 trials are missing" in stopped.problem
    assert not isinstance(fine, NotTuned)


def test_a_metric_that_cannot_be_told(pretend):
    with pytest.raises(FaircilError, match="eer is undefined on this data"):
        tune(REQUEST, pretend(lambda *_: {"eer": None}))


def test_an_impossible_constraint_says_how_close_it_came(pretend):
    def metrics(config, _):
        return {"accuracy": 0.5, "eer": 0.25 if config.settings.learner.tau == 2 else 0.5}

    request = replace(REQUEST, objective="accuracy with eer <= 0.05", tried=("tau=1,2",))
    with pytest.raises(FaircilError) as caught:
        tune(request, pretend(metrics))
    assert "none of 2 configurations, of 2 in all, meets eer <= 0.05" in str(caught.value)
    assert "eer .250, .200 too much, at accuracy .500 (tau=2). Allow that" in str(caught.value)
    allowed = replace(request, objective="accuracy with eer <= 0.25")
    assert tune(allowed, pretend(metrics)).best.overrides == ("tau=2",)


def test_all_problems_at_once(pretend):
    requests = [REQUEST, replace(REQUEST, method="joint", tried=())]
    with pytest.raises(FaircilError) as caught:
        tune_all(requests, pretend(lambda *_: DIVERGED))
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "- er on toy",
        "- joint on toy",
    ]


def test_mistakes_come_before_any_run(pretend):
    finish = pretend(lambda *_: {})
    wrong = [replace(REQUEST, strategy="grit"), replace(REQUEST, method="err")]
    with pytest.raises(UsageError) as caught:
        tune_all([REQUEST, *wrong], finish)
    assert "unknown strategy 'grit': did you mean 'grid'?" in str(caught.value)
    assert "unknown method 'err'" in str(caught.value)
    assert finish.rounds == []


TARGET = TuneRequest("toy-groups", "moments", "eo", target="eo_gap<=0.05")


def traded(config, _):
    """A larger lam is more accurate and less fair."""
    lam = config.settings.weights.lam
    return {"accuracy": min(0.5 + 0.1 * lam, 0.8), "eo_gap": 0.02 * lam}


def test_a_target_is_met_by_the_largest_lam_of_the_most_accurate(pretend):
    finish = pretend(traded)
    tuned = tune(TARGET, finish)
    assert tuned.best.overrides == ("lam=2",)
    assert tuned.note == ""
    assert {name for trial in tuned.trials for name in trial.overrides} >= {"lam=10", "lam=0.1"}
    assert all(work.config.evaluate_on == "validation" for work in finish.rounds[0])
    equal = tune(replace(TARGET, target="eo_gap<=0.1"), pretend(traded))
    assert equal.best.overrides == ("lam=5",)  # as accurate as lam=3


def test_a_target_out_of_reach_is_approached_and_said(pretend):
    tuned = tune(replace(TARGET, target="eo_gap<=0.001"), pretend(traded))
    assert tuned.best.overrides == ("lam=0.1",)
    assert "the target eo_gap <= 0.001 is not reached on held-out training data" in tuned.note
    assert "the closest has eo_gap .002, .001 too much, at accuracy .510 (lam=0.1)" in tuned.note


def test_a_target_from_below(pretend):
    request = replace(TARGET, measure="worst", target="worst_group>=0.6")
    tuned = tune(request, pretend(lambda c, _: {"worst_group": 0.7 - 0.1 * c.settings.weights.lam}))
    assert tuned.best.overrides == ("lam=1",)


def test_a_target_needs_a_trade_off(pretend):
    with pytest.raises(UsageError) as caught:
        tune(replace(TARGET, method="er", objective="accuracy - eo"), pretend(traded))
    assert "a target chooses `lam`, the trade-off of fsw and moments, which er" in str(caught.value)
    assert "`target` and `objective` are given" in str(caught.value)
    with pytest.raises(UsageError, match="a target chooses `lam`, and it is given; leave out one"):
        tune(replace(TARGET, fixed=("lam=1",)), pretend(traded))
    tried = replace(TARGET, method="er", tried=("tau=1,2",))
    assert tune(tried, pretend(lambda *_: {"eo_gap": 0.0})).best.overrides == ("tau=1",)


def test_a_target_of_data_without_an_attribute(pretend):
    request = replace(TARGET, dataset="toy", measure="eer")
    with pytest.raises(UsageError, match=r"target 'eo_gap<=0\.05' compares the values of a sens"):
        tune(request, pretend(traded))
