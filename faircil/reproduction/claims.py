"""Claims of a table: how two of its rows differ over the seeds they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faircil.reproduction.layout import Column, Line, Pair
from faircil.reproduction.metrics import METRICS, Metric
from faircil.reproduction.page import Grid
from faircil.statistics import PairedComparison, holm, paired

LEVEL = 0.05
BETTER, WORSE, OPEN = "better", "worse", "not told apart"
HEADER = ("claim", "on", "metric", "difference", "95 % interval", "p (Holm)", "reading")
ABOUT = (
    "The left one less the right one, over common seeds (paired t-test; p-values corrected by Holm "
    "for the comparisons of a dataset and metric)."
)


@dataclass(frozen=True)
class Claim:
    """A pair in a column by a metric, with the p-value after Holm."""

    pair: Pair
    column: Column
    metric: str
    comparison: PairedComparison
    p_value: float

    @property
    def reading(self) -> str:
        """How the left one stands to the right one."""
        if self.p_value > LEVEL:
            return OPEN
        higher = (self.comparison.difference or 0.0) > 0
        return BETTER if higher == METRICS[self.metric].higher_is_better else WORSE


def claims_of(column: Column, lines: Sequence[Line], pairs: Sequence[Pair]) -> list[Claim]:
    """Test all pairs of a column that have at least two common seeds, metric by metric."""
    by_name = {line.row.contender.name: line for line in lines}
    pairs = [pair for pair in pairs if {pair.left, pair.right} <= by_name.keys()]
    found: list[Claim] = []
    for name in column.metrics:
        metric = METRICS[name]
        if not metric.ranked:
            continue
        tested = {pair: _compare(pair, by_name, metric) for pair in pairs}
        raw = {pair: c.p_value for pair, c in tested.items() if c.p_value is not None}
        found += [
            Claim(pair, column, name, tested[pair], float(p_value))
            for pair, p_value in zip(raw, holm(list(raw.values())), strict=True)
        ]
    return found


def _compare(pair: Pair, lines: Mapping[str, Line], metric: Metric) -> PairedComparison:
    left, right = (metric.by_seed(lines[name].runs) for name in (pair.left, pair.right))
    return paired(left, right)


def claim_grid(claims: Sequence[Claim]) -> Grid:
    """Write claims as a table."""
    return Grid(HEADER, tuple(_row(claim) for claim in claims))


def _row(claim: Claim) -> tuple[str, ...]:
    metric, found = METRICS[claim.metric], claim.comparison
    bounds = "–"
    if found.low is not None and found.high is not None:
        bounds = f"{metric.difference_text(found.low)} … {metric.difference_text(found.high)}"
    return (
        f"{claim.pair.left} − {claim.pair.right}",
        claim.column.title,
        claim.metric,
        metric.difference_text(found.difference or 0.0),
        bounds,
        f"{claim.p_value:.3f}".removeprefix("0"),
        claim.reading,
    )


def summaries_of(claims: Sequence[Claim], pairs: Sequence[Pair]) -> list[str]:
    """Count for each pair on how many datasets and measures it is better, and worse."""
    sentences = []
    for pair in pairs:
        own = [claim for claim in claims if claim.pair == pair]
        parts = []
        for words, some in _by_kind(own):
            counts = Counter(claim.reading for claim in some)
            parts.append(
                f"{words} better on {counts[BETTER]} of {len(some)}, worse on {counts[WORSE]}"
            )
        if own:
            sentences.append(f"{pair.left} against {pair.right}: {'; '.join(parts)}.")
    return sentences


def _by_kind(claims: Sequence[Claim]) -> list[tuple[str, list[Claim]]]:
    """Part claims into those on disparities and those on accuracy."""
    kinds = (("disparity", False), ("accuracy", True))
    return [(word, [c for c in claims if (c.metric == "accuracy") == same]) for word, same in kinds]


def findings_of(claims: Sequence[Claim], pairs: Sequence[Pair]) -> list[str]:
    """Say of each pair where it is better, worse and not told apart, in accuracy and disparity."""
    sentences = []
    for pair in pairs:
        own = [claim for claim in claims if claim.pair == pair]
        parts = [f"{word} is {_places(some)}" for word, some in _by_kind(own)]
        if own:
            sentences.append(f"**{pair.left} against {pair.right}**: {'; '.join(parts)}.")
    return sentences


def _places(claims: Sequence[Claim]) -> str:
    texts = []
    for reading in (BETTER, WORSE, OPEN):
        places = dict.fromkeys(
            _place(claim, claims) for claim in claims if claim.reading == reading
        )
        if places:
            texts.append(f"{reading} on {', '.join(places)}")
    return ", ".join(texts) or "not compared"


def _place(claim: Claim, others: Sequence[Claim]) -> str:
    """Name the column, and the metric where a column has several."""
    several = sum(other.column == claim.column for other in others) > 1
    return f"{claim.column.title} by `{claim.metric}`" if several else claim.column.title
