import shlex

import pytest
from small_runs import small_config

from faircil.cli.parser import parse
from faircil.config import RunConfig, resolve
from faircil.sweep.command import command_of

CONFIGS = [
    resolve(dataset="mnist", method="fsw", overrides=["tau=5", "granularity=group"]),
    resolve(dataset="biased-mnist", method="der++", weighting="balanced", measure="dp"),
    resolve(dataset="drug", method="wa", evaluate_on="validation", held_out=8),
    resolve(dataset="drug", method="er", postprocess="eps-fair", epsilon=0.01),
    resolve(dataset="toy", method="er", overrides=["hidden=8,4", "floor=false", "lr=0.00002"]),
    small_config("icarl"),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_the_command_makes_the_same_run(config: RunConfig) -> None:
    words = shlex.split(command_of(config, [0, 1, 2]))
    assert words[0] == "faircil"
    read = parse(words[1:])
    assert read.seeds == "0-2"
    again = resolve(
        dataset=read.dataset,
        method=read.method,
        weighting=read.weighting,
        measure=read.measure,
        postprocess=read.postprocess,
        epsilon=read.epsilon,
        held_out=read.held_out,
        evaluate_on=read.evaluate_on,
        overrides=read.set,
    )
    assert again == config
