"""Fuzzing of sums that are added up: models of several sites, and batches of one model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from faircil import FairIncrementalClassifier
from faircil.data.features import TableEncoder
from faircil.data.own import OwnData
from faircil.model.merging import merge_models, plan_of, planned_for
from faircil.model.model import Model
from faircil.model.saved import load_model, save_model
from faircil.model.table_models import Gaps, fit_table, update_table
from fuzzing import (
    FLOATS,
    WAYS,
    WORDS,
    Harness,
    columns,
    few_and_thousands,
    maybe,
    refused,
    scratch_folder,
    usually,
    wish_for,
)
from same_models import assert_alike, assert_same_sums

HOME = scratch_folder()
NUMBERS = st.floats(-3, 3, width=32)
PLAN_ROWS = 8


@st.composite
def rows(draw: st.DrawFn, least: int, classes: str = "xyz") -> pd.DataFrame:
    """Draw rows of two numbers, a word, a class and an attribute, now and then odd."""
    n = draw(st.integers(least, least + 6))
    odd = draw(st.integers(1, 12)) == 12
    kinds = {
        "a": FLOATS if odd else NUMBERS,
        "b": maybe(NUMBERS) if odd else NUMBERS,
        "town": WORDS if odd else st.sampled_from("uvw"),
        "job": st.one_of(st.sampled_from("xyw"), maybe(WORDS)) if odd else st.sampled_from(classes),
        "sex": maybe(WORDS) if odd else st.sampled_from("fm"),
    }
    drawn = {name: draw(st.lists(one, min_size=n, max_size=n)) for name, one in kinds.items()}
    if least == PLAN_ROWS and not odd:
        drawn["job"][:PLAN_ROWS] = "xxyyzzxy"
    return pd.DataFrame({name: pd.Series(values) for name, values in drawn.items()})


def some(classes: str) -> st.SearchStrategy[pd.DataFrame]:
    return rows(1, classes)


def table_of(rows: Sequence[tuple[float, float, str, str, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["a", "b", "town", "job", "sex"])


@st.composite
def sites(draw: st.DrawFn) -> dict[str, Any]:
    several = st.lists(st.sampled_from(["x", "xyz", "wz"]).flatmap(some), min_size=1, max_size=3)
    return {
        "plan": draw(rows(PLAN_ROWS)),
        "sites": draw(usually(several, st.just([]))),
        "min_cell": draw(usually(st.none(), st.integers(0, 4), 4)),
        "gaps": draw(st.booleans()),
        "again": draw(usually(st.just(False), st.just(True), 8)),
        "sensitive": draw(usually(st.just(("sex",)), st.just(()), 4)),
        "settings": draw(WAYS),
    }


def site(plan: Model, table: pd.DataFrame, gaps: Gaps, *, solve: bool = False) -> Model:
    """Return what one site makes, from files, as the command does."""
    path = HOME / "site.parquet"
    table.to_parquet(path)
    model = planned_for(plan)
    update_table(model, path, gaps, solve=solve)
    save_model(model, HOME / "site")
    return load_model(HOME / "site")


def check_merge(case: dict[str, Any]) -> None:
    gaps = Gaps(drop_missing=case["gaps"], unknown_group=case["gaps"])
    with refused():
        path = HOME / "plan.parquet"
        case["plan"].to_parquet(path)
        spec = OwnData(
            str(path), "job", case["sensitive"], drop_missing=case["gaps"], unknown_group=True
        )
        wish = wish_for(case["settings"])
        plan = planned_for(plan_of(fit_table(spec, wish)), case["min_cell"])
        assert not plan.seen
        assert not len(plan.learner.moments)
        made = [site(plan, table, gaps) for table in case["sites"]]
        merged = merge_models([*made, *made[:1] * case["again"]])
        tables = [*case["sites"], *case["sites"][:1] * case["again"]]
        assert sum(one.rows for one in merged.seen) == sum(one.lessons[0].rows for one in made) + (
            made[0].lessons[0].rows if case["again"] else 0
        )
        if case["min_cell"]:
            assert min(merged.learner.moments.count) >= case["min_cell"]
            return
        whole = site(plan, pd.concat(tables, ignore_index=True), gaps, solve=True)
        assert_same_sums(merged, whole)
        assert isinstance(whole.encoder, TableEncoder)
        x = whole.encoder.inputs(case["plan"][list(whole.encoder.names)])
        assert_alike(merged, whole, x)
        backwards = merge_models(made[::-1] + made[:1] * case["again"])
        assert_same_sums(backwards, whole)
        assert_alike(backwards, whole, x)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    first = draw(usually(st.integers(6, 12), st.integers(0, 5)))
    sizes = [first, *draw(st.lists(st.integers(0, 6), max_size=3))]
    kinds = [st.sampled_from("xy"), *[st.sampled_from(draw(st.sampled_from(["x", "xyz"])))] * 3]
    attributes = draw(st.integers(0, 3))

    def column(n: int, plain: st.SearchStrategy[Any]) -> Any:
        return draw(usually(st.lists(plain, min_size=n, max_size=n), columns(n), 16))

    made = []
    for n, kind in zip(sizes, kinds, strict=False):
        x = draw(st.lists(NUMBERS, min_size=2 * n, max_size=2 * n))
        batch = [np.array(x, dtype=np.float64).reshape(n, 2), column(n, kind)]
        made.append(tuple([*batch, column(n, st.sampled_from("fm"))] if attributes else batch))
    odd = st.sampled_from([None, [], (), "ab", 3, ([[1.0, 2.0]],), {"x": 1}])
    return {
        "batches": made,
        "odd": draw(usually(st.just([]), odd.map(lambda one: [one]))),
        "split": draw(maybe(st.integers(1, 3))),
        "settings": draw(WAYS),
    }


def learned(
    batches: Sequence[Any], settings: dict[str, Any], *, one_by_one: bool = False
) -> FairIncrementalClassifier:
    made = FairIncrementalClassifier("moments", settings=settings, random_state=0)
    if not one_by_one:
        return made.fit_batches(iter(batches))
    for number, (x, y, *z) in enumerate(batches):
        learn = made.partial_fit if number else made.fit
        learn(x, y, sensitive_features=z[0] if z else None)
    return made


def check_batches(case: dict[str, Any]) -> None:
    """Batches are one pass over their rows; lessons of the same rows have the same sums."""
    with refused(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, and notes on columns
        given = [*case["batches"], *case["odd"]]
        made = learned(given, case["settings"])
        assert not case["odd"]
        x = case["batches"][0][0]
        assert np.allclose(made.predict_proba(x).sum(axis=1), 1)
        classes = {str(one) for _, y, *_ in case["batches"] for one in np.asarray(y).tolist()}
        assert set(map(str, made.classes_.tolist())) == classes
        assert made.model_.lessons[0].rows == sum(len(batch[0]) for batch in case["batches"])
        again = learned(case["batches"], case["settings"], one_by_one=True)
        assert_same_sums(made.model_, again.model_)
        if case["split"] is not None and len(given) > case["split"]:
            later = learned(given[: case["split"]], case["settings"])
            later.partial_fit_batches(given[case["split"] :])
            assert_same_sums(later.model_, made.model_)
        if len(given) == 1:
            assert np.array_equal(made.predict_proba(x), again.predict_proba(x))


# Ties, for which the loss of probabilities is flat.
COPIES = [(0.0, 0.0, "u", job, "f") for job in "xxyyzz"]
TIED = {
    "plan": table_of([*COPIES, (0.0, 0.0, "v", "x", "f"), (2.0, 1.25, "u", "y", "m")]),
    "sites": [
        table_of(
            [
                (1.0, 0.0, "v", "x", "f"),
                (0.0, 0.0, "u", "y", "f"),
                (2.0, 0.0, "u", "x", "f"),
                (0.0, 2.0, "u", "x", "f"),
            ]
        ),
        table_of([(0.0, 0.0, "u", "w", "f")]),
    ],
    "min_cell": None,
    "gaps": False,
    "again": False,
    "sensitive": ("sex",),
    "settings": {"width": 8, "arithmetic": "float64", "classifier": "lda", "ridge": 0.1},
}
# A row for each class, so that none spreads.
SINGLE = TIED | {
    "plan": table_of([*COPIES, (0.0, 0.0, "u", "x", "f"), (0.0, 1.0, "u", "y", "m")]),
    "sites": [
        table_of([(0.0, 1.0, "u", "y", "f")]),
        table_of([(0.0, 2.0, "v", "x", "f"), (1.0, 1.0, "v", "w", "f")]),
    ],
    "settings": {"width": 8, "arithmetic": "float64"},
}
HARNESSES = {
    "merge_models": Harness(sites(), check_merge, kept=(TIED, SINGLE), short=3),
    "fit_batches": Harness(batches(), check_batches, short=3),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
