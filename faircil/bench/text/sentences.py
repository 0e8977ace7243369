"""What a benchmark of an encoder found, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from faircil.bench.text.cases import EMBEDDINGS, TRAININGS
from faircil.bench.text.gauge import Cost
from faircil.bench.text.record import TextResults
from faircil.bench.text.summary import embeddings_of, epochs_of, middle, parts_of
from faircil.bench.text.tables import percent, rate
from faircil.bench.timing import written

GOAL = 0.15  # of an epoch, at most, for statistics beyond one pass and program


def sentences(results: TextResults) -> Iterator[str]:
    """Say how fast and how large the parts are, and whether the weights are cheap enough."""
    if results.epochs:
        yield from _about_epochs(results)
    if results.embeddings:
        yield from _about_embeddings(results)


def _about_epochs(results: TextResults) -> Iterator[str]:
    rounds = results.epochs
    forward, training = middle([one.forward for one in rounds]), parts_of(rounds)
    usual, frugal, mixed = (training[way.name] for way in TRAININGS)
    yield f"Training: {rate(usual)} tokens per second{_peak(usual)}."
    yield (
        f"With {TRAININGS[1].token_budget:,} tokens at once instead of "
        f"{TRAININGS[0].token_budget:,}: {rate(frugal)} tokens per second{_peak(frugal)}."
    )
    yield (
        f"Texts of all lengths: {rate(mixed)} tokens per second, padding not counted{_peak(mixed)}."
    )
    yield f"One pass without gradients: {rate(forward)} tokens per second{_peak(forward)}."
    _, whole, kept = epochs_of(rounds, results.workload)
    for epoch in (whole, kept):
        verdict = "reached" if epoch.share_beyond <= GOAL else "**missed**"
        yield (
            f"{epoch.name} ({epoch.samples:,} of {rounds[0].samples:,}): beyond the one pass, "
            f"statistics ({written(epoch.beyond)}) and LP ({written(epoch.lp)}) take "
            f"{percent(epoch.share_beyond)} of an epoch of {written(epoch.total)}; the goal of at "
            f"most {100 * GOAL:.0f} % is {verdict}."
        )


def _about_embeddings(results: TextResults) -> Iterator[str]:
    costs = embeddings_of(results.embeddings)
    for case in (EMBEDDINGS[0], EMBEDDINGS[1], EMBEDDINGS[-1]):
        if case in costs:
            cost = costs[case]
            yield (
                f"A frozen encoder, {case.name}: {rate(cost)} tokens per second, "
                f"{written(cost.seconds)}{_peak(cost)}."
            )


def _peak(cost: Cost) -> str:
    return "" if cost.memory is None else f", peak {cost.memory:.2f} GiB"
