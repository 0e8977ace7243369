"""Commands that are killed at a chosen call, or at any time (importable by processes)."""

from __future__ import annotations

import os
import signal
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import torch

from faircil.learners.moments import Moments
from faircil.metrics import TaskMetrics
from faircil.results import folder
from faircil.results.run_files import PROBABILITIES
from faircil.runs import evaluation, saved_states
from faircil.sweep import work
from faircil.weighting import weights
from processes import Prepare


def save_always() -> None:
    """Save a run after each step, so that there is a state before any point in time."""
    saved_states.PAUSE, saved_states.SHARE = 0.0, float("inf")


def save_often() -> None:
    """Save a run ten times a second."""
    saved_states.PAUSE, saved_states.SHARE = 0.1, float("inf")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _half(tensors: Any, file: Path, *_: Any) -> None:
    """Leave the files of a process that dies while writing."""
    file.write_bytes(b"\0" * 1000)
    _die()


# Where a process dies: within which call, given by the owner of the function and its name.
PLACES: dict[str, tuple[Any, str]] = {
    "a step": (torch.optim.SGD, "step"),
    "the program": (weights, "choose"),
    "the pass": (Moments, "_refit"),
    "saving": (saved_states, "save_file"),
    "naming the state": (saved_states, "file_digest"),
    "evaluating": (evaluation, "evaluate"),
    "writing the run": (folder, "write_checksums"),
    "renaming the run": (folder, "_put_in_place"),
    "clearing": (saved_states.Checkpoints, "clear"),
}


def _die_at(place: str, number: int) -> None:
    save_always()
    owner, name = PLACES[place]
    real, calls = getattr(owner, name), count(1)

    def call(*given: Any, **named: Any) -> Any:
        if next(calls) == number:
            _half(*given) if place == "saving" else _die()
        return real(*given, **named)

    setattr(owner, name, call)


def dying_at(place: str, number: int = 1) -> Prepare:
    """Return a function that makes a command die within the n-th call of a place."""
    return partial(_die_at, place, number)


def _stop_in(seed: int, number: int) -> None:
    run = work.run

    def stopped(config: Any, seed_now: int, *, listener: Any, **options: Any) -> Any:
        def told(event: object) -> None:
            listener(event)
            if seed_now == seed and isinstance(event, TaskMetrics):
                signal.raise_signal(number)

        return run(config, seed_now, listener=told, **options)

    work.run = stopped


def stopping_in(seed: int, number: int) -> Prepare:
    """Return a function that sends a signal to a command when a seed's run has learned a task."""
    return partial(_stop_in, seed, number)


BYTES = ("metrics.jsonl", "predictions.csv")  # files of a run that no kill may change


def bytes_of(run: Path) -> dict[str, bytes]:
    """Return the files of a run that are the same however often it was stopped.

    The other files contain times and durations.
    """
    files = [run / name for name in (*BYTES, PROBABILITIES)]
    files += sorted((run / "model").glob("*.safetensors"))
    found = {str(file.relative_to(run)): file.read_bytes() for file in files if file.is_file()}
    assert found.keys() >= {*BYTES}
    return found
