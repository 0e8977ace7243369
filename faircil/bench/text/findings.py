"""A benchmark of an encoder as files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial

from matplotlib.figure import Figure

from faircil.bench.files import Findings
from faircil.bench.text.gauge import Cost
from faircil.bench.text.page import PICTURE, page
from faircil.bench.text.plot import epoch_bars
from faircil.bench.text.record import TextResults
from faircil.bench.text.sentences import sentences
from faircil.bench.text.summary import embeddings_of, epochs_of, parts_of
from faircil.bench.text.tables import text_tables


@dataclass(frozen=True)
class Value:
    """One line of ``results.csv``.

    Parameters
    ----------
    part : str
        Of an epoch, or the way to embed.
    round : int
    seconds : float
    tokens : int
    memory_gib : float or None
    """

    part: str
    round: int
    seconds: float
    tokens: int
    memory_gib: float | None


def text_findings(results: TextResults) -> Findings:
    """Put document, rows, tables, picture and page together."""
    epochs = epochs_of(results.epochs, results.workload) if results.epochs else []
    parts = parts_of(results.epochs) if results.epochs else {}
    ways = {case.name: cost for case, cost in embeddings_of(results.embeddings).items()}
    document = {
        **results.described(),
        "workload": asdict(results.workload),
        "findings": list(sentences(results)),
        "epochs": [
            asdict(epoch) | {"total": epoch.total, "share_beyond": epoch.share_beyond}
            for epoch in epochs
        ],
        "parts": {name: _with_rate(cost) for name, cost in parts.items()},
        "embeddings": {name: _with_rate(cost) for name, cost in ways.items()},
        "rounds": [asdict(outcome) for outcome in results.outcomes],
    }
    figures: dict[str, Figure] = {PICTURE: epoch_bars(epochs)} if epochs else {}
    return Findings(
        document,
        [asdict(value) for value in _values(results)],
        text_tables(results),
        figures,
        partial(page, results),
    )


def _with_rate(cost: Cost) -> dict[str, float | None]:
    return asdict(cost) | {"tokens_per_second": cost.rate}


def _values(results: TextResults) -> Iterator[Value]:
    for one in results.epochs:
        parts = {
            "forward": one.forward,
            "statistics": one.statistics,
            "statistics from stored features": one.on_stored,
            "LP": Cost(one.lp, 0, None),
            **one.training,
        }
        for name, cost in parts.items():
            yield Value(name, one.number, cost.seconds, cost.tokens, cost.memory)
    for way in results.embeddings:
        cost = way.cost
        yield Value(way.case.name, way.number, cost.seconds, cost.tokens, cost.memory)
