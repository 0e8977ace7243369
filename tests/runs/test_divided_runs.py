"""Runs divided into shards: one process gets what several do, to the bit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from faircil import run
from faircil.ranks import Ranks
from faircil.runs.state import RunState
from small_runs import small_config, small_stream
from together import in_ranks

# Metrics by task, predictions with probabilities, and hashes of net and buffer.
Bits = tuple[list[dict[str, float | None]], bytes, str, str]


def bits_of(ranks: Ranks, method: str, shards: int, settings: dict[str, object]) -> Bits:
    config = small_config(method, attribute=True, shards=shards, epochs=2, **settings)
    states: list[RunState] = []
    stream = small_stream(attribute=True)
    result = run(config, 0, stream=stream, checkpoint=states.append, ranks=ranks)
    metrics = [dict(after.values) for after in result.per_task]
    predicted = b"".join(
        one.y_pred.tobytes() + one.probability.tobytes() for one in result.predictions
    )
    net = torch.cat([each.detach().flatten() for each in states[-1].learner.net.parameters()])
    kept = states[-1].buffer.samples
    buffer = b"" if kept is None else kept.x.numpy().tobytes() + kept.y.numpy().tobytes()
    return metrics, predicted, *(hashlib.sha256(b).hexdigest() for b in (net.numpy(), buffer))


def both(ranks: Ranks, cases: list[tuple[str, dict[str, object]]], shards: int) -> list[Bits]:
    return [bits_of(ranks, method, shards, settings) for method, settings in cases]


DIVISIBLE = ["er", "der++", "joint", "icarl", "er-ace", "gdumb", "bgs", "bic"]


def test_two_processes_get_what_one_gets(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, object]]] = [(method, {}) for method in DIVISIBLE]
    (alone,) = in_ranks(tmp_path, 1, both, cases, 2)
    for found in in_ranks(tmp_path, 2, both, cases, 2):
        for (method, _), one, two in zip(cases, alone, found, strict=True):
            assert one == two, method
