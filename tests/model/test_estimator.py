"""The scikit-learn estimator: its contract, new classes, data frames, and files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from faircil import FairIncrementalClassifier
from kept_models import predict_beside
from processes import CONTEXT

SMALL = {"width": 40}


CHECKS = parametrize_with_checks(
    [
        FairIncrementalClassifier(settings=SMALL),
        FairIncrementalClassifier("er", settings={"epochs": 20, "lr": 0.03, "hidden": [16]}),
    ]
).mark


# Earlier versions of scikit-learn give a generator, which pytest no longer takes.
@pytest.mark.parametrize(CHECKS.args[0], list(CHECKS.args[1]), **CHECKS.kwargs)
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
    with pytest.warns(UserWarning, match="categories that the model does not know.*'up'"):
        model.predict(frame.assign(c="up"))
    with pytest.warns(UserWarning, match="not fitted with, left out: d"):
        model.predict(frame.assign(d=1))


def test_polars_frames_are_learned_like_those_of_pandas():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    x, y, z = data()
    columns = {"a": x[:, 0].tolist(), "b": np.where(y == 0, "left", "right").tolist()}
    columns["c"] = [None if row % 7 == 0 else bool(row % 2) for row in range(len(y))]
    sex = [None, *z.tolist()[1:]]
    model = small(random_state=0).fit(pd.DataFrame(columns), y, sensitive_features=sex)
    frame = polars.DataFrame(columns)
    same = small(random_state=0).fit(
        frame, polars.Series(y), sensitive_features=polars.Series("sex", sex)
    )
    assert same.feature_names_in_.tolist() == ["a", "b", "c"]
    assert same.model_.config.own.sensitive == ("sex",)
    np.testing.assert_array_equal(
        same.predict_proba(frame), model.predict_proba(pd.DataFrame(columns))
    )
    both = polars.DataFrame({"sex": sex, "race": ["b"] * len(y)})
    assert small().fit(frame, y, sensitive_features=both).model_.values == ["f × b", "m × b"]


def test_arrow_tables():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    x, y, _ = data()
    table = arrow.table({"a": x[:, 0], "b": x[:, 1]})
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 1]})
    found = small(random_state=0).fit(table, y).predict_proba(table)
    np.testing.assert_array_equal(found, small(random_state=0).fit(frame, y).predict_proba(frame))
    with pytest.raises(ValueError, match="X has 2 columns named 'a'"):
        small().fit(table.rename_columns(["a", "a"]), y)


def test_pipelines_searches_and_copies():
    x, y, z = data()
    assert make_pipeline(StandardScaler(), small()).fit(x, y).score(x, y) > 0.8
    found = GridSearchCV(small(), {"lam": [0.5, 2]}, cv=2).fit(x, y, sensitive_features=z)
    assert found.best_params_["lam"] in (0.5, 2)
    assert len(cross_validate(small(), x, y, cv=2)["test_score"]) == 2
    assert clone(small(lam=2.0)).lam == 2.0


@pytest.fixture
def routed():
    with config_context(enable_metadata_routing=True):
        yield small().set_fit_request(sensitive_features=True)


def test_sensitive_features_are_routed_through_pipelines(routed):
    x, y, z = data()
    pipeline = make_pipeline(StandardScaler(), routed).fit(x, y, sensitive_features=z)
    assert pipeline[-1].model_.values == ["f", "m"]
    assert pipeline.score(x, y) > 0.8
    left_out = small().set_fit_request(sensitive_features=False)
    assert GridSearchCV(left_out, {"lam": [1]}, cv=2).fit(x, y).best_estimator_.model_.values == []
    with pytest.raises(UnsetMetadataPassedError, match="sensitive_features"):
        make_pipeline(StandardScaler(), small()).fit(x, y, sensitive_features=z)


def test_sensitive_features_are_routed_through_searches(routed):
    x, y, z = data()
    search = GridSearchCV(routed, {"lam": [0.5, 2]}, cv=2).fit(x, y, sensitive_features=z)
    assert search.best_estimator_.model_.values == ["f", "m"]
    inside = make_pipeline(StandardScaler(), routed)
    grid = {"fairincrementalclassifier__lam": [0.5, 2]}
    search = GridSearchCV(inside, grid, cv=2).fit(x, y, sensitive_features=z)
    assert search.best_estimator_[-1].model_.values == ["f", "m"]


def test_sensitive_features_are_routed_through_cross_validation(routed):
    x, y, z = data()
    found = cross_validate(
        routed, x, y, cv=2, params={"sensitive_features": z}, return_estimator=True
    )
    assert [one.model_.values for one in found["estimator"]] == [["f", "m"]] * 2
    rows = [sum(group.rows for group in one.model_.seen) for one in found["estimator"]]
    assert rows == [len(y) // 2] * 2


def test_requests_of_partial_fit_and_copies(routed):
    asked = small().set_partial_fit_request(sensitive_features=True, classes=False)
    requests = clone(asked).get_metadata_routing()
    assert requests.partial_fit.requests == {"sensitive_features": True, "classes": False}
    assert clone(routed).get_metadata_routing().fit.requests == {"sensitive_features": True}
    x, y, z = data()
    fitted = small(lam=2.0).fit(x, y, sensitive_features=z)
    copy = clone(fitted)
    assert copy.lam == 2.0
    assert not hasattr(copy, "model_")


def test_several_attributes_with_gaps_in_every_form():
    x, y, z = data()
    race = ["b" if row % 3 else "w" for row in range(len(y))]
    sex = [None if row < 5 else value for row, value in enumerate(z.tolist())]
    forms = {
        "frame": pd.DataFrame({"sex": sex, "race": race}),
        "array": np.array([sex, race], dtype=object).T,
        "lists": [list(row) for row in zip(sex, race, strict=True)],
    }
    for form, people in forms.items():
        model = small().fit(x, y, sensitive_features=people)
        assert model.model_.values == ["f × b", "f × w", "m × b", "m × w"], form
        unknown = [group.rows for group in model.model_.seen if group.value is None]
        assert unknown == [5], form
    with pytest.raises(ValueError, match="unknown"):  # replay needs all
        FairIncrementalClassifier("er", settings={"epochs": 1}).fit(x, y, sensitive_features=sex)
    assert (
        FairIncrementalClassifier(settings=SMALL)
        .fit(x, y, sensitive_features=sex)
        .model_.notes[0]
        .startswith("method moments")
    )


def test_a_class_with_one_row():
    x, y, z = data()
    once = np.append(y, 9)
    rows, people = np.vstack([x, x[:1] + 30]), np.append(z, "f")
    for method in ("auto", "er"):
        settings = SMALL if method == "auto" else {"epochs": 1, "hidden": 8}
        model = FairIncrementalClassifier(method, settings=settings)
        model.fit(rows, once, sensitive_features=people)
        assert model.classes_.tolist() == [0, 1, 2, 9]
        assert np.isfinite(model.predict_proba(rows)).all()
    model = small().fit(x, y).partial_fit(x[:1] + 30, [7])
    assert model.classes_.tolist() == [0, 1, 2, 7]


def test_classes_that_are_none_are_named_before_anything_is_learned():
    x, y, _ = data()
    words = np.array(["a", "b", "c"])[y]
    for labels, more, message in (
        (y, ["late"], "texts and numbers, such as 'late' and 0"),
        (words, [1], "texts and numbers, such as 1 and 'a'"),
        (y, [None], "1 missing value"),
        (words, np.array([np.nan], dtype=object), "1 missing value"),
        (y, pd.Series([pd.NA]), "1 missing value"),
        (y, [0.5], "continuous"),
        (words, pd.Series([pd.Timestamp(0)]), "neither text nor number"),
        (words, pd.Series(["a", [1]]), r"1 value.* such as \[1\] in row 2 .* convert y to texts"),
        (words, pd.Series([["a"], {}, "b"]), "2 value"),
    ):
        model = small().fit(x, labels)
        with pytest.raises(ValueError, match=message):
            model.partial_fit(x[: len(more)], more)
        assert len(model.classes_) == model.predict_proba(x[:1]).shape[1] == 3
    with pytest.raises(ValueError, match="texts and numbers"):
        small().fit(x, np.where(y == 1, "1", y.astype(object)))


def test_classes_as_numpy_texts_are_saved(tmp_path):
    x, y, _ = data()
    labels = np.array([np.str_("abc"[n]) for n in y], dtype=object)
    small().fit(x, labels).save(tmp_path / "model")
    assert FairIncrementalClassifier.load(tmp_path / "model").classes_.tolist() == ["a", "b", "c"]


def test_attribute_values_are_the_same_whatever_their_type():
    x, y, _ = data()
    sex = np.arange(len(y)) % 2
    model = small().fit(x, y, sensitive_features=sex)
    for later in ([1, None, 0.0], [1.0, 0.0, 0.0], ["1", "0", "0"], {"sex": [0, 1, 1]}):
        model.partial_fit(x[:3], y[:3], sensitive_features=later)
    assert model.model_.values == ["0", "1"]


def test_attributes_are_those_of_the_first_rows():
    x, y, z = data()
    both = pd.DataFrame({"sex": z, "race": np.where(y % 2, "b", "w")})
    model = small().fit(x, y, sensitive_features=both)
    values = list(model.model_.values)
    model.partial_fit(x, y, sensitive_features=both[["race", "sex"]])  # by name
    model.partial_fit(x, y, sensitive_features=both.to_numpy())  # by place
    assert model.model_.values == values
    model.partial_fit(x[:7], y[:7])  # nothing is known of these
    assert [group.rows for group in model.model_.seen if group.value is None] == [7]
    for other in (both[["sex"]], both.rename(columns={"sex": "age"}), z):
        with pytest.raises(ValueError, match="was fitted with sex, race"):
            model.partial_fit(x, y, sensitive_features=other)
    with pytest.raises(ValueError, match="started without a sensitive attribute"):
        small().fit(x, y).partial_fit(x, y, sensitive_features=z)
    for wrong, message in (
        ("sex", "of another form"),
        (np.zeros((len(y), 2, 2)), "of another form"),
        ([[["f"], "w"]] * len(y), "of another form"),
        (x[:, 0], "180 distinct numbers"),
        (z[:9], "has 9 rows and y has 180"),
        (pd.concat([both, both], axis=1), "2 columns named 'sex'"),
    ):
        with pytest.raises(ValueError, match=message):
            small().fit(x, y, sensitive_features=wrong)


def test_columns_of_one_name_are_named():
    x, y, _ = data()
    frame = pd.DataFrame(x, columns=["a", "b", "c", "d"])
    model = small().fit(frame, y)
    for twice in (
        frame.set_axis(["a", "b", "c", "a"], axis=1),
        frame.set_axis([1, "1", 2, 3], axis=1),
    ):
        with pytest.raises(ValueError, match="X has 2 columns named"):
            small().fit(twice, y)
        with pytest.raises(ValueError, match="X has 2 columns named"):
            model.predict(twice)


def test_a_first_call_that_fails_leaves_nothing():
    x, y, _ = data()
    model = small()
    with pytest.raises(ValueError, match="one class"):
        model.partial_fit(x[:4], y[:4])
    with pytest.raises(NotFittedError):
        model.predict(x)
    assert model.partial_fit(x, y).score(x, y) > 0.8
    with pytest.raises(ValueError, match="device 'cuda:99' is not available"):
        small(device="cuda:99").fit(x, y)


def test_a_copy_of_a_model_that_was_read_learns_alike(tmp_path):
    x, y, z = data()
    fitted = FairIncrementalClassifier(
        "moments", settings={"width": 40, "features": "both"}, lam=3.0, random_state=0
    ).fit(x, y, sensitive_features=z)
    fitted.save(tmp_path / "model")
    again = clone(FairIncrementalClassifier.load(tmp_path / "model")).set_params(random_state=0)
    again.fit(x, y, sensitive_features=z)
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))


def test_settings_that_no_candidate_uses_are_refused():
    x, y, _ = data()
    for settings, message in (
        ({"gamma": 3}, "has no setting 'gamma'"),
        ({"nosuch": 1}, "unknown setting 'nosuch'"),
    ):
        with pytest.raises(ValueError, match=message):
            FairIncrementalClassifier(settings=settings).fit(x, y)
    with pytest.raises(ValueError, match="`weighting` is for a method that you choose"):
        FairIncrementalClassifier(weighting="fsw").fit(x, y)


def test_another_process_predicts_the_same_bits(tmp_path):
    x, y, z = data()
    np.save(tmp_path / "x.npy", x)
    models = {}
    for method, settings in (("moments", SMALL), ("er", {"epochs": 1, "hidden": 8})):
        model = FairIncrementalClassifier(method, settings=settings)
        models[method] = model.fit(x, y, sensitive_features=z)
        model.save(tmp_path / method)
    folders = [tmp_path / method for method in models]
    process = CONTEXT.Process(target=predict_beside, args=(folders, tmp_path / "x.npy"))
    process.start()
    process.join()
    assert process.exitcode == 0
    for method, model in models.items():
        found = np.load(tmp_path / f"{method}.npy")
        assert found.tobytes() == model.predict_proba(x).tobytes()


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
    before = model.predict_proba(x)
    for rows, labels in ((x[:3], y[:3]), (x[3:6] + 1, y[3:6]), (x[3:6], y[3:6] + 1)):
        with pytest.raises(ValueError, match="were not added"):
            model.forget(rows, labels, sensitive_features=z[:3])
    with pytest.raises(ValueError, match="class\\(es\\) 7 were never learned"):
        model.forget(x[:1], [7], sensitive_features=z[:1])
    np.testing.assert_array_equal(model.predict_proba(x), before)


def test_mistakes_are_named(tmp_path):
    x, y, z = data()
    for ask in (
        lambda: small().predict(x),
        lambda: small().predict_proba(x),
        lambda: small().score(x, y),
        lambda: small().forget(x, y),
        lambda: small().save(tmp_path / "model"),
    ):
        with pytest.raises(NotFittedError):
            ask()
    with pytest.raises(ValueError, match="unknown method 'momentss'"):
        FairIncrementalClassifier("momentss").fit(x, y)
    with pytest.raises(ValueError, match="sensitive_features has no column"):
        small().fit(x, y, sensitive_features=[])
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
    assert "has the highest accuracy - eo" in model.model_.notes[0]


def test_classes_with_a_row_or_two_do_not_keep_auto_from_choosing(monkeypatch):
    x, y, z = data(classes=4, n=130)
    rare = np.array([4, 5, 5])
    rows = np.vstack([x, x[:3] + 9])
    labels, people = np.append(y, rare), np.append(z, ["f", "f", "m"])
    monkeypatch.setattr("faircil.model.choosing.MOST", 400)  # rows are drawn, of small groups all
    model = FairIncrementalClassifier(settings={"epochs": 1, "width": 40}, random_state=0)
    model.fit(rows, labels, sensitive_features=people)
    assert model.model_.notes[0].startswith("method ")
    said = "classes with too few rows to hold one out, not used in this choice: 4, 5"
    assert said in model.model_.notes
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    alone = np.arange(len(labels)) == 3
    few = FairIncrementalClassifier(settings={"width": 40}).fit(rows, alone)
    assert few.model_.notes[0] == "method moments, since there are too few rows to compare methods"
    single = FairIncrementalClassifier(settings={"width": 40})
    single.fit(rows, labels, sensitive_features=["f"] * len(labels))
    assert single.model_.notes[0] == (
        "method moments, since there is a single attribute value so far"
    )


def test_equal_opportunity_of_favoured_classes(tmp_path):
    x, y, z = data()
    model = small(measure="eopp", favoured=[1.0, 2]).fit(x, y, sensitive_features=z)
    assert model.model_.learner.measure.favoured == (1, 2)
    small(measure="eopp", favoured=[1]).fit(x, y * 1.0, sensitive_features=z)
    model.save(tmp_path / "model")
    assert clone(FairIncrementalClassifier.load(tmp_path / "model")).favoured == ("1", "2")
    with pytest.raises(ValueError, match="name them with `favoured`"):
        small(measure="eopp").fit(x, y, sensitive_features=z)
    with pytest.raises(ValueError, match="9"):
        small(measure="eopp", favoured=[9]).fit(x, y, sensitive_features=z)
    with pytest.raises(ValueError, match="none is given; use `measure='eer'`, or give some"):
        small(measure="eo").fit(x, y)
