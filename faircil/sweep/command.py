"""The command line that reproduces a run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faircil.data.own import OwnData
from faircil.data.tables import CLASS, PATH
from faircil.learners import ALIASES
from faircil.runs.config import RunConfig, resolve


def command_of(config: RunConfig, seeds: Sequence[int]) -> str:
    """Return the ``faircil run`` command of a configuration.

    Settings that equal the shipped ones for its names are omitted.
    """
    method, weighting = _names(config)
    shipped = _shipped(config, [])
    changed: list[str] = []
    if config.trains_encoder != shipped.trains_encoder:
        # Which of the other settings are shipped depends on whether the encoder is trained.
        changed = [f"finetune={written(config.trains_encoder)}"]
        shipped = _shipped(config, changed)
    options = favoured_words(config.favoured)
    if config.postprocess != "none":
        options += ["--postprocess", config.postprocess, "--epsilon", written(config.epsilon)]
    options += ["--held-out", str(config.held_out)] if config.held_out else []
    options += ["--evaluate-on", config.evaluate_on] if config.evaluate_on != "test" else []
    usual = shipped.settings.flat()
    changed += [
        f"{name}={written(value)}"
        for name, value in config.settings.flat().items()
        if value != usual[name]
    ]
    source = data_words(config.dataset, config.own)
    return run_line(source, method, weighting, config.measure, changed, seeds, options=options)


def _shipped(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """Return the run with the same names, and no settings of its own but these."""
    method, weighting = _names(config)
    return resolve(
        dataset=None if config.own else config.dataset,
        own=config.own,
        method=method,
        weighting=weighting,
        measure=config.measure,
        favoured=config.favoured,
        overrides=overrides,
    )


def data_words(dataset: str, own: OwnData | None) -> list[str]:
    """Return the options for the data: a dataset, or the user's own."""
    if own is None:
        return ["--dataset", dataset]
    words = ["--data", own.path, "--label", own.label]
    if (own.label, own.images) == (CLASS, PATH) and Path(own.path).is_dir():
        words = ["--images", own.path]
    elif own.items is not None:
        words += ["--text" if own.text is not None else "--images", own.items]
    words += ["--sensitive", *own.sensitive] if own.sensitive else []
    words += ["--tasks", own.tasks] if own.tasks is not None else []
    words += ["--use-sensitive"] if own.use_sensitive else []
    if own.test_column is not None:
        return [*words, "--test-column", own.test_column]
    usual = own.test_share == OwnData.test_share
    return words if usual else [*words, "--test-share", written(own.test_share)]


def favoured_words(names: Sequence[str]) -> list[str]:
    """Return the option for the favoured classes, if there are any."""
    return ["--favoured", *names] if names else []


def run_line(
    source: Sequence[str],
    method: str,
    weighting: str | None,
    measure: str,
    settings: Sequence[str],
    seeds: Sequence[int],
    *,
    options: Sequence[str] = (),
) -> str:
    """Write a ``faircil run`` of data options, names, ``name=value`` settings, further options."""
    words = ["faircil", "run", *source, "--method", method]
    words += ["--weighting", weighting] if weighting else []
    words += ["--measure", measure, *options]
    words += ["--set", *settings] if settings else []
    return shlex.join([*words, "--seeds", seeds_text(seeds)])


def written(value: Any) -> str:
    """Write the value of a setting in the format of ``--set``, with full precision.

    Examples
    --------
    >>> written(10.0), written(0.1 + 0.2), written(True), written((256, 128))
    ('10', '0.30000000000000004', 'true', '256,128')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def seeds_text(seeds: Sequence[int]) -> str:
    """Write seeds in the format of ``--seeds``: 3, 0-4 or 0,2,5.

    Examples
    --------
    >>> seeds_text([0, 1, 2]), seeds_text([7]), seeds_text([0, 2])
    ('0-2', '7', '0,2')
    """
    first, last = min(seeds), max(seeds)
    if len(seeds) > 1 and sorted(seeds) == list(range(first, last + 1)):
        return f"{first}-{last}"
    return ",".join(map(str, sorted(seeds)))


def _names(config: RunConfig) -> tuple[str, str | None]:
    """Return method and weighting as users give them; no weighting if the method implies it."""
    for alias, pair in ALIASES.items():
        if pair == (config.method, config.weighting):
            return alias, None
    return config.method, None if config.weighting == "none" else config.weighting
