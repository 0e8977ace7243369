import shlex
from pathlib import Path
from typing import Any

import pytest

from faircil.cli import parse
from faircil.cli.common_options import own_data
from faircil.data.own import OwnData
from faircil.runs.config import RunConfig, resolve
from faircil.sweep.command import command_of
from small_runs import small_config

CONFIGS = [
    resolve(dataset="mnist", method="fsw", overrides=["tau=5", "granularity=group"]),
    resolve(dataset="biased-mnist", method="der++", weighting="balanced", measure="dp"),
    resolve(dataset="drug", method="wa", evaluate_on="validation", held_out=8),
    resolve(dataset="drug", method="er", postprocess="eps-fair", epsilon=0.01),
    resolve(dataset="toy", method="er", overrides=["hidden=8,4", "floor=false", "lr=0.00002"]),
    resolve(dataset="biased-mnist", method="moments", measure="eopp", favoured=["3", "5"]),
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
        favoured=read.favoured,
        postprocess=read.postprocess,
        epsilon=read.epsilon,
        held_out=read.held_out,
        evaluate_on=read.evaluate_on,
        overrides=read.set,
    )
    assert again == config


OWN = [
    {"label": "job"},
    {"label": "job", "sensitive": ("sex", "first name"), "tasks": "a b,c|d", "test_share": 0.25},
    {"label": "job", "text": "the bio", "test_column": "part"},
    {"label": "job", "sensitive": ("sex",), "use_sensitive": True},
]


@pytest.mark.parametrize("roles", OWN)
def test_the_command_of_own_data_names_the_same_data(roles: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "my people.csv"
    path.write_text("job\n", encoding="utf-8")
    own = OwnData(str(path), **roles)
    config = resolve(own=own, method="er", overrides=["lr=0.5"])
    words = shlex.split(command_of(config, [4]))
    read = parse(words[1:])
    mistakes: list[str] = []
    again = resolve(
        own=own_data(read, mistakes), method=read.method, measure=read.measure, overrides=read.set
    )
    assert (again, mistakes) == (config, [])


def test_a_trained_encoder_is_named_with_the_settings_that_are_not_shipped_for_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "people.csv"
    path.write_text("job\n", encoding="utf-8")
    own = OwnData(str(path), "job", text="bio")
    frozen = resolve(own=own)
    overrides = ["finetune=true", f"lr={frozen.settings.learner.lr}"]
    config = resolve(own=own, overrides=overrides)
    read = parse(shlex.split(command_of(config, [0]))[1:])
    assert resolve(own=own, overrides=read.set) == config
