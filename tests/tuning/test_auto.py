from __future__ import annotations

from dataclasses import replace

import pytest

from faircil.errors import FaircilError, UsageError
from faircil.runs.config import Part, RunConfig, resolve
from faircil.runs.state import read_stream
from faircil.tuning import auto
from faircil.tuning.auto import (
    CANDIDATES,
    Candidate,
    as_document,
    check,
    choose,
    partly_used,
    settings_for,
)

SCORES = {"moments": 0.9, "der++": 0.8, "gdumb": 0.7}


def make(candidate: Candidate, part: Part) -> RunConfig:
    return resolve(
        dataset="toy-groups",
        method=candidate.method,
        weighting=candidate.weighting,
        overrides=candidate.overrides,
        evaluate_on=part,
    )


def scores_of(config: RunConfig, _: int) -> dict[str, float]:
    better = config.settings.flat().get("features") == "patches"
    return {"accuracy": SCORES[config.method] + 0.05 * better, "eo": 0.1}


@pytest.fixture(autouse=True)
def measurable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "chance_of", lambda _: 0.001)


@pytest.mark.parametrize("best", SCORES)
def test_the_best_score_on_held_out_rows_is_chosen(pretend, monkeypatch, best: str) -> None:
    monkeypatch.setitem(SCORES, best, 0.95)
    finish = pretend(scores_of)
    choice = choose(make, finish)
    assert choice.config.method == best
    assert choice.config.evaluate_on == "test"
    works = finish.rounds[0]
    assert all(work.config.evaluate_on == "validation" for work in works)
    # The data is small, so rows are held out five times.
    assert {work.seed for work in works} == set(range(10, 15))
    rows = sum(len(task.test) for task in read_stream(works[0].config, 10).tasks)
    assert choice.rows == 5 * rows
    assert f"on {5 * rows:,} held-out training rows" in choice.reason
    assert "(.850)" in choice.reason
    document = as_document(choice)
    assert document["chosen"] == choice.chosen.name
    assert [one["eo"] for one in document["tried"]] == pytest.approx([0.1] * 3)


def test_patches_are_for_images(pretend, monkeypatch) -> None:
    assert "patches" not in choose(make, pretend(scores_of)).chosen.name

    def load(config: RunConfig, seed: int):
        return replace(read_stream(config, seed), image=(1, 1, 2))

    monkeypatch.setattr(auto, "read_stream", load)
    choice = choose(make, pretend(scores_of))
    assert choice.chosen.name == "moments of patches"
    assert len(choice.tried) == len(CANDIDATES)


def test_without_measurable_unfairness_there_are_no_weights(pretend, monkeypatch) -> None:
    monkeypatch.setattr(auto, "chance_of", lambda _: 0.3)
    choice = choose(make, pretend(scores_of))
    assert choice.config.settings.flat()["group_weights"] == "group"
    assert "no measurable unfairness to correct here" in choice.reason
    assert "p = .300" in choice.reason
    # A part of the rows cannot tell that of all of them.
    trials = auto.trials_of(make)
    part = auto.decide(make, trials, pretend(scores_of)(trials.works), every_row=False)
    assert part.config.settings.flat()["group_weights"] == "fair"


def test_kept_rows_have_to_pay_where_that_is_asked_for(pretend, monkeypatch) -> None:
    trials = auto.trials_of(make)
    rows = trials.rows * len(trials.seeds)

    def chosen(lead: float, pays: bool = True) -> str:
        monkeypatch.setitem(SCORES, "der++", SCORES["moments"] + lead)
        outcomes = pretend(scores_of)(trials.works)
        choice = auto.decide(make, trials, outcomes, kept_rows_pay=pays)
        assert ("within chance of it and stores no rows" in choice.reason) == (
            choice.config.method == "moments"
        )
        assert choice.best.candidate.method == choice.config.method
        return choice.config.method

    error = (0.9 * 0.1 / rows) ** 0.5
    assert chosen(0.5 * error) == "moments"
    assert chosen(2 * error) == "der++"
    assert chosen(0.5 * error, pays=False) == "der++"


def test_a_candidate_without_a_result_is_not_chosen(pretend) -> None:
    def metrics(config: RunConfig, seed: int) -> dict[str, float] | str:
        broken = config.method == "moments" and seed == 12
        return "training diverged" if broken else scores_of(config, seed)

    choice = choose(make, pretend(metrics))
    assert choice.config.method == "der++"
    assert choice.tried[0].problem == "training diverged"
    with pytest.raises(FaircilError, match=r"no candidate .* moments: training diverged"):
        choose(make, pretend(lambda *_: "training diverged"))


def test_what_a_candidate_cannot_do_is_an_error_before_any_run() -> None:
    def with_tau(candidate: Candidate, part: Part) -> RunConfig:
        return make(replace(candidate, overrides=(*candidate.overrides, "tau=1")), part)

    with pytest.raises(UsageError, match=r"tau"):
        check(with_tau)


def test_settings_go_to_the_candidates_that_use_them() -> None:
    given = ["lr=0.1", "width=300", "tau=3"]
    moments, patches, replay, dumb = CANDIDATES
    assert settings_for(moments, given) == ["width=300"]
    assert settings_for(patches, given) == [*patches.overrides, "width=300"]
    assert settings_for(replay, given) == [*replay.overrides, "lr=0.1", "tau=3"]
    assert settings_for(dumb, given) == ["lr=0.1"]
    assert settings_for(moments, ["features=trained", "lr=0.1"]) == ["features=trained", "lr=0.1"]
    # What no candidate knows is left for the error.
    assert settings_for(moments, ["larning=1", "lr"]) == ["larning=1", "lr"]
    plain = replace(moments, overrides=(auto.PLAIN,))
    assert settings_for(plain, ["lam=2"]) == [auto.PLAIN]
    assert partly_used([*given, "classes_per_task=1"]) == [
        "setting lr=0.1 is for these candidates only: replay with fair draws, a new net on the "
        "buffer",
        "setting width=300 is for these candidates only: moments, moments of patches",
        "setting tau=3 is for these candidates only: replay with fair draws",
    ]
