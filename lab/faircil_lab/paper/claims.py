"""Claims of a table: pairs of methods over common seeds, and which differ significantly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from faircil.errors import DataError
from faircil.report.statistics import PairedComparison, holm, paired
from faircil_lab.paper.comparison import ranks
from faircil_lab.paper.contenders import Contender, Entry
from faircil_lab.paper.exhibit import Grid, Section
from faircil_lab.paper.metrics import DATASET_NAMES, METRICS, Metric, Target

LEVEL = 0.05
BETTER, WORSE, OPEN = "better", "worse", "not significantly different"
DIVERGED = "not compared: a seed diverged"
HEADER = ("claim", "on", "metric", "difference", "95 % interval", "p (Holm)", "reading")
ABOUT = (
    "Left minus right, over common seeds (paired t-test; p-values corrected by Holm "
    "for the comparisons of a dataset and metric). A method with a diverged seed is not compared."
)


@dataclass(frozen=True)
class Column:
    """A dataset and a measure with the metrics that are shown.

    ``besides`` are shown as well, but nothing is claimed of them; ``key`` is its name in the
    published data, the target's unless it is given; ``only`` the names of its rows, all unless they
    are given.
    """

    target: Target
    metrics: tuple[str, ...]
    besides: tuple[str, ...] = ()
    key: str | None = None
    only: tuple[str, ...] | None = None

    @property
    def published_key(self) -> str:
        """Its name in the published data."""
        return self.key or self.target.key

    @property
    def title(self) -> str:
        """Its name in plain words."""
        return DATASET_NAMES[self.target.dataset] if self.key else self.target.title


@dataclass(frozen=True)
class Pair:
    """Two rows, by name, whose difference is a claim of its own."""

    left: str
    right: str


@dataclass(frozen=True)
class Claim:
    """A pair in a column by a metric, with the p-value after Holm; None where it is not tested."""

    pair: Pair
    column: Column
    metric: str
    comparison: PairedComparison
    p_value: float | None

    @property
    def reading(self) -> str:
        """How the left one stands to the right one."""
        if self.p_value is None:
            return DIVERGED
        if self.p_value > LEVEL:
            return OPEN
        higher = (self.comparison.difference or 0.0) > 0
        return BETTER if higher == METRICS[self.metric].higher_is_better else WORSE

    @property
    def counts(self) -> bool:
        """Whether it counts in sentences: not on a dataset that ranks nothing."""
        return ranks(self.column.target)


def claims_of(column: Column, entries: Sequence[Entry], pairs: Sequence[Pair]) -> list[Claim]:
    """Test all pairs of a column that have at least two common seeds, metric by metric."""
    by_name = {entry.name: entry for entry in entries}
    pairs = [pair for pair in pairs if {pair.left, pair.right} <= by_name.keys()]
    found: list[Claim] = []
    for name in column.metrics:
        metric = METRICS[name]
        if not metric.ranked:
            continue
        lost = [p for p in pairs if by_name[p.left].diverged or by_name[p.right].diverged]
        tested = {p: _paired(p, by_name, metric) for p in pairs if p not in lost}
        raw = {pair: c.p_value for pair, c in tested.items() if c.p_value is not None}
        found += [
            Claim(pair, column, name, tested[pair], float(p_value))
            for pair, p_value in zip(raw, holm(list(raw.values())), strict=True)
        ]
        found += [Claim(pair, column, name, paired({}, {}), None) for pair in lost]
    return found


def _paired(pair: Pair, entries: Mapping[str, Entry], metric: Metric) -> PairedComparison:
    left, right = (metric.by_seed(entries[name].runs) for name in (pair.left, pair.right))
    return paired(left, right)


def claims_section(claims: Sequence[Claim]) -> Section:
    """Write claims as a table."""
    rows = tuple(_row(claim) for claim in claims)
    return Section("Which differences are significant", ABOUT, Grid(HEADER, rows))


def _row(claim: Claim) -> tuple[str, ...]:
    metric, found = METRICS[claim.metric], claim.comparison
    bounds = "–"
    if found.low is not None and found.high is not None:
        bounds = f"{metric.difference_text(found.low)} … {metric.difference_text(found.high)}"
    return (
        f"{claim.pair.left} − {claim.pair.right}",
        claim.column.title,
        claim.metric,
        "–" if found.difference is None else metric.difference_text(found.difference),
        bounds,
        "–" if claim.p_value is None else f"{claim.p_value:.3f}".removeprefix("0"),
        claim.reading if claim.counts else f"{claim.reading}; not counted",
    )


def summaries_of(claims: Sequence[Claim], pairs: Sequence[Pair]) -> list[str]:
    """Count for each pair on how many datasets and measures it is better, and worse."""
    sentences = []
    for pair, own in _by_pair(claims, pairs):
        parts = []
        for words, some in _by_kind(own):
            counts = Counter(claim.reading for claim in some)
            text = f"{words} better on {counts[BETTER]} of {len(some)}, worse on {counts[WORSE]}"
            lost = f", not compared on {counts[DIVERGED]} (a seed diverged)"
            parts.append(text + lost * bool(counts[DIVERGED]))
        sentences.append(f"{pair.left} against {pair.right}: {'; '.join(parts)}.")
    return sentences


def findings_of(claims: Sequence[Claim], pairs: Sequence[Pair]) -> list[str]:
    """Say of each pair where it is better, worse and neither, in accuracy and disparity."""
    sentences = []
    for pair, own in _by_pair(claims, pairs):
        parts = [f"{word} is {_places(some)}" for word, some in _by_kind(own)]
        sentences.append(f"**{pair.left} against {pair.right}**: {'; '.join(parts)}.")
    return sentences


def _by_pair(claims: Sequence[Claim], pairs: Sequence[Pair]) -> list[tuple[Pair, list[Claim]]]:
    """Return the claims of each pair that count, where there are any."""
    found = [(pair, [c for c in claims if c.pair == pair and c.counts]) for pair in pairs]
    return [(pair, own) for pair, own in found if own]


def _by_kind(claims: Sequence[Claim]) -> list[tuple[str, list[Claim]]]:
    """Part claims into those on disparities and those on accuracy."""
    kinds = (("disparity", False), ("accuracy", True))
    return [(word, [c for c in claims if (c.metric == "accuracy") == same]) for word, same in kinds]


def _places(claims: Sequence[Claim]) -> str:
    texts = []
    for reading in (BETTER, WORSE, OPEN, DIVERGED):
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


KEPT = "samples kept"
EQUAL = 0.05  # numbers of samples that differ by less than this share are the same
CONTROLS_ABOUT = (
    "The controls have all settings of FSW, and differ in the weights alone: *random "
    "weights* are those of FSW, permuted over the task; a *balanced subset* has as many samples, "
    "in equal numbers per group. Each solves its own programs, so the numbers of samples can drift "
    "apart. Only where they are the same (within 5 %) does a difference come from *which* samples "
    "are kept, not from how many."
)


@dataclass(frozen=True)
class ControlCount:
    """How many samples FSW and a control train on per epoch in a column; means over seeds."""

    column: Column
    source: Contender
    control: Contender
    fsw: float
    kept: float

    @property
    def equal(self) -> bool:
        """Whether the numbers are the same."""
        return abs(self.kept - self.fsw) <= EQUAL * self.fsw


def control_counts(column: Column, entries: Sequence[Entry]) -> list[ControlCount]:
    """Compare the numbers of samples of FSW and of its controls; nothing where a run has none."""
    by_contender = {entry.contender: entry for entry in entries}
    found = []
    for entry in entries:
        source = entry.contender.settings_of
        if source is None or entry.contender.weighting is None or source not in by_contender:
            continue
        ours, theirs = (_kept(by_contender[one]) for one in (source, entry.contender))
        if ours and theirs:
            found.append(ControlCount(column, source, entry.contender, ours, theirs))
    return found


def _kept(entry: Entry) -> float | None:
    try:
        values = METRICS[KEPT].by_seed(entry.runs)
    except DataError:  # the folder of a run is gone
        return None
    return fmean(values.values()) if values else None


def controls_section(counts: Sequence[ControlCount]) -> Section:
    """Show how many samples FSW and its controls train on."""
    rows = tuple(
        (
            count.column.title,
            count.control.name,
            f"{count.fsw:,.0f}",
            f"{count.kept:,.0f}",
            "yes" if count.equal else "no",
        )
        for count in counts
    )
    header = ("on", "control", "FSW: samples per epoch", "control", "same number")
    return Section("FSW and its controls: how many samples", CONTROLS_ABOUT, Grid(header, rows))


def which_not_how_many(claims: Sequence[Claim], counts: Sequence[ControlCount]) -> list[str]:
    """Say where FSW gains over a control that trained on the same number of samples."""
    places: dict[Pair, list[str]] = {}
    for count in counts:
        own = [
            claim
            for claim in claims
            if claim.pair == Pair(count.source.name, count.control.name)
            and claim.column == count.column
        ]
        better = [f"`{claim.metric}`" for claim in own if claim.counts and claim.reading == BETTER]
        if better and count.equal:
            text = f"{count.column.title} in {' and '.join(better)}"
            pair = Pair(count.source.name, count.control.name)
            places.setdefault(pair, []).append(text)
    return [
        f"With the same number of samples, {pair.left} is better than {pair.right} on "
        f"{'; '.join(some)}: there the gain comes from *which* samples are kept, not from how many."
        for pair, some in places.items()
    ]
