"""Ranks on each stream, levelling down, and an order over all streams.

*On a stream*, each pair of methods is compared by the paired t-test over common seeds, and p-values
are adjusted by Holm over all pairs. The rank of a method is 1 plus the number of methods that are
significantly better: methods that no test distinguishes share a rank, and rank 1 means that no
method is better beyond chance.

*A low disparity is no merit by itself.* A row whose disparity is lower than that of plain replay
although no group gains by it levels down (:func:`faircil.report.table.levels_down`); it, and a
model at chance, take the last rank in disparity, and count as better than no other row there.

*Over all streams* the ranks in final accuracy, disparity and worst group are averaged, each by
itself. The order is by the largest of the three means: a method stands as high as its weakest side,
so that neither accuracy nor fairness can make up for the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from faircil.report.statistics import FEWEST_SEEDS, LEVEL, holm, paired
from faircil.report.table import CHANCE, levels_down
from faircil_lab.suite.board_rows import BoardRow
from faircil_lab.suite.catalogue import Suite, SuiteStream
from faircil_lab.suite.scoring import SCORES, values_of

RANKED = ("final_accuracy", "disparity", "worst_group")
PLAIN_ROW = "replay"  # that levelling down is measured against
Columns = Mapping[str, Mapping[int, float]]  # values by row and seed


def better_than(columns: Columns, higher_is_better: bool) -> dict[str, frozenset[str]]:
    """Return for each row those that are significantly better.

    Parameters
    ----------
    columns : mapping from row to value by seed
    higher_is_better : bool
    """
    pairs = list(combinations(columns, 2))
    tests = [paired(columns[one], columns[other]) for one, other in pairs]
    chances = [
        test.p_value if test.n >= FEWEST_SEEDS and test.p_value is not None else 1.0
        for test in tests
    ]
    found: dict[str, set[str]] = {name: set() for name in columns}
    for (one, other), test, chance in zip(pairs, tests, holm(chances), strict=True):
        if chance > 1 - LEVEL or not test.difference:
            continue
        first_is_better = (test.difference > 0) == higher_is_better
        better, worse = (one, other) if first_is_better else (other, one)
        found[worse].add(better)
    return {name: frozenset(some) for name, some in found.items()}


@dataclass(frozen=True)
class Standing:
    """A row on a stream.

    Parameters
    ----------
    ranks : mapping from score to rank
        Empty for a row that is not ranked.
    levelled : bool
        Whether its disparity is lower than that of plain replay, and no group gains by it.
    at_chance : bool
        Whether the final model is no better than one that always predicts the same class.
    dominated : frozenset of str
        Rows that are significantly better in one of the ranked scores and worse in none.
    """

    ranks: Mapping[str, int]
    levelled: bool
    at_chance: bool
    dominated: frozenset[str] = frozenset()


def standings(
    rows: Sequence[BoardRow], stream: SuiteStream, seeds: Sequence[int]
) -> dict[str, Standing]:
    """Return how rows stand on a stream, those that have scores of it.

    A row is ranked if it has all seeds: a row with a failed seed is not judged on the others.
    """
    there = [row for row in rows if row.scores.get(stream.dataset)]
    means = {row.name: _means(row, stream) for row in there}
    plain = means.get(PLAIN_ROW)
    levelled = {
        name: plain is not None and levels_down(own, plain, "disparity")
        for name, own in means.items()
    }
    chance = {
        name: (own["final_accuracy"] or 0.0) <= CHANCE / stream.size[1]
        for name, own in means.items()
    }
    ranked = [row for row in there if row.ranked and set(seeds) <= set(row.scores[stream.dataset])]
    better = {
        score: better_than(
            {row.name: values_of(row.scores[stream.dataset], score) for row in ranked},
            SCORES[score][0],
        )
        for score in RANKED
    }
    void = frozenset(name for name in means if levelled[name] or chance[name])
    sound = frozenset(better["disparity"]) - void  # all of them better than those in ``void``
    better["disparity"] = {
        name: sound if name in void else some - void for name, some in better["disparity"].items()
    }
    found = {}
    for row in there:
        name = row.name
        ranks, dominated = {}, frozenset[str]()
        if row in ranked:
            ranks = {score: 1 + len(better[score][name]) for score in RANKED}
            ranks |= {"disparity": len(ranked)} if name in void else {}
            dominated = _dominating(name, better)
        found[name] = Standing(ranks, levelled[name], chance[name], dominated)
    return found


def _dominating(name: str, better: Mapping[str, Mapping[str, frozenset[str]]]) -> frozenset[str]:
    """Return the rows that beat one in something and lose to it in nothing."""
    others = better["final_accuracy"]
    return frozenset(
        other
        for other in others
        if any(other in better[score][name] for score in RANKED)
        and not any(name in better[score][other] for score in RANKED)
    )


def _means(row: BoardRow, stream: SuiteStream) -> dict[str, float | None]:
    scores = row.scores[stream.dataset]
    found = {score: list(values_of(scores, score).values()) for score in SCORES}
    return {score: fmean(values) if values else None for score, values in found.items()}


@dataclass(frozen=True)
class Place:
    """A row over all core streams.

    Parameters
    ----------
    name : str
    means : mapping from score to mean rank
        Empty where the row is not ranked on each core stream.
    streams : int
        Core streams on which it is ranked.
    levelled : tuple of str
        Core streams on which it levels down.
    undominated : int
        Core streams on which no row is significantly better in one score and worse in none.
    """

    name: str
    means: Mapping[str, float]
    streams: int
    levelled: tuple[str, ...]
    undominated: int


def places(
    rows: Sequence[BoardRow], suite: Suite, by_stream: Mapping[str, Mapping[str, Standing]]
) -> list[Place]:
    """Return the rows in their order: ranked everywhere first, by the largest mean rank.

    Parameters
    ----------
    rows : sequence of BoardRow
    suite : Suite
    by_stream : mapping from stream to :func:`standings`
    """
    core = [stream.dataset for stream in suite.streams if stream.core]
    found = []
    for row in rows:
        own = {n: by_stream[n][row.name] for n in core if row.name in by_stream.get(n, {})}
        ranked = {name: one for name, one in own.items() if one.ranks}
        means = {}
        if len(ranked) == len(core):
            means = {s: fmean(one.ranks[s] for one in ranked.values()) for s in RANKED}
        found.append(
            Place(
                row.name,
                means,
                len(ranked),
                tuple(name for name, one in own.items() if one.levelled),
                sum(not one.dominated for one in ranked.values()),
            )
        )
    return sorted(found, key=_order)


def _order(place: Place) -> tuple[bool, float, float, int]:
    if not place.means:
        return True, 0.0, 0.0, -place.streams
    return False, max(place.means.values()), sum(place.means.values()), -place.undominated
