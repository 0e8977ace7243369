from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command: its exit code and output."""

    code: int
    out: str
    err: str


Cli = Callable[..., Outcome]
Person = dict[str, object]
WriteTable = Callable[..., str]


def run_words(method: str, dataset: str, *words: str, **settings: object) -> tuple[str, ...]:
    """Return the words of a run: ``run --method … --dataset … --set …``, and further ones."""
    chosen = [f"{name}={value}" for name, value in settings.items()]
    setting = ("--set", *chosen) if chosen else ()
    return ("run", "--method", method, "--dataset", dataset, *setting, *words)
