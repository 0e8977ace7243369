"""Fabricated rounds of a text benchmark."""

from __future__ import annotations

from typing import Any

from bench_results import ENVIRONMENT
from faircil_lab.bench.texts import (
    EMBEDDINGS,
    ORDINARY,
    TRAININGS,
    EmbeddingRound,
    EncoderCost,
    EncoderWorkload,
    EpochRound,
    TextOutcome,
    TextResults,
)

SIZES = EncoderWorkload(rows=32_000, tokens=100, repeats=1)


def epoch_round(number: int = 1, **values: Any) -> EpochRound:
    """Make a round: a pass of 2 s, .05 s beyond it, LP .11 s, training 100,000 tokens a second."""
    fields: dict[str, Any] = {
        "samples": 6400,
        "buffer": 1280,
        "groups": 50,
        "forward": EncoderCost(2.0, 768_000, 1.5),
        "statistics": EncoderCost(2.05, 768_000, 1.75),
        "on_stored": EncoderCost(0.03, 0, 1.0),
        "lp": 0.11,
        "kept": 640,
        "training": {
            TRAININGS[0].name: EncoderCost(2.0, 200_000, 10.0),
            TRAININGS[1].name: EncoderCost(2.5, 200_000, 4.0),
            TRAININGS[2].name: EncoderCost(1.6, 100_000, 8.0),
            ORDINARY[0].name: EncoderCost(4.0, 200_000, 9.0),
            ORDINARY[1].name: EncoderCost(4.0, 100_000, 9.0),
        },
    }
    return EpochRound(number, **(fields | values))


def embedding_rounds() -> list[EmbeddingRound]:
    """Make a round for each way of embedding, all equally fast."""
    rows = [round(case.part * SIZES.rows) for case in EMBEDDINGS]
    return [
        EmbeddingRound(1, case, n, EncoderCost(n / 1000, 100 * n, 0.5 if case.part == 1 else 0.25))
        for case, n in zip(EMBEDDINGS, rows, strict=True)
    ]


def text_results(*outcomes: TextOutcome, **values: Any) -> TextResults:
    """Combine outcomes; by default, one of each."""
    fields: dict[str, Any] = {
        "workload": SIZES,
        "outcomes": outcomes or (epoch_round(), *embedding_rounds()),
        "command": "faircil bench text",
        "environment": ENVIRONMENT | {"device": "cuda"},
    }
    return TextResults(**(fields | values))
