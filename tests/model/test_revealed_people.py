"""What a model of moments reveals: a cell of one is a person, unless small cells are pooled.

The attacks read what is saved, as anybody who has the files can.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor

from faircil import FairIncrementalClassifier
from faircil.data.features import TableEncoder
from faircil.learners.moments import Moments
from faircil.model.saved import load_model
from faircil.moments.features import FARTHEST, RandomRelu
from faircil.moments.seen_rows import row_sums

DIGITS, LABELS = load_digits(return_X_y=True)
ALONE = 7  # row of the only person of its class and group


def fitted(folder: Path, rows: NDArray[np.int64], **settings: object) -> FairIncrementalClassifier:
    """Fit and save digits, of which one has the attribute value b."""
    group = np.where(rows == ALONE, "b", "a")
    model = FairIncrementalClassifier("moments", settings={"width": 200, **settings})
    model.fit(DIGITS[rows], LABELS[rows], sensitive_features=group)
    model.save(folder)
    return model


def inverted(folder: Path, feature: Tensor) -> Tensor:
    """Return the pixels of random features, by what is saved: a linear system, and scales."""
    model = load_model(folder)
    drawn, encoder = model.learner.net.features, model.encoder
    assert isinstance(encoder, TableEncoder)
    assert isinstance(drawn, RandomRelu)
    active = feature > 0  # there, the ReLU is linear
    left = drawn.weight[:, active].T.double()
    solved = torch.linalg.lstsq(left, feature[active].double() - drawn.bias[active]).solution
    beyond = solved.abs() - FARTHEST  # what lies beyond was drawn in by a logarithm
    z = torch.where(beyond > 0, solved.sign() * (FARTHEST + beyond.expm1()), solved)
    x = torch.zeros(len(z), dtype=torch.float64)
    x[drawn.order] = z / drawn.standardise.factor[drawn.order] + drawn.standardise.mean[drawn.order]
    shift, scale = (
        torch.tensor([getattr(column, name)[0] for column in encoder.columns])
        for name in ("shift", "scale")
    )
    return x * scale + shift


def inputs_of(folder: Path, rows: list[int]) -> Tensor:
    """Return rows of the table as the model takes them."""
    encoder = load_model(folder).encoder
    assert isinstance(encoder, TableEncoder)
    return torch.from_numpy(encoder.inputs(pd.DataFrame(DIGITS[rows], columns=encoder.names)))


def cell(folder: Path, key: tuple[int, ...]) -> tuple[float, Tensor]:
    moments = load_model(folder).learner.moments
    place = moments.keys.index(key)
    return moments.count[place], moments.first[place]


def test_a_cell_of_one_gives_the_person_back(tmp_path: Path) -> None:
    fitted(tmp_path, np.arange(600))
    count, first = cell(tmp_path, (int(LABELS[ALONE]), 1))
    assert count == 1
    # Pixels are 0 to 16. float32 keeps 7 digits, and the system is well conditioned.
    np.testing.assert_allclose(inverted(tmp_path, first).numpy(), DIGITS[ALONE], atol=0.02)


def test_two_versions_of_a_model_give_the_newcomer_back(tmp_path: Path) -> None:
    rows = np.delete(np.arange(600), ALONE)
    model = fitted(tmp_path / "before", rows, arithmetic="float64")
    newcomer = (DIGITS[[ALONE]], LABELS[[ALONE]])
    model.partial_fit(*newcomer, sensitive_features=["a"])
    model.save(tmp_path / "after")
    key = (int(LABELS[ALONE]), 0)
    (before, one), (after, two) = (cell(tmp_path / name, key) for name in ("before", "after"))
    assert after - before == 1
    np.testing.assert_allclose(
        inverted(tmp_path / "before", two - one).numpy(), DIGITS[ALONE], atol=0.02
    )


def test_with_a_least_size_neither_is_possible(tmp_path: Path) -> None:
    model = fitted(tmp_path / "before", np.arange(600), min_cell=10)
    learner = load_model(tmp_path / "before").learner
    assert isinstance(learner, Moments)
    assert learner.moments is not None
    assert min(learner.moments.count) >= 10
    text = json.loads((tmp_path / "before" / "model.json").read_text())
    assert min(group["rows"] for group in text["summary"]["groups"]) >= 10
    with pytest.raises(ValueError, match="none of the classes has 10 rows"):
        model.partial_fit(DIGITS[:1], LABELS[:1], sensitive_features=["a"])
    model.partial_fit(DIGITS[600:900], LABELS[600:900], sensitive_features=["a"] * 300)
    model.save(tmp_path / "after")
    after = load_model(tmp_path / "after").learner.moments
    for key, count in zip(learner.moments.keys, learner.moments.count, strict=True):
        assert after.count[after.keys.index(key)] - count >= 10
    # The person is known among the others, and can be forgotten; their group has a cell no more.
    model.forget(DIGITS[[ALONE]], LABELS[[ALONE]], sensitive_features=["b"])
    assert sum(group.rows for group in model.model_.seen) == 899
    assert "earlier copy" in model.model_.lessons[-1].notes[0]


def test_check_sums_tell_who_is_in_and_noise_leaves_none(tmp_path: Path) -> None:
    fitted(tmp_path / "exact", np.arange(600))
    seen = load_model(tmp_path / "exact").learner.moments.seen.sums
    own = row_sums(inputs_of(tmp_path / "exact", [3, 700])).tolist()
    sums = set(torch.cat(list(seen.values())).tolist())
    assert [one in sums for one in own] == [True, False]
    noised = fitted(tmp_path / "noised", np.arange(600), noise_epsilon=1.0)
    assert len(load_model(tmp_path / "noised").learner.moments.seen) == 0
    assert noised.model_.lessons[-1].digest == ""
    _, first = cell(tmp_path / "noised", (int(LABELS[ALONE]), 1))
    folder = tmp_path / "noised"
    exact = load_model(folder).learner.net.features(inputs_of(folder, [ALONE]))
    # One person among 200 numbers of a deviation of 5 · 200: no likeness is left.
    assert float(torch.cosine_similarity(first[None, :-1], exact[:, :-1])) < 0.9


def test_saving_says_whose_sums_are_of_very_few(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = fitted(tmp_path / "exact", np.arange(600))
    (said,) = caplog.messages
    name = LABELS[ALONE]
    assert f"the smallest group has one row (class '{name}', 'b')" in said
    assert "`settings={'min_cell': 10}`" in said
    caplog.clear()
    fitted(tmp_path / "pooled", np.arange(600), min_cell=10)
    fitted(tmp_path / "noised", np.arange(600), noise_epsilon=1.0)
    assert caplog.messages == []
    with pytest.raises(ValueError, match="not added"):
        model.forget(DIGITS[[ALONE]], LABELS[[ALONE]], sensitive_features=["a"])


def test_a_method_that_keeps_rows_is_no_choice_then() -> None:
    model = FairIncrementalClassifier("auto", settings={"min_cell": 10, "width": 50})
    group = np.where(np.arange(1000) % 2, "a", "b")
    model.fit(DIGITS[:1000], LABELS[:1000], sensitive_features=group)
    assert model.model_.config.method == "moments"
    assert "keep rows of people" in model.model_.notes[0]
    with pytest.raises(ValueError, match="min_cell"):
        FairIncrementalClassifier("er", settings={"min_cell": 10}).fit(DIGITS, LABELS)


def test_no_hash_of_forgotten_people_is_left() -> None:
    model = FairIncrementalClassifier("moments", settings={"width": 50})
    model.fit(DIGITS[:300], LABELS[:300])
    one = (DIGITS[300:301], LABELS[300:301])
    for _ in range(2):
        model.partial_fit(*one)
    known = model.model_.lessons[1].digest
    model.forget(*one)
    assert [lesson.digest == known for lesson in model.model_.lessons] == [
        False,
        True,
        False,
        False,
    ]
    model.forget(*one)
    assert known not in {lesson.digest for lesson in model.model_.lessons}
    model.partial_fit(*one)
    assert model.model_.lessons[-1].notes == ()
