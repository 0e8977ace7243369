"""Fuzzing of the estimator: tables of any kind, learned, predicted, saved, read and forgotten."""

from __future__ import annotations

import shutil
import warnings
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from faircil import FairIncrementalClassifier, Task, TaskStream, diagnose, register
from faircil.runs.config import RunConfig, resolve
from fuzzing import (
    FLOATS,
    HUGE,
    SMALL,
    WORDS,
    Harness,
    columns,
    few_and_thousands,
    maybe,
    refused,
    sample_sets,
    scratch_folder,
    usually,
)

HOME = scratch_folder()


@st.composite
def tables(draw: st.DrawFn, n: int) -> Any:
    """Draw features: numbers, or a data frame with columns of any kind."""
    if draw(st.booleans()):
        values = st.floats(-3, 3, width=32) if draw(st.integers(0, 11)) else FLOATS
        drawn = draw(st.lists(values, min_size=2 * n, max_size=2 * n))
        return np.array(drawn, dtype=float).reshape(n, 2)
    names = draw(st.lists(WORDS, min_size=1, max_size=3))
    return pd.concat([pd.Series(draw(columns_of(n)), name=name) for name in names], axis=1)


def columns_of(n: int) -> st.SearchStrategy[list[Any]]:
    kinds = [
        st.floats(-3, 3),
        SMALL,
        WORDS,
        st.booleans(),
        maybe(st.floats(-3, 3)),
        maybe(WORDS),
        FLOATS,
    ]
    return st.sampled_from(kinds).flatmap(lambda one: st.lists(one, min_size=n, max_size=n))


@st.composite
def lessons(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(usually(st.integers(6, 14), st.integers(0, 5)))
    plain = st.lists(st.sampled_from("xy"), min_size=n, max_size=n)
    attribute = st.lists(st.sampled_from("fm"), min_size=n, max_size=n)
    return {
        "x": draw(tables(n)),
        "y": draw(usually(plain, columns(n), 6)),
        "z": draw(maybe(usually(attribute, columns(n), 6))),
        "later": draw(maybe(usually(plain, columns(n), 6))),
        "settings": draw(
            usually(
                st.sampled_from([None, {}]),
                st.sampled_from([{"width": 0}, {"width": "x"}, {"nothing": 1}, {"lam": -1}]),
            )
        ),
        "seed": draw(usually(st.sampled_from([0, 1, None]), st.sampled_from([-1, 2**40, "x"]))),
    }


def check_estimator(case: dict[str, Any]) -> None:
    x, y, z = case["x"], case["y"], case["z"]
    settings = {"width": 8, **(case["settings"] or {})}
    with refused(ValueError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, and notes on columns
        made = FairIncrementalClassifier("moments", settings=settings, random_state=case["seed"])
        made.fit(x, y, sensitive_features=z)
        first = made.predict_proba(x)
        assert np.allclose(first.sum(axis=1), 1)
        assert set(made.predict(x).tolist()) <= set(made.classes_.tolist())
        folder = HOME / "model"
        shutil.rmtree(folder, ignore_errors=True)
        made.save(folder)
        read = FairIncrementalClassifier.load(folder)
        assert np.array_equal(read.predict_proba(x), first)
        if case["later"] is not None:
            made.partial_fit(x, case["later"], sensitive_features=z)
            made.forget(x, case["later"], sensitive_features=z)
            left = made.predict_proba(x)
            assert np.allclose(left.sum(axis=1), 1)


@st.composite
def streams(draw: st.DrawFn) -> dict[str, Any]:
    odd = draw(st.integers(1, 6)) == 6
    attribute = draw(maybe(WORDS))
    shared = draw(usually(st.just(attribute is not None), st.none()))
    numbers = st.lists(st.integers(0, 3), max_size=3).map(tuple)
    parts = []
    for classes in ((0, 1), (2,)):
        chosen = draw(numbers) if odd else classes
        drawn = sample_sets(classes, every=not odd, attribute=shared)
        both = [draw(drawn) for _ in range(2)]
        parts.append((chosen, *both))
    known = st.just(("a", "b", "c"))
    names = st.lists(WORDS, max_size=4).map(tuple)
    return {
        "parts": parts,
        "names": draw(usually(known, names)),
        "attribute": attribute,
        "values": draw(usually(known, names)),
        "buffer": draw(maybe(SMALL)),
        "seed": draw(usually(st.integers(0, 3), st.just(-1))),
    }


def check_diagnose(case: dict[str, Any]) -> None:
    with refused():
        tasks = tuple(Task(*part) for part in case["parts"])
        stream = TaskStream("some", tasks, case["names"], case["attribute"], case["values"])
        found = diagnose(stream, buffer_size=case["buffer"], seed=case["seed"])
        assert sum(group.train for group in found.groups) == sum(len(one.train) for one in tasks)


overrides = st.builds(
    "{}{}{}".format,
    st.one_of(
        st.sampled_from(["lr", "epochs", "width", "alpha", "lam", "buffer_size", "net"]), WORDS
    ),
    st.sampled_from(["=", "=", "=", "", "=="]),
    st.one_of(WORDS, HUGE.map(str), FLOATS.map(str), SMALL.map(str)),
)
configs = st.fixed_dictionaries(
    {"dataset": usually(st.sampled_from(["toy-groups", "digits", "mnist"]), WORDS)},
    optional={
        "method": usually(st.sampled_from(["er", "fsw", "moments", "gdumb"]), WORDS),
        "weighting": usually(st.sampled_from(["fsw", "none"]), WORDS),
        "measure": usually(st.sampled_from(["eo", "eer", "dp", "eopp"]), WORDS),
        "postprocess": usually(st.sampled_from(["eps-fair", "none"]), WORDS),
        "epsilon": st.one_of(st.floats(0, 1), FLOATS),
        "held_out": st.one_of(SMALL, HUGE),
        "favoured": st.lists(WORDS, max_size=2),
        "overrides": st.lists(overrides, max_size=3),
    },
)


def check_config(case: dict[str, Any]) -> None:
    with refused():
        config = resolve(**case)
        assert RunConfig.model_validate_json(config.model_dump_json()) == config


pieces = st.tuples(
    st.one_of(
        st.sampled_from(["measure", "learner", "dataset", "buffer", "loss", "solver"]), WORDS
    ),
    st.one_of(WORDS, st.integers(), st.none()),
    st.sampled_from([None, 3, "x", print, dict]),
)


def check_register(case: tuple[Any, Any, Any]) -> None:
    from faircil.registry import registry_of

    kind, name, _ = case
    with refused():
        register(*case)
        assert name in registry_of(kind)
        registry_of(kind).remove(name)


MIXED = {
    "x": np.arange(12.0).reshape(6, 2),
    "y": list("xyxyxy"),
    "z": [0, 0, 1, 1, b"x", b"x"],  # have no order
    "later": None,
    "settings": None,
    "seed": 0,
}
LIST_AMONG_CLASSES = {**MIXED, "y": pd.Series(["a", "a", "a", "a", "b", [1]]), "z": None}
HARNESSES = {
    "FairIncrementalClassifier": Harness(
        lessons(), check_estimator, kept=(MIXED, LIST_AMONG_CLASSES), short=6
    ),
    "diagnose": Harness(streams(), check_diagnose),
    "RunConfig": Harness(configs, check_config),
    "register": Harness(pieces, check_register),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
