"""The table of a column: the paper's values, ours with their marks, differences and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faircil.report import AMONG_BEST, BOUNDS
from faircil.reproduction.availability import FILES_ABSENT
from faircil.reproduction.comparison import Comparison
from faircil.reproduction.layout import Line
from faircil.reproduction.metrics import METRICS
from faircil.reproduction.page import Grid
from faircil.statistics import Ranking, best_of

Compared = Mapping[str, Sequence[tuple[Line, Comparison]]]  # by metric


def comparison_grid(lines: Sequence[Line], compared: Compared, seeds: int) -> Grid:
    """Write some metrics of a column side by side.

    Parameters
    ----------
    lines : sequence of Line
    compared : mapping
        By metric, what came of each line.
    seeds : int
        How many were asked for; where there are fewer, a value says so.
    """
    header, columns = ["method"], [[line.row.contender.name for line in lines]]
    beside = any(found.published for pairs in compared.values() for _, found in pairs)
    for name, pairs in compared.items():
        ranking = _rank(name, pairs)
        header.append(f"{name}: ours" if beside else name)
        columns.append([_ours(line, found, ranking, seeds) for line, found in pairs])
        if any(found.published for _, found in pairs):
            header[-1:] = [f"{name}: paper", "ours", "difference", "verdict"]
            columns[-1:-1] = [[str(found.published or "–") for _, found in pairs]]
            columns.append([_difference(found) for _, found in pairs])
            columns.append([found.verdict.value if found.verdict else "–" for _, found in pairs])
    return Grid(tuple(header), tuple(zip(*columns, strict=True)))


def _rank(name: str, pairs: Sequence[tuple[Line, Comparison]]) -> Ranking:
    metric = METRICS[name]
    values = {
        line.row.contender.name: found.values
        for line, found in pairs
        if found.values and line.row.contender.method not in BOUNDS
    }
    if not metric.ranked or metric.higher_is_better is None or len(values) < 2:
        return Ranking(None, frozenset())
    return best_of(values, metric.higher_is_better)


def _ours(line: Line, found: Comparison, ranking: Ranking, seeds: int) -> str:
    name, n = line.row.contender.name, len(found.values)
    if not line.runs:
        return f"not run: {FILES_ABSENT}" if line.problem == FILES_ABSENT else "not run"
    text = found.metric.text(list(found.values.values()))
    text += f" ({n} of {seeds} seeds)" if 0 < n < seeds else ""
    if name == ranking.best:
        return f"**{text}**"
    return f"{text} {AMONG_BEST}" if name in ranking.not_told_apart else text


def _difference(found: Comparison) -> str:
    difference = found.difference
    return "–" if difference is None else found.metric.difference_text(difference)


def missing(lines: Sequence[Line]) -> str:
    """Say in Markdown which runs are missing and why, each reason once; empty if none is."""
    reasons: dict[str, list[str]] = {}
    for line in lines:
        if line.problem is not None:
            reasons.setdefault(line.problem, []).append(line.row.contender.name)
    return "\n\n".join(
        f"Not run: {reason.removeprefix('not run: ').rstrip('.')}"
        f" ({'all' if len(names) == len(lines) else '; '.join(names)})."
        for reason, names in reasons.items()
    )
