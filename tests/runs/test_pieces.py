"""What a run depends on: its own pieces, and no others."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from faircil.learners import LEARNERS
from faircil.learners.replay import Replay
from faircil.metrics import METRICS
from faircil.results.code import _reached, _source
from faircil.runs.config import RunConfig, resolve
from faircil.sweep.work import LOOP, TABLES, code_digest, pieces_of
from faircil.weighting.measures import MEASURES, Measure, equal_error_rate, equalized_odds
from processes import CONTEXT
from small_runs import small_config


def modules_of(config: RunConfig) -> set[str]:
    from faircil.results.code import Pieces

    found = Pieces()
    for piece in pieces_of(config):
        found.add(piece)
    starts = [_source(sys.modules[name]) for name in LOOP]
    return {source.name for source in _reached([*starts, *found.sources], TABLES)}


def test_only_the_chosen_pieces_belong_to_a_run() -> None:
    modules = modules_of(small_config("agem", measure="eer"))
    assert {
        "faircil.runs.experiment", "faircil.runs.state", "faircil.learners.base",
        "faircil.learners.replay", "faircil.data.images", "faircil.data.stream", "faircil.samples",
        "faircil.weighting.measures", "faircil.weighting.solver.exact", "faircil.metrics",
    } <= modules  # fmt: skip
    others = {"faircil.learners.icarl", "faircil.data.bios", "faircil.weighting.solver.first_order"}
    assert not others & modules
    shows = ("cli", "report", "sweep", "tuning")
    assert not [name for name in modules if name.split(".")[1] in shows]


def test_every_learner_belongs_to_its_own_runs_only() -> None:
    digests = {code_digest(small_config(method)) for method in LEARNERS}
    assert len(digests) == len(LEARNERS)


def test_solver_and_dataset_count() -> None:
    er = resolve(dataset="toy", method="er")
    highs = resolve(dataset="toy", method="er", overrides=["solver=first-order"])
    exact = resolve(dataset="toy", method="er", overrides=["solver=exact"])
    assert code_digest(er) == code_digest(exact)
    assert len({code_digest(config) for config in (er, highs)}) == 2
    assert "faircil.data.bios" in modules_of(resolve(dataset="biasbios-sample", method="er"))


def test_an_own_measure_is_part_of_the_identity() -> None:
    digests = []
    for function in (equal_error_rate, equalized_odds):
        with MEASURES.temporarily("mine", Measure(function, by_attribute=False)):
            digests.append(code_digest(resolve(dataset="toy", method="er", measure="mine")))
    assert digests[0] != digests[1]


def test_an_own_learner_is_part_of_the_identity() -> None:
    class Own(Replay):
        pass

    class Edited(Replay):
        pass

    digests = []
    for learner in (Own, Edited):
        with LEARNERS.temporarily("mine", learner):
            config = resolve(dataset="toy", method="mine")
            digests.append(code_digest(config))
            assert {__name__, "faircil.learners.replay", "faircil.learners.base"} <= modules_of(
                config
            )
    assert digests[0] != digests[1]


def test_an_own_metric_is_part_of_the_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config("er")
    before = code_digest(config)
    mine = replace(METRICS["accuracy"], of=lambda counts: 0.5)
    with METRICS.temporarily("mine", mine):
        assert code_digest(config) != before
    shown = replace(METRICS["accuracy"], title="another title")
    monkeypatch.setitem(METRICS._built_in, "accuracy", shown)
    assert code_digest(config) == before


def test_another_process_finds_the_same() -> None:
    config = resolve(dataset="toy", method="fsw")
    with CONTEXT.Pool(1) as others:  # with hashes of its own
        assert others.apply(code_digest, (config,)) == code_digest(config)
