"""A benchmark of an encoder as tables."""

from __future__ import annotations

from collections.abc import Sequence

from faircil.bench.text.gauge import Cost
from faircil.bench.text.record import TextResults
from faircil.bench.text.summary import Epoch, embeddings_of, epochs_of, parts_of
from faircil.bench.timing import written
from faircil.report import Cell, Table

SPEED = ("tokens", "time", "tokens per second", "peak GPU memory")


def text_tables(results: TextResults) -> list[Table]:
    """Make a table of an epoch, one of its parts, one of embedding; of what was measured."""
    tables = []
    if results.epochs:
        tables.append(epoch_table(epochs_of(results.epochs, results.workload)))
        rows = [(name, *speed(cost)) for name, cost in parts_of(results.epochs).items()]
        tables.append(_table("Parts of an epoch", ("part", *SPEED), rows))
    if results.embeddings:
        costs = embeddings_of(results.embeddings)
        rows = [(case.name, *speed(cost)) for case, cost in costs.items()]
        tables.append(_table("Embeddings of a frozen encoder", ("way", *SPEED), rows))
    return tables


def epoch_table(epochs: Sequence[Epoch]) -> Table:
    """Make a table of epochs, a row each."""
    header = (
        *("epoch", "texts", "one pass", "statistics beyond", "LP", "training", "total"),
        "statistics beyond + LP",
    )
    rows = [
        (
            epoch.name,
            f"{epoch.samples:,}",
            *map(written, (epoch.forward, epoch.beyond, epoch.lp, epoch.training, epoch.total)),
            percent(epoch.share_beyond),
        )
        for epoch in epochs
    ]
    return _table("An epoch", header, rows)


def speed(cost: Cost) -> tuple[str, ...]:
    """Write tokens, time, tokens per second and peak memory."""
    memory = "–" if cost.memory is None else f"{cost.memory:.2f} GiB"
    return f"{cost.tokens:,}", written(cost.seconds), rate(cost), memory


def rate(cost: Cost) -> str:
    """Write tokens per second with three digits.

    Examples
    --------
    >>> rate(Cost(2.0, 3_456_789, None)), rate(Cost(2.0, 100, None))
    ('1,730,000', '50')
    """
    return f"{float(f'{cost.rate:.3g}'):,.0f}"


def percent(share: float) -> str:
    """Write a share of an epoch.

    Examples
    --------
    >>> percent(0.01234)
    '1.23 %'
    """
    return f"{100 * share:.2f} %"


def _table(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
    return Table(title, header, tuple(tuple(map(Cell, row)) for row in rows))
