"""Fuzzing of runs on small streams, of measures, and of draws by weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from faircil import (
    FairSampler,
    FairSampleWeights,
    Measure,
    Samples,
    Task,
    TaskStream,
    evaluate,
    run,
)
from faircil.learners import ALIASES, LEARNERS
from faircil.runs.config import resolve
from faircil.runs.settings import in_effect
from faircil.weighting.groups import Groups
from faircil.weighting.measures import MEASURES, disparity_matrix
from fuzzing import (
    FLOATS,
    SMALL,
    WORDS,
    Harness,
    few_and_thousands,
    maybe,
    refused,
    sample_sets,
    usually,
)

METHODS = [*LEARNERS, *ALIASES]
SETTINGS = {
    "epochs": st.integers(1, 2),
    "batch_size": st.sampled_from([1, 3, 16]),
    "buffer_size": usually(st.integers(1, 4), st.sampled_from([0, -1])),
    "hidden": st.just(4),
    "lr": usually(st.sampled_from([0.1, 0.5]), st.sampled_from([1e30, 1e-30, 0, -1])),
    "lam": usually(st.floats(0, 2).map("{:.3f}".format), FLOATS),
    "width": st.just(8),
}


@st.composite
def runs(draw: st.DrawFn) -> dict[str, Any]:
    odd = draw(st.integers(1, 8)) == 8
    classes = draw(st.sampled_from([((0, 1), (2,)), ((0,), (1, 2)), ((0, 1, 2),), ((2, 1),)]))
    attribute = draw(st.booleans())
    drawn = {"every": not odd, "attribute": None if odd else attribute}
    parts = [(one, *[draw(sample_sets(one, **drawn)) for _ in range(2)]) for one in classes]
    return {
        "parts": parts,
        "attribute": attribute,
        "method": draw(usually(st.sampled_from(METHODS), WORDS, 20)),
        "measure": draw(usually(st.sampled_from([None, "eer", "eo", "dp"]), WORDS)),
        "settings": draw(st.fixed_dictionaries({}, optional=SETTINGS)),
        "seed": draw(usually(st.integers(0, 3), st.sampled_from([-1, 2**70]))),
    }


def check_run(case: dict[str, Any]) -> None:
    """Metrics are those of the predictions, and the same seed gives the same run."""
    with refused():
        attribute = case["attribute"]
        given = {"epochs": 1, "hidden": 4, "width": 8, **case["settings"]}
        texts = [f"{name}={value}" for name, value in given.items()]
        learner = ALIASES.get(case["method"], (case["method"],))[0]
        config = resolve(
            dataset="toy-groups" if attribute else "toy",
            method=case["method"],
            measure=case["measure"],
            overrides=in_effect(texts, learner) if learner in LEARNERS else texts,
        )
        tasks = tuple(Task(*part) for part in case["parts"])
        names = ("a", "b", "c")
        stream = TaskStream("some", tasks, names, "z" if attribute else None, names * attribute)
        found = run(config, case["seed"], stream=stream)
        assert len(found.per_task) == len(found.predictions) == len(tasks)
        tested = 0
        for task, metrics, told in zip(tasks, found.per_task, found.predictions, strict=True):
            tested += len(task.test)
            assert len(told.y_true) == len(told.y_pred) == tested
            plain = evaluate(told.y_true, told.y_pred, task=told.task, sensitive=told.sensitive)
            known = {n: value for n, value in plain.values.items() if value is not None}
            assert known.items() <= metrics.values.items()
            assert ((told.probability >= 0) & (told.probability <= 1)).all()
        again = run(config, case["seed"], stream=stream)
        for one, other in zip(found.predictions, again.predictions, strict=True):
            assert np.array_equal(one.y_pred, other.y_pred)
            assert np.array_equal(one.probability, other.probability)


@st.composite
def measured(draw: st.DrawFn) -> dict[str, Any]:
    g = draw(usually(st.integers(1, 5), st.just(0)))
    rows = draw(st.integers(0, 4))
    entries = usually(st.sampled_from([0.0, 0.0, 1.0, -1.0, 0.5, 2.0]), FLOATS, 30)
    width = g + draw(usually(st.just(0), st.just(1), 20))
    numbers = draw(st.lists(entries, min_size=rows * width, max_size=rows * width))
    whole = st.lists(st.integers(0, 2), min_size=g, max_size=g)
    measure = draw(st.sampled_from(["own", "own", *MEASURES]))
    some = st.lists(SMALL, max_size=3)
    return {
        "matrix": np.array(numbers, dtype=float).reshape(rows, width),
        "measure": measure,
        "combine": draw(usually(st.just("sum"), st.just("largest"), 4)),
        "favoured": draw(usually(some if measure == "eopp" else st.none(), some)),
        "label": draw(whole),
        "attribute": draw(whole),
        "losses": draw(st.lists(st.floats(0, 5), min_size=g, max_size=g)),
        "counts": draw(maybe(st.lists(st.integers(1, 9), min_size=g, max_size=g))),
        "samples": tuple(draw(sample_sets(one, attribute=True)) for one in ((1, 2), (0, 1))),
    }


def check_measure(case: dict[str, Any]) -> None:
    """Rows that are merged leave the disparity as it is; a program of it is solved."""
    label, attribute = (np.array(case[name], dtype=np.int64) for name in ("label", "attribute"))
    counts = case["counts"]
    seen = None if counts is None else np.array(counts, dtype=np.int64)
    size = np.ones(len(label), dtype=np.int64)
    groups = Groups(label, attribute, np.ones(len(label), dtype=bool), size, seen, seen)
    losses = np.array(case["losses"], dtype=float)
    with refused():
        if case["measure"] == "own":
            measure = Measure(lambda _: case["matrix"], combine=case["combine"])
        else:
            measure = MEASURES[case["measure"]]
        if case["favoured"] is not None:
            measure = measure.favouring(case["favoured"])
        plain, merged = np.asarray(measure(groups)), disparity_matrix(measure, groups)
        assert merged.shape[0] <= plain.shape[0]
        if measure.combine == "sum":
            wanted, found = np.abs(plain @ losses).sum(), np.abs(merged @ losses).sum()
            # Rows below 1e-12 of the largest are left out.
            slack = 1e-9 * (1 + np.abs(plain).sum()) * (1 + np.abs(losses).sum())
            assert abs(wanted - found) <= slack
        else:
            assert np.array_equal(plain, merged)
    with refused():
        current, memory = case["samples"]
        if case["measure"] == "own":
            measure = Measure(lambda groups: np.resize(case["matrix"], (2, len(groups))))
        seen = {tuple(key): 9 for part in (current, memory) for key in part.keys().tolist()}
        result = FairSampleWeights(measure)(net(), current, memory, seen=seen)
        assert bool(((result.weights >= 0) & (result.weights <= 1)).all())
        assert result.objective >= result.bound - 1e-6 * (1 + abs(result.objective))


def net() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))


@st.composite
def drawn(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "samples": (draw(sample_sets((1, 2))), draw(sample_sets((0, 1)))),
        "weights": draw(
            maybe(st.lists(st.sampled_from([0.0, 0.0, 0.04, 0.5, 1.0]), min_size=8, max_size=8))
        ),
        "more": draw(usually(st.just(0), st.sampled_from([-1, 1]))),
        "memory": draw(st.integers(0, 3)),
        "replay": draw(st.sampled_from([0.0, 0.5, 1.0])),
        "equally": draw(maybe(st.sampled_from([0.0, 0.5, 1.0]))),
        "length": draw(maybe(st.integers(1, 20))),
        "seed": draw(st.integers(0, 9)),
    }


def check_drawn(case: dict[str, Any]) -> None:
    """Rows are drawn by their weights alone: none of those that have no chance."""
    current, memory = case["samples"]
    with refused():
        result = FairSampleWeights("eer")(net(), current, memory)
        if case["weights"] is not None:
            chosen = torch.tensor(case["weights"])[: len(current)]
            result = result.__class__(**{**vars(result), "weights": chosen})
        n, m, equally = len(current) + case["more"], case["memory"], case["equally"]
        sampler = FairSampler(
            n,
            memory=m,
            replay=case["replay"],
            equally=equally,
            length=case["length"],
            seed=case["seed"],
        )
        sampler.set_weights(result)
        found = list(sampler)
        assert len(found) == len(sampler)
        weights = result.weights.tolist()
        kept = sum(weight > 0.05 for weight in weights)
        assert len(found) == (kept + m if case["length"] is None else case["length"])
        assert set(found) <= set(range(n + m))
        now, old = [row for row in found if row < n], [row for row in found if row >= n]
        assert not now or kept
        if equally is None or equally == 0:
            assert all(weights[row] > 0 for row in now)
        if m and case["replay"] == 0 and kept:
            assert not old
        if m and case["replay"] == 1:
            assert not now


def of_groups(number: int, **changed: Any) -> dict[str, Any]:
    """Return a case of a measure of so many groups, with some things changed."""
    none: list[int] = [0] * number
    x, label = torch.zeros(2, 3), torch.ones(2, dtype=torch.int64)
    samples = (Samples(x, label, label * 0), Samples(x, label * 0, label * 0))
    case = {"measure": "eer", "combine": "sum", "favoured": None, "matrix": np.zeros((0, number))}
    more = {"label": none, "attribute": none, "losses": none, "counts": None, "samples": samples}
    return case | more | changed


def of_one_value(x: list[list[float]], y: list[int]) -> Samples:
    return Samples(torch.tensor(x), torch.tensor(y), torch.zeros(len(y), dtype=torch.int64))


# Weights stay finite, and outputs of one test sample do not.
OUTPUTS_OVERFLOW = {
    "parts": [
        (
            (0, 1),
            of_one_value(
                [*([0.0] * 3,) * 2, [0, 0, -3.0], [0.0] * 3, [0, 0, 3.0], [0.0] * 3, [0, 0, 1.0]],
                [0, 1, 0, 0, 1, 0, 0],
            ),
            of_one_value([*([0.0] * 3,) * 4, [0, 0, 1.0]], [0, 1, 0, 0, 0]),
        ),
        ((2,), of_one_value([[0.0] * 3] * 2, [2, 2]), of_one_value([[0.0] * 3], [2])),
    ],
    "attribute": True,
    "method": "der++",
    "measure": None,
    "settings": {"epochs": 2, "buffer_size": 2, "batch_size": 1, "lr": 0.5},
    "seed": 2,
}
HUGE_ENTRY = of_groups(2, measure="own", matrix=np.array([[0.0, 1e308]]))
HARNESSES = {
    "run": Harness(runs(), check_run, kept=(OUTPUTS_OVERFLOW,), short=5),
    "Measure": Harness(measured(), check_measure, kept=(of_groups(0), HUGE_ENTRY)),
    "FairSampler.set_weights": Harness(drawn(), check_drawn),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
