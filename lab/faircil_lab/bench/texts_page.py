"""The benchmark of text encoders: tables, sentences, picture and page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from matplotlib.figure import Figure

from faircil.report import Table
from faircil.report.plots import COLOURS
from faircil.text.passes import GRAIN
from faircil.weighting.weights import AUTO_BUDGET
from faircil_lab.bench.benchmark import (
    BarPart,
    Benchmark,
    items,
    sections,
    split_bars,
    table_of,
)
from faircil_lab.bench.texts import (
    ATTRIBUTES,
    BATCH,
    CLASSES,
    EMBEDDINGS,
    ORDINARY,
    QUOTA,
    TASKS,
    TRAININGS,
    Embedding,
    EmbeddingRound,
    EncoderCost,
    EncoderWorkload,
    EpochRound,
    TextOutcome,
    TextResults,
)
from faircil_lab.bench.texts_measure import BUDGET
from faircil_lab.wording import percent, seconds_text


@dataclass(frozen=True)
class Epoch:
    """Seconds of an epoch.

    Parameters
    ----------
    name : str
    samples : int
        Of the task, that it trains on.
    forward : float
        The one pass through the encoder that the statistics need.
    beyond : float
        The statistics beyond that pass.
    lp : float
        The linear program.
    training : float
    """

    name: str
    samples: int
    forward: float
    beyond: float
    lp: float
    training: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.forward + self.beyond + self.lp + self.training

    @property
    def share_beyond(self) -> float:
        """Part of the epoch that statistics and program take, that pass not counted."""
        return (self.beyond + self.lp) / self.total


def beyond_pass(rounds: Sequence[EpochRound]) -> float:
    """Return the seconds of the statistics beyond one pass.

    The larger of two: the statistics less the pass, whose noise is that of the pass, and the
    statistics from stored features, which lack what only the whole net needs.
    """
    rest = median(one.statistics.seconds - one.forward.seconds for one in rounds)
    return max(rest, median(one.on_stored.seconds for one in rounds))


def epochs_of(rounds: Sequence[EpochRound], workload: EncoderWorkload) -> list[Epoch]:
    """Return an epoch of plain replay, of FSW if it kept all texts, and with those it keeps."""
    first = rounds[0]
    rate = median(one.training[TRAININGS[0].name].rate for one in rounds)
    forward = median(one.forward.seconds for one in rounds)
    weights = (forward, beyond_pass(rounds), median(one.lp for one in rounds))

    def training(samples: int) -> float:
        steps = -(-samples // BATCH)
        return (samples + steps * min(BATCH, first.buffer)) * workload.tokens / rate

    kept = round(median(one.kept for one in rounds))
    return [
        Epoch("plain replay", first.samples, 0.0, 0.0, 0.0, training(first.samples)),
        Epoch("FSW, all texts kept", first.samples, *weights, training(first.samples)),
        Epoch("FSW, texts kept by its weights", kept, *weights, training(kept)),
    ]


def parts_of(rounds: Sequence[EpochRound]) -> dict[str, EncoderCost]:
    """Return the medians of what goes through the encoder, by name."""
    parts = {
        "one pass without gradients": [one.forward for one in rounds],
        "statistics, that pass included": [one.statistics for one in rounds],
    }
    for name in rounds[0].training:
        parts[name] = [one.training[name] for one in rounds]
    return {name: middle(costs) for name, costs in parts.items()}


def embeddings_of(rounds: Sequence[EmbeddingRound]) -> dict[Embedding, EncoderCost]:
    """Return the medians of the ways to embed."""
    cases = dict.fromkeys(one.case for one in rounds)
    return {case: middle([one.cost for one in rounds if one.case == case]) for case in cases}


def middle(costs: Sequence[EncoderCost]) -> EncoderCost:
    """Return the median of the seconds and the largest peak of costs of the same work."""
    peaks = [cost.memory for cost in costs if cost.memory is not None]
    seconds = median(cost.seconds for cost in costs)
    return EncoderCost(seconds, costs[0].tokens, max(peaks) if peaks else None)


SPEED = ("tokens", "time", "tokens per second", "peak GPU memory")


def text_tables(results: TextResults) -> list[Table]:
    """Make a table of an epoch, one of its parts, one of embedding; of what was measured."""
    tables = []
    if results.epochs:
        tables.append(epoch_table(epochs_of(results.epochs, results.workload)))
        rows = [(name, *speed(cost)) for name, cost in parts_of(results.epochs).items()]
        tables.append(table_of("Parts of an epoch", ("part", *SPEED), rows))
    if results.embeddings:
        costs = embeddings_of(results.embeddings)
        rows = [(case.name, *speed(cost)) for case, cost in costs.items()]
        tables.append(table_of("Embeddings of a frozen encoder", ("way", *SPEED), rows))
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
            *map(
                seconds_text, (epoch.forward, epoch.beyond, epoch.lp, epoch.training, epoch.total)
            ),
            percent(epoch.share_beyond, 2),
        )
        for epoch in epochs
    ]
    return table_of("An epoch", header, rows)


def speed(cost: EncoderCost) -> tuple[str, ...]:
    """Write tokens, time, tokens per second and peak memory."""
    memory = "–" if cost.memory is None else f"{cost.memory:.2f} GiB"
    return f"{cost.tokens:,}", seconds_text(cost.seconds), rate(cost), memory


def rate(cost: EncoderCost) -> str:
    """Write tokens per second with three digits.

    Examples
    --------
    >>> rate(EncoderCost(2.0, 3_456_789, None)), rate(EncoderCost(2.0, 100, None))
    ('1,730,000', '50')
    """
    return f"{float(f'{cost.rate:.3g}'):,.0f}"


# Fields of an epoch, what people call them, and their colours.
PARTS = (
    ("training", "training", COLOURS[0]),
    ("forward", "one pass of the encoder", COLOURS[4]),
    ("beyond", "statistics beyond it", COLOURS[1]),
    ("lp", "linear program", COLOURS[6]),
)


def epoch_bars(epochs: Sequence[Epoch]) -> Figure:
    """Draw a bar per epoch, split into its parts."""
    layers = [
        BarPart(name, colour, [getattr(epoch, field) for epoch in epochs])
        for field, name, colour in PARTS
    ]
    words = [
        f"{percent(epoch.share_beyond, 2)} beyond the pass" if epoch.forward > 0 else ""
        for epoch in epochs
    ]
    return split_bars([epoch.name for epoch in epochs], layers, words, "seconds of an epoch")


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
    ordinary, ordinary_mixed = (_against(training.get(way.name)) for way in ORDINARY)
    yield f"Training: {rate(usual)} tokens per second{ordinary}{_peak(usual)}."
    yield (
        f"With {TRAININGS[1].token_budget:,} tokens at once instead of "
        f"{TRAININGS[0].token_budget:,}: {rate(frugal)} tokens per second{_peak(frugal)}."
    )
    yield (
        f"Texts of all lengths: {rate(mixed)} tokens per second{ordinary_mixed}, padding not "
        f"counted{_peak(mixed)}."
    )
    yield f"One pass without gradients: {rate(forward)} tokens per second{_peak(forward)}."
    _, whole, kept = epochs_of(rounds, results.workload)
    for epoch in (whole, kept):
        verdict = "reached" if epoch.share_beyond <= GOAL else "**missed**"
        yield (
            f"{epoch.name} ({epoch.samples:,} of {rounds[0].samples:,}): beyond the one pass, "
            f"statistics ({seconds_text(epoch.beyond)}) and LP ({seconds_text(epoch.lp)}) take "
            f"{percent(epoch.share_beyond, 2)} of an epoch of {seconds_text(epoch.total)}; the "
            f"goal of at most {percent(GOAL)} is {verdict}."
        )


def _about_embeddings(results: TextResults) -> Iterator[str]:
    costs = embeddings_of(results.embeddings)
    for case in (EMBEDDINGS[0], EMBEDDINGS[1], EMBEDDINGS[-1]):
        if case in costs:
            cost = costs[case]
            yield (
                f"A frozen encoder, {case.name}: {rate(cost)} tokens per second, "
                f"{seconds_text(cost.seconds)}{_peak(cost)}."
            )


def _against(ordinary: EncoderCost | None) -> str:
    return "" if ordinary is None else f" ({rate(ordinary)} if steps are not recorded)"


def _peak(cost: EncoderCost) -> str:
    return "" if cost.memory is None else f", peak {cost.memory:.2f} GiB"


PICTURE = "epoch"  # its name
WHAT = """
An encoder of BERT's architecture with random weights: {w.layers} layers, {w.hidden} numbers per
token. A corpus of {w.rows:,} texts of {w.tokens} tokens each, which are drawn: {classes} classes,
{attributes} attribute values, {tasks} tasks. Median of {w.repeats} rounds (for memory, the largest
peak), in which all parts take turns, after a warm-up round.
"""
EPOCH = """
The epoch is of the last task: {epoch.samples:,} texts, and up to {quota} of each earlier group in
the buffer, {epoch.buffer:,} in all. By `eo`, {epoch.groups} groups are compared; every text has a
weight. *One pass* is task and buffer through the encoder without gradients, *statistics beyond*
everything else until the alignment of every text with every group is known, *LP* the linear
program. These are measured at full size. *Training* has batches of {batch} and as many replayed
texts; {steps:,} steps were timed in each round, and their speed gives the time of the {all_steps:,}
of an epoch. The texts are synthetic and the net is hardly trained, so `alpha` is {times:g} times as
large as with `auto`, so that the program has a choice; how many texts it keeps says nothing about
real ones.
{recorded}
![where the time of an epoch is spent]({picture})
"""
RECORDED = """
Steps are recorded as CUDA graphs, in fixed shapes: texts of a batch are padded to a multiple of
{grain} tokens. The GPU memory that a recording keeps, about the peak of a step, is not available to
other work until the task ends. Steps with more tokens than are allowed at once are not recorded.
"""
EMBEDDINGS_TEXT = """
Embedding goes through the corpus in shards, as a run does; the whole corpus is embedded once. If
memory is bounded, its peak is that of a part.
"""


def _text(results: TextResults, pictures: Mapping[str, str]) -> str:
    workload = results.workload
    text = WHAT.format(w=workload, classes=CLASSES, attributes=ATTRIBUTES, tasks=TASKS)
    text += f"\n{items(sentences(results))}\n"
    if results.epochs:
        epoch = results.epochs[0]
        all_steps = -(-epoch.samples // BATCH)
        text += EPOCH.format(
            epoch=epoch,
            quota=QUOTA,
            times=BUDGET / AUTO_BUDGET,
            batch=BATCH,
            steps=min(workload.steps, all_steps),
            all_steps=all_steps,
            picture=pictures[PICTURE],
            recorded=RECORDED.format(grain=GRAIN) if ORDINARY[0].name in epoch.training else "",
        )
    if results.embeddings:
        text += EMBEDDINGS_TEXT
    return text + sections(text_tables(results))


def _document(results: TextResults) -> dict[str, Any]:
    parts = parts_of(results.epochs) if results.epochs else {}
    ways = {case.name: cost for case, cost in embeddings_of(results.embeddings).items()}
    return {
        "workload": asdict(results.workload),
        "epochs": [
            asdict(epoch) | {"total": epoch.total, "share_beyond": epoch.share_beyond}
            for epoch in _epochs(results)
        ],
        "parts": {name: _with_rate(cost) for name, cost in parts.items()},
        "embeddings": {name: _with_rate(cost) for name, cost in ways.items()},
        "rounds": [asdict(outcome) for outcome in results.outcomes],
    }


def _epochs(results: TextResults) -> list[Epoch]:
    return epochs_of(results.epochs, results.workload) if results.epochs else []


def _figures(results: TextResults) -> dict[str, Figure]:
    epochs = _epochs(results)
    return {PICTURE: epoch_bars(epochs)} if epochs else {}


def _with_rate(cost: EncoderCost) -> dict[str, float | None]:
    return asdict(cost) | {"tokens_per_second": cost.rate}


def _rows(results: TextResults) -> Iterator[dict[str, Any]]:
    """Yield the cost of each part of an epoch, and of each way to embed, round by round."""

    def row(part: str, number: int, cost: EncoderCost) -> dict[str, Any]:
        return {
            "part": part,
            "round": number,
            "seconds": cost.seconds,
            "tokens": cost.tokens,
            "memory_gib": cost.memory,
        }

    for one in results.epochs:
        parts = {
            "forward": one.forward,
            "statistics": one.statistics,
            "statistics from stored features": one.on_stored,
            "LP": EncoderCost(one.lp, 0, None),
            **one.training,
        }
        yield from (row(name, one.number, cost) for name, cost in parts.items())
    for way in results.embeddings:
        yield row(way.case.name, way.number, way.cost)


def _line(outcome: TextOutcome) -> str:
    if isinstance(outcome, EpochRound):
        speeds = (f"{name}: {rate(cost)} per second" for name, cost in outcome.training.items())
        return (
            f"epoch, round {outcome.number}: one pass {seconds_text(outcome.forward.seconds)}, "
            f"statistics with it {seconds_text(outcome.statistics.seconds)}, LP "
            f"{seconds_text(outcome.lp)}; {'; '.join(speeds)}"
        )
    speed = rate(outcome.cost)
    return f"embedding, {outcome.case.name}, round {outcome.number}: {speed} tokens per second"


ENCODER_TIMES = Benchmark[TextResults](
    title="Time of a text encoder",
    line=_line,
    document=_document,
    rows=_rows,
    tables=text_tables,
    figures=_figures,
    text=_text,
    sentences=sentences,
    besides=lambda results: f", device {results.environment['device']}",
)
