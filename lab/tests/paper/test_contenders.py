from __future__ import annotations

import pytest

from faircil.sweep.command import command_of
from faircil_lab.paper.contenders import CONTENDERS, FSW, Contender, config, request
from figure_runs import tuned_with

BY_METHOD = {(c.method, c.weighting): c for c in CONTENDERS if not c.fixed}


def test_the_paper_has_nine() -> None:
    assert [c.method for c in CONTENDERS if c.in_paper] == [
        *("joint", "finetune", "icarl", "wa", "clad", "gss", "ocs", "fairl", "fsw")
    ]


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda c: c.name)
def test_everyone_can_be_chosen_for_and_run_on_what_was_chosen(contender: Contender) -> None:
    wanted = request(contender, "biased-mnist", "eo")
    tuned = tuned_with(wanted, [("lr=0.003", {})])
    chosen = config(contender, "biased-mnist", "eo", tuned)
    assert chosen.settings.learner.lr == 0.003
    assert chosen.evaluate_on == "test"
    assert wanted.config(tuned.best.overrides).settings == chosen.settings
    group = "granularity=group" in contender.fixed
    assert chosen.settings.weights.granularity == ("group" if group else "sample")


@pytest.mark.parametrize("name", [("joint", None), ("er", None), ("der++", None)])
def test_without_weighting_eo_and_dp_choose_among_the_same_runs(name: tuple[str, None]) -> None:
    eo, dp = (request(BY_METHOD[name], "drug", measure) for measure in ("eo", "dp"))
    assert eo != dp
    assert (eo.objective, dp.objective) == (None, "accuracy - dp")
    assert eo.config(["lr=0.01"]) == dp.config(["lr=0.01"])


@pytest.mark.parametrize("name", [("fsw", None), ("er", "random"), ("er", "balanced")])
def test_with_weighting_every_measure_has_its_own_runs(name: tuple[str, str | None]) -> None:
    eo, dp = (request(BY_METHOD[name], "drug", measure) for measure in ("eo", "dp"))
    assert (eo.config([]).measure, dp.config([]).measure) == ("eo", "dp")
    assert dp.objective is None


def test_its_configuration_has_what_was_chosen() -> None:
    by_group = next(c for c in CONTENDERS if c.method == "der++" and c.weighting)
    tuned = tuned_with(request(by_group, "drug", "dp"), [("lr=0.05", {})])
    text = command_of(config(by_group, "drug", "dp", tuned), range(5))
    assert text == (
        "faircil run --dataset drug --method der++ --weighting fsw --measure dp "
        "--set lr=0.05 granularity=group --seeds 0-4"
    )


def test_a_dataset_whose_files_are_absent_has_a_command() -> None:
    assert command_of(config(FSW, "biasbios", "eo", None), range(5)) == (
        "faircil run --dataset biasbios --method fsw --measure eo --seeds 0-4"
    )
