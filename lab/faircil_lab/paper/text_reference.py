"""What plain means reach on a stream of texts: the numbers to hold encoders against.

Logistic regression over all classes seen so far, fitted anew after each task on all their training
samples: nothing to forget and nothing to tune. On word counts it says what an encoder has to beat,
on an encoder's embeddings what a learner loses by seeing the classes one task after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faircil.errors import DataError, UsageError, raise_all, unknown_name
from faircil.metrics import TaskMetrics, evaluate

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

Integers = NDArray[np.int64]
MOST_STEPS = 1000  # of the optimiser, which needs about a hundred
MOST_WORDS = 50_000  # bounds the memory of the fit: a number per word and class, a few times over


@dataclass(frozen=True)
class Labelled:
    """Texts or embeddings with their classes and attribute values.

    Parameters
    ----------
    x : ndarray of str as objects, shape (n,), or of float32, shape (n, d)
    y : ndarray of int64, shape (n,)
        Classes.
    z : ndarray of int64, shape (n,), optional
        Attribute values.
    """

    x: NDArray[Any]
    y: Integers
    z: Integers | None = None

    def of(self, classes: Sequence[int]) -> Labelled:
        """Return the samples of these classes."""
        rows = np.isin(self.y, classes)
        return Labelled(self.x[rows], self.y[rows], None if self.z is None else self.z[rows])


def _tfidf() -> Pipeline:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    # Words and pairs of words; one that occurs in a single text tells nothing about others.
    words = TfidfVectorizer(
        sublinear_tf=True,
        ngram_range=(1, 2),
        min_df=2,
        max_features=MOST_WORDS,
        dtype=np.float32,
    )
    return make_pipeline(words, _regression(3))


def _linear() -> Pipeline:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Encoders differ in scale, and a penalty on weights means nothing without one.
    return make_pipeline(StandardScaler(), _regression(0.003))


def _regression(freedom: float) -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    # The accuracy of a run is a mean over classes, so large ones count no more here either.
    return LogisticRegression(C=freedom, class_weight="balanced", max_iter=MOST_STEPS)


REFERENCES: dict[str, Callable[[], Pipeline]] = {"tfidf": _tfidf, "linear": _linear}


def joint_reference(
    kind: str, train: Labelled, test: Labelled, tasks: Sequence[tuple[int, ...]]
) -> tuple[TaskMetrics, ...]:
    """Fit and measure a reference after each task, as a run measures a learner.

    Parameters
    ----------
    kind : str
        ``tfidf`` for texts, ``linear`` for embeddings.
    train, test : Labelled
    tasks : sequence of tuple of int
        Classes of each task. Samples of other classes take no part.

    Returns
    -------
    tuple of TaskMetrics
        After task l: on the test samples of the tasks up to l, by a model of their classes.
        A first task of one class is predicted right: there is nothing else to predict.
    """
    if kind not in REFERENCES:
        raise UsageError(unknown_name("reference", kind, REFERENCES))
    _check(train, test, tasks)
    task_of = {c: number for number, classes in enumerate(tasks) for c in classes}
    results = []
    for number in range(len(tasks)):
        seen = [c for classes in tasks[: number + 1] for c in classes]
        known, asked = train.of(seen), test.of(seen)
        predicted = np.full(len(asked.y), seen[0])
        if len(seen) > 1:
            predicted = REFERENCES[kind]().fit(known.x, known.y).predict(asked.x)
        task = np.array([task_of[c] for c in asked.y.tolist()])
        results.append(evaluate(asked.y, predicted, task=task, sensitive=asked.z))
    return tuple(results)


def _check(train: Labelled, test: Labelled, tasks: Sequence[tuple[int, ...]]) -> None:
    raise_all(
        [
            f"class {c} has no {name} sample; leave it out of the tasks"
            for name, part in (("training", train), ("test", test))
            for c in sorted({c for classes in tasks for c in classes} - set(part.y.tolist()))
        ],
        DataError,
    )
