"""The scikit-learn estimator: its contract, new classes, data frames, and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from faircil import FairIncrementalClassifier

SMALL = {"width": 40}


@parametrize_with_checks(
    [
        FairIncrementalClassifier(settings=SMALL),
        FairIncrementalClassifier("er", settings={"epochs": 20, "lr": 0.03, "hidden": [16]}),
    ]
)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def data(classes: int = 3, n: int = 60, seed: int = 0):
    generator = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), n)
    x = generator.normal(size=(len(y), 4)) + 3 * np.eye(4)[y % 4]
    return x, y, np.array(["f", "m"])[np.arange(len(y)) % 2]


def small(**changes) -> FairIncrementalClassifier:
    return FairIncrementalClassifier("moments", settings=SMALL, **changes)


def test_new_classes_at_any_time():
    x, y, z = data()
    first = y < 2
    model = small().partial_fit(x[first], y[first], sensitive_features=z[first])
    assert model.classes_.tolist() == [0, 1]
    model.partial_fit(x[~first], y[~first], sensitive_features=z[~first])
    assert model.classes_.tolist() == [0, 1, 2]
    assert model.score(x, y) > 0.85
    assert model.predict_proba(x).shape == (len(x), 3)
    model.fit(x[first], y[first])  # from nothing
    assert model.classes_.tolist() == [0, 1]


def test_classes_of_any_type_keep_it():
    x, y, _ = data()
    for labels in (np.array(["zebra", "ant", "mole"])[y], y * 2.0, y == 0):
        model = small().fit(x, labels)
        assert model.predict(x).dtype.kind == labels.dtype.kind
        assert model.classes_.tolist() == sorted(set(labels.tolist()))
        best = model.classes_[model.predict_proba(x).argmax(axis=1)]
        assert (best == model.predict(x)).all()


def test_data_frames_with_text_and_gaps():
    x, y, z = data()
    frame = pd.DataFrame(x[:, :2], columns=["a", "b"])
    frame["c"] = np.where(y == 0, "left", "right")
    frame.loc[::7, "a"] = None
    people = pd.DataFrame({"sex": z, "race": np.where(y % 2, "b", "w")})
    people.loc[0, "race"] = None
    model = small().fit(frame, y, sensitive_features=people)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.model_.values == ["f × b", "f × w", "m × b", "m × w"]
    assert model.score(frame, y) > 0.6
    with pytest.raises(ValueError, match="no column 'c'"):
        model.predict(frame[["a", "b"]])


def test_polars_frames():
    polars = pytest.importorskip("polars")
    x, y, _ = data()
    frame = polars.DataFrame(x, schema=["a", "b", "c", "d"])
    model = small().fit(frame, y)
    assert model.score(frame, y) > 0.8


def test_pipelines_searches_and_copies():
    x, y, z = data()
    assert make_pipeline(StandardScaler(), small()).fit(x, y).score(x, y) > 0.8
    found = GridSearchCV(small(), {"lam": [0.5, 2]}, cv=2).fit(x, y, sensitive_features=z)
    assert found.best_params_["lam"] in (0.5, 2)
    assert len(cross_validate(small(), x, y, cv=2)["test_score"]) == 2
    assert clone(small(lam=2.0)).lam == 2.0


def test_saved_and_read(tmp_path):
    x, y, z = data()
    model = small().fit(x, y, sensitive_features=z)
    model.save(tmp_path / "model")
    again = FairIncrementalClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
    again.partial_fit(x + 20, y + 3, sensitive_features=z)
    assert len(again.classes_) == 6


def test_forgetting():
    x, y, z = data()
    model = small().fit(x, y, sensitive_features=z)
    model.forget(x[:3], y[:3], sensitive_features=z[:3])
    assert sum(group.rows for group in model.model_.seen) == len(y) - 3
    with pytest.raises(ValueError, match="were not added"):
        model.forget(x[:3], y[:3], sensitive_features=z[:3])


def test_mistakes_are_named():
    x, y, z = data()
    with pytest.raises(NotFittedError):
        small().predict(x)
    with pytest.raises(ValueError, match="unknown method 'momentss'"):
        FairIncrementalClassifier("momentss").fit(x, y)
    with pytest.raises(ValueError, match="sensitive_features has 3 rows"):
        small().fit(x, y, sensitive_features=z[:3])
    with pytest.raises(ValueError, match="`classes` lacks"):
        small().partial_fit(x, y, classes=[0, 1])


def test_with_few_rows_auto_is_moments():
    x, y, z = data()
    model = FairIncrementalClassifier(settings=SMALL).fit(x, y, sensitive_features=z)
    assert model.model_.config.method == "moments"
    assert "too few rows" in model.model_.notes[0]


def test_auto_says_why():
    x, y, z = data(n=180)
    model = FairIncrementalClassifier(settings={**SMALL, "epochs": 1}).fit(
        x, y, sensitive_features=z
    )
    assert "has the best accuracy - eo" in model.model_.notes[0]
