"""Methods to measure, as people write them: a method, and settings that make it another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faircil.config import RunConfig, resolve
from faircil.data.datasets import DATASETS
from faircil.errors import UsageError

METHODS = ("er", "fsw", "fsw:granularity=group")
REFERENCE = "er"  # ratios are against it


@dataclass(frozen=True)
class Contender:
    """A method on a dataset.

    Parameters
    ----------
    dataset : str
    name : str
        ``METHOD[+WEIGHTING][:NAME=VALUE]…``, such as ``fsw:granularity=group``.
    settings : tuple of str
        ``NAME=VALUE`` for all methods alike.
    """

    dataset: str
    name: str
    settings: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Options of ``faircil run`` for it."""
        method, weighting, overrides = self._parts()
        return [
            *("--dataset", self.dataset, "--method", method),
            *(("--weighting", weighting) if weighting else ()),
            *(("--set", *overrides) if overrides else ()),
        ]

    def config(self) -> RunConfig:
        """Return the configuration; UsageError if there is none of that kind."""
        method, weighting, overrides = self._parts()
        return resolve(
            dataset=self.dataset, method=method, weighting=weighting, overrides=overrides
        )

    def _parts(self) -> tuple[str, str | None, list[str]]:
        head, *own = self.name.split(":")
        method, _, weighting = head.partition("+")
        return method, weighting or None, [*self.settings, *own]


def contenders(
    datasets: Sequence[str], names: Sequence[str], settings: Sequence[str], mistakes: list[str]
) -> list[Contender]:
    """Return every method on every dataset; adds to ``mistakes`` what cannot be run, each once."""
    found = [
        Contender(dataset, name, tuple(settings))
        for dataset in dict.fromkeys(datasets)
        for name in dict.fromkeys(names)
    ]
    lines: dict[str, None] = {}
    for contender in found:
        try:
            contender.config()
        except UsageError as error:
            lines |= dict.fromkeys(str(error).removeprefix("- ").split("\n- "))
    mistakes += lines
    return found


def missing_files(datasets: Sequence[str]) -> list[str]:
    """Return what the loaders would say of datasets whose files are not there."""
    # Their content takes long to read, so it is checked only where something is missing.
    incomplete = [DATASETS[name] for name in datasets if DATASETS[name].missing_files()]
    said = (file.message for row in incomplete for file in row.check_files() if file.state != "ok")
    return list(dict.fromkeys(said))
