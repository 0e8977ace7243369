"""What the paper says of weights, beside what came out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from faircil.report import format_value
from faircil.reproduction.comparison import compare_values
from faircil.reproduction.group_weights import (
    WeightedEpoch,
    value_less_value,
    worse_gets_more,
    worse_less_better,
)
from faircil.reproduction.metrics import Metric
from faircil.reproduction.page import Verdict
from faircil.reproduction.published import published
from faircil.reproduction.targets import Target
from faircil.reproduction.trends import UNTOLD
from faircil.results.record import WeightRecord
from faircil.statistics import interval

COUNT_HEADER = ("dataset (measure)", "number of", "paper", "ours", "difference", "verdict")
ORDER_HEADER = ("dataset (measure)", "difference of", "paper", "ours", "95 % interval", "verdict")
Epochs = Sequence[WeightedEpoch]


@dataclass(frozen=True)
class Weighed:
    """FSW's weights on a target by seed, or why there are none."""

    target: Target
    problem: str | None
    by_seed: Mapping[int, Epochs]

    def values(self, of: Callable[[Epochs], float | None]) -> dict[int, float]:
        """Return a number of each run that has it, by seed."""
        found = {seed: of(epochs) for seed, epochs in self.by_seed.items()}
        return {seed: value for seed, value in found.items() if value is not None}


@dataclass(frozen=True)
class Claim:
    """A number or a statement of the paper beside ours; ``value`` is our mean."""

    what: str
    texts: tuple[str, ...]
    value: float | None
    verdict: Verdict | None


@dataclass(frozen=True)
class Count:
    """A number of weights: what to call it, how to count it, and where the paper prints it."""

    words: str
    of: Callable[[WeightRecord], float]
    topic: str
    metric: str


COUNTS = (
    Count("weights that are 0 or 1", lambda w: w.kept + w.dropped, "weights", "binary"),
    Count("weights between 0 and 1", lambda w: w.partial, "weights", "non-binary"),
    Count("samples with a weight above 0", lambda w: w.kept + w.partial, "layers", "samples kept"),
)


def count_claims(weighed: Weighed) -> list[Claim]:
    """Hold the counts of weights against the published ones."""
    return [_count_claim(weighed, count) for count in COUNTS]


def _count_claim(weighed: Weighed, count: Count) -> Claim:
    metric = Metric(count.words, lambda _: None, None, digits=1)
    value = published(count.topic).value(weighed.target.key, "fsw", count.metric)
    ours = weighed.values(lambda epochs: fmean(count.of(e.weights) for e in epochs))
    found = compare_values(metric, value, ours)
    texts = (
        weighed.target.title,
        count.words,
        "–" if value is None else str(value),
        metric.text(list(ours.values())) if ours else "–",
        "–" if found.difference is None else metric.difference_text(found.difference),
        _verdict_text(found.verdict, weighed.problem),
    )
    return Claim(count.metric, texts, fmean(ours.values()) if ours else None, found.verdict)


def order_claims(weighed: Weighed) -> list[Claim]:
    """Hold against the runs that the worse group gets the higher mean weight."""
    measure = weighed.target.measure
    shares = weighed.values(lambda epochs: worse_gets_more(epochs, measure))
    share = f" (above 0 in {100 * fmean(shares.values()):.0f} %)" if shares else ""
    found = [
        _order_claim(
            weighed,
            f"mean weight, worse less better{share}",
            weighed.values(lambda epochs: worse_less_better(epochs, measure)),
        )
    ]
    if weighed.target.dataset == "biased-mnist":
        values = weighed.values(lambda epochs: value_less_value(epochs, 1, 0))
        found.append(_order_claim(weighed, "mean weight, other colours less own", values))
    return found


def _order_claim(weighed: Weighed, what: str, values: Mapping[int, float]) -> Claim:
    if not values:
        text = _verdict_text(Verdict.NOT_RUN, weighed.problem)
        return Claim(
            what, (weighed.target.title, what, "above 0", "–", "–", text), None, Verdict.NOT_RUN
        )
    found = interval(list(values.values()))
    start = (weighed.target.title, what, "above 0", format_value(found.mean))
    if found.low is None or found.high is None:
        return Claim(what, (*start, "–", UNTOLD), found.mean, None)
    verdict = Verdict.SAME if found.low > 0 else Verdict.DIFFERENT
    bounds = f"{format_value(found.low)} … {format_value(found.high)}"
    return Claim(what, (*start, bounds, verdict.value), found.mean, verdict)


def _verdict_text(verdict: Verdict | None, problem: str | None) -> str:
    if verdict is None:
        return "–"
    return f"{verdict.value}: {problem}" if verdict is Verdict.NOT_RUN else verdict.value
