"""Batches in Python: one pass over data larger than memory, and one choice of weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch.utils.data import DataLoader, TensorDataset

from faircil import FairIncrementalClassifier
from tables_in_parts import people

SETTINGS = {"width": 40, "arithmetic": "float64"}


def classifier(**more: Any) -> FairIncrementalClassifier:
    return FairIncrementalClassifier("moments", settings=SETTINGS, random_state=0, **more)


def batches(table: pd.DataFrame, size: int) -> Iterator[tuple[Any, Any, Any]]:
    for first in range(0, len(table), size):
        part = table[first : first + size]
        yield part[["a", "b", "c"]], part["job"], part["sex"]


def test_batches_are_learned_as_all_rows_at_once() -> None:
    table = people()
    one = classifier().fit_batches(batches(table, len(table)))
    (x, y, sex), *_ = batches(table, len(table))
    whole = classifier().fit(x, y, sensitive_features=sex)
    assert np.array_equal(one.predict(x), whole.predict(x))
    several = classifier().fit_batches(batches(table, 250))
    assert several.model_.lessons[-1].rows == len(table)
    assert (several.predict(x) == y).mean() > (whole.predict(x) == y).mean() - 0.05
    assert sorted(several.classes_) == ["cook", "judge", "nurse"]


def test_new_classes_may_come_in_later_batches_and_later_lessons() -> None:
    table = people().sort_values("job", kind="stable")  # nurses come last
    known = table[table["job"] != "nurse"].sample(frac=1, random_state=0)
    nurses = table[table["job"] == "nurse"]
    model = classifier().fit_batches([*batches(known, 300), *batches(nurses, 100)])
    assert model.classes_.tolist() == ["cook", "judge", "nurse"]
    later = classifier().fit_batches(batches(known, 300)).partial_fit_batches(batches(nurses, 100))
    x = table[["a", "b", "c"]]
    assert np.array_equal(model.model_.learner.moments.count, later.model_.learner.moments.count)
    assert (model.predict(x) == later.predict(x)).mean() > 0.98


def test_loaders_and_mapped_arrays_are_batches(tmp_path: Any) -> None:
    table = people()
    x = table[["a", "b", "c"]].to_numpy(np.float32)
    y, z = table["job"].factorize(sort=True)[0], table["sex"].factorize(sort=True)[0]
    data = TensorDataset(*map(torch.from_numpy, (x, y, z)))
    model = classifier().fit_batches(DataLoader(data, batch_size=300))
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    parts = [(mapped[n : n + 300], y[n : n + 300], z[n : n + 300]) for n in range(0, len(x), 300)]
    again = classifier().fit_batches(parts)
    assert np.array_equal(model.predict(x), again.predict(x))


def test_a_batch_that_is_wrong_changes_nothing() -> None:
    table = people()
    model = classifier().fit_batches(batches(table, 400))
    before = model.model_.lessons[-1]
    wrong = [*batches(table[:300], 100), (table[["a", "b", "c"]][:5], ["cook"] * 4, ["F"] * 4)]
    with pytest.raises(ValueError, match="5 rows and y has 4"):
        model.partial_fit_batches(wrong)
    assert model.model_.lessons[-1] is before
    with pytest.raises(ValueError, match="expected \\(X, y\\)"):
        model.partial_fit_batches([table])
    with pytest.raises(ValueError, match="there is no batch"):
        classifier().fit_batches([])
    with pytest.raises(ValueError, match="needs all rows together"):
        FairIncrementalClassifier("er").fit_batches(batches(table, 400))


def test_batches_that_break_off_leave_a_classifier_that_can_begin_again() -> None:
    table = people(400)

    def broken() -> Iterator[tuple[Any, Any, Any]]:
        yield from batches(table[:200], 100)
        raise OSError("the disk is gone")

    model = classifier()
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit_batches(broken())
    with pytest.raises(NotFittedError):
        model.predict(table[["a", "b", "c"]])
    model.partial_fit_batches(batches(table, 200))
    before = model.model_.lessons
    with pytest.raises(OSError, match="the disk is gone"):
        model.partial_fit_batches(broken())
    assert model.model_.lessons == before
    assert sum(one.rows for one in model.model_.seen) == 400


def test_auto_takes_moments_for_batches() -> None:
    model = FairIncrementalClassifier(random_state=0).fit_batches(batches(people(), 600))
    assert model.model_.config.method == "moments"
