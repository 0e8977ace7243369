"""Whether a value grows or falls along a row of settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from faircil.report import format_value
from faircil.reproduction.page import Verdict
from faircil.statistics import interval

UNTOLD = "one seed cannot tell"
CLAIMED = {True: "grows", False: "falls", None: "no clear relation"}


@dataclass(frozen=True)
class Trend:
    """How a value moves along a row of settings.

    Parameters
    ----------
    names : tuple of str
        Where, whose and which value.
    reading : str
        What came out, in words.
    texts : tuple of str
        A line of a table: names, the paper's claim, the rank correlation, the verdict.
    verdict : Verdict or None
        None where the paper claims nothing, or one seed cannot tell.
    """

    names: tuple[str, ...]
    reading: str
    texts: tuple[str, ...]
    verdict: Verdict | None


def trend_of(
    names: tuple[str, ...],
    values: Sequence[Mapping[int, float]],
    grows: bool | None,
    *,
    claimed: bool,
) -> Trend:
    """Correlate the ranks of a value with the place in the row, seed by seed.

    Parameters
    ----------
    names : tuple of str
    values : sequence of mapping from seed to value
        One for each place in the row; seeds that are not everywhere take no part.
    grows : bool or None
        What the paper claims: that it grows, that it falls, neither.
    claimed : bool
        Whether the paper claims anything here.
    """
    claim = CLAIMED[grows] if claimed else "–"
    seeds = sorted(set.intersection(*(set(at_place) for at_place in values)))
    if not seeds:
        verdict = Verdict.NOT_RUN if claimed else None
        texts = (*names, claim, "–", Verdict.NOT_RUN.value)
        return Trend(names, Verdict.NOT_RUN.value, texts, verdict)
    found = interval([rank_correlation([place[seed] for place in values]) for seed in seeds])
    low, high = found.low, found.high
    if low is None or high is None:
        return Trend(names, UNTOLD, (*names, claim, format_value(found.mean), UNTOLD), None)
    low, high = max(low, -1.0), min(high, 1.0)
    told = True if low > 0 else False if high < 0 else None
    verdict = (Verdict.SAME if told == grows else Verdict.DIFFERENT) if claimed else None
    text = f"{format_value(found.mean)} ({format_value(low)} … {format_value(high)})"
    texts = (*names, claim, text, verdict.value if verdict else CLAIMED[told])
    return Trend(names, CLAIMED[told], texts, verdict)


def rank_correlation(values: Sequence[float]) -> float:
    """Return Spearman's rank correlation of values with their places; 0 where all are equal.

    Examples
    --------
    >>> rank_correlation([0.1, 0.3, 0.8]), rank_correlation([2, 2, 2])
    (1.0, 0.0)
    """
    ranks = rankdata(values)
    if np.ptp(ranks) == 0:
        return 0.0
    return float(np.corrcoef(np.arange(len(ranks)), ranks)[0, 1])
