from __future__ import annotations

import numpy as np
import pytest

from faircil.errors import DataError, UsageError
from faircil.metrics import evaluate
from faircil_lab.paper.biographies import Labelled, joint_reference

WORDS = ("bone", "tooth", "court", "ledger")


def made_texts(n: int, seed: int) -> Labelled:
    """Make texts that name their class in a word; those with y = 0 and z = 1 name class 1."""
    generator = np.random.default_rng(seed)
    y, z = np.arange(n) % 4, generator.integers(0, 2, n)
    named = np.where((y == 0) & (z == 1), 1, y)
    texts = [f"works with a {WORDS[c]}" for c in named]
    return Labelled(np.array(texts, dtype=object), y, z)


def test_metrics_are_those_of_what_can_be_told() -> None:
    train, test = made_texts(400, 0), made_texts(200, 1)
    after = joint_reference("tfidf", train, test, [(0, 2), (3, 1)])
    # Class 0 against 2: the odd texts of class 0 are the only ones with their word.
    assert (after[0].accuracy, after[0].eo_gap) == (1.0, 0.0)
    predicted = np.where((test.y == 0) & (test.z == 1), 1, test.y)
    task = np.array([0, 1, 0, 1])[test.y]
    assert after[1] == evaluate(test.y, predicted, task=task, sensitive=test.z)
    assert after[1].eo_gap == 0.25


def test_classes_of_later_tasks_are_neither_learnt_nor_asked() -> None:
    train, test = made_texts(80, 0), made_texts(40, 1)
    first = joint_reference("tfidf", train, test, [(2, 3), (0, 1)])[0]
    assert [c.label for c in first.classes] == [2, 3]
    assert first == joint_reference("tfidf", train.of([2, 3]), test.of([2, 3]), [(2, 3)])[0]


def test_embeddings_of_any_scale_give_the_same() -> None:
    generator = np.random.default_rng(0)
    y = np.arange(300) % 3
    x = (np.eye(3, 5)[y] + generator.normal(0, 0.4, (300, 5))).astype(np.float32)
    tasks = [(0,), (1, 2)]

    def after(scale: float) -> list[float]:
        train, test = Labelled(x[:200] * scale, y[:200]), Labelled(x[200:] * scale, y[200:])
        return [metrics.accuracy for metrics in joint_reference("linear", train, test, tasks)]

    assert after(1.0) == after(100.0)
    assert after(1.0)[0] == 1.0  # one class
    assert 0.8 < after(1.0)[1] < 1.0


def test_mistakes_are_explained() -> None:
    part = made_texts(40, 0)
    with pytest.raises(UsageError, match="did you mean 'tfidf'"):
        joint_reference("tf-idf", part, part, [(0, 1)])
    with pytest.raises(DataError, match=r"class 7 has no tr(.|\n)*class 1 has no test"):
        joint_reference("tfidf", part, part.of([0, 2]), [(0, 7), (1, 2)])


def test_large_classes_count_no_more_than_small_ones() -> None:
    """All of the small class is where a third of the large one is, in larger numbers."""
    texts = ["a word"] * 30 + ["others here"] * 60 + ["a word"] * 20
    train = Labelled(np.array(texts, dtype=object), np.array([0] * 90 + [1] * 20))
    test = Labelled(np.array(["others here", "a word"], dtype=object), np.array([0, 1]))
    assert joint_reference("tfidf", train, test, [(0, 1)])[0].accuracy == 1
