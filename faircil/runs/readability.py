"""Whether a sensitive attribute can be predicted from the inputs by a linear classifier.

A ridge classifier of the attribute is fitted to standardised inputs of a part of the training rows
and evaluated on the others. It is compared to predicting the most frequent value, overall and of
each class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binomtest

from faircil.data.splits import validation_stream
from faircil.data.stream import TaskStream
from faircil.errors import DataError
from faircil.samples import Samples, concatenate

HELD_OUT = 0.3  # fraction of training rows on which the classifier is evaluated
MOST_ROWS = 5000  # for fitting and for evaluation, which gives sufficient precision
PENALTY = 0.1  # of the ridge classifier, relative to the number of rows
LEVEL = 0.95  # of intervals


@dataclass(frozen=True)
class Readability:
    """How well a linear classifier predicts the attribute from the inputs.

    Parameters
    ----------
    accuracy : float
        Accuracy on held-out training rows.
    low, high : float
        Its 95 % Wilson interval.
    majority, by_class : float
        Accuracy on these rows of predicting the most frequent value, overall and of each class.
    rows : int
        Number of held-out rows.
    """

    accuracy: float
    low: float
    high: float
    majority: float
    by_class: float
    rows: int


def read_attribute(stream: TaskStream, seed: int) -> tuple[Readability | None, list[str]]:
    """Predict the attribute from the inputs by a linear classifier; else return the reasons."""
    unread = f"unknown whether {stream.attribute} can be read from the inputs: "
    if not all(task.train.x.is_floating_point() for task in stream.tasks):
        return None, [f"{unread}the encoder of the texts is trained, so there are no inputs yet"]
    try:
        parted = validation_stream(stream, seed, HELD_OUT)
    except DataError:
        return None, [f"{unread}too few training rows to hold some out"]
    draw = np.random.default_rng(seed)
    parts = [concatenate([task.train for task in parted.tasks])]
    parts.append(concatenate([task.test for task in parted.tasks]))
    fitted, judged = (_known_rows(part, draw) for part in parts)
    if not len(judged) or len(np.unique(_attribute(fitted))) < 2:
        return None, [f"{unread}too few rows with a known value"]
    hits = _read(fitted, judged) == _attribute(judged)
    interval = binomtest(int(hits.sum()), len(hits)).proportion_ci(LEVEL, method="wilson")
    return Readability(
        float(hits.mean()),
        float(interval.low),
        float(interval.high),
        _guessed(np.zeros_like(_attribute(fitted)), fitted, np.zeros(len(judged), int), judged),
        _guessed(fitted.y.numpy(), fitted, judged.y.numpy(), judged),
        len(judged),
    ), []


def _attribute(samples: Samples) -> NDArray[np.int64]:
    assert samples.z is not None
    found: NDArray[np.int64] = samples.z.numpy()
    return found


def _known_rows(samples: Samples, draw: np.random.Generator) -> Samples:
    """Return rows with a known attribute value, at most ``MOST_ROWS``, drawn at random."""
    rows = np.flatnonzero(_attribute(samples) >= 0)
    rows = draw.permutation(rows)[:MOST_ROWS]
    return samples.take(torch.from_numpy(rows))


def _read(fitted: Samples, judged: Samples) -> NDArray[np.int64]:
    """Predict the attribute of some rows by ridge regression on others, (m,)."""
    from sklearn.linear_model import RidgeClassifier  # takes a second to import

    x = fitted.x.flatten(1).double().numpy()
    mean, spread = x.mean(axis=0), x.std(axis=0)
    spread[spread == 0] = 1.0
    reader = RidgeClassifier(alpha=PENALTY * len(x)).fit((x - mean) / spread, _attribute(fitted))
    new = (judged.x.flatten(1).double().numpy() - mean) / spread
    found: NDArray[np.int64] = reader.predict(new)
    return found


def _guessed(
    place: NDArray[np.int64], fitted: Samples, there: NDArray[np.int64], judged: Samples
) -> float:
    """Return the accuracy of predicting the most frequent value of each place."""
    values, hits = _attribute(fitted), 0
    for one in np.unique(there):
        seen = values[place == one]
        best = np.bincount(seen if len(seen) else values).argmax()
        hits += int((_attribute(judged)[there == one] == best).sum())
    return hits / len(judged)


def readable_sentence(attribute: str, one: Readability) -> str:
    """Describe how well a linear classifier predicts the attribute."""
    told = (
        f"a linear classifier is right on {one.accuracy:.0%} of {one.rows:,} held-out rows "
        f"({LEVEL:.0%} interval {one.low:.0%} to {one.high:.0%}), the most frequent value on "
        f"{one.majority:.0%}, the most frequent of each class on {one.by_class:.0%}"
    )
    if one.low <= one.majority:
        return f"{attribute} cannot be read from the inputs, as far as this test shows: {told}"
    if one.low <= one.by_class:
        return f"{attribute} can be read from the inputs, but no better than from the class: {told}"
    return (
        f"{attribute} can be read from the inputs, so a model can treat its values differently "
        f"without being given it: {told}"
    )
