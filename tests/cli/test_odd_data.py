"""Odd and hostile data: a table of cases, and what happens.

Each case is made of own data, learned by ``faircil run`` with the methods of the table, fitted and
predicted. It works, with finite results and predictions that have names of the data; or it ends
with the sentence of the table, and nothing is written. docs/reliability.md has the same table.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from cli_outcome import Cli
from faircil import FairSampleWeights, Samples
from faircil.nets import MLP
from faircil.runs.experiment import run
from faircil.weighting.selection import SELECTIONS, WEIGHTINGS
from small_runs import small_config, small_stream

METHODS = ("moments", "fsw")
NAMES = ("👩‍🚀", "\u202eab", "a\u0301", "<b>\"'&", "$^$", "a, b|c")
RESULTS = ("summary.json", "metrics.jsonl", "epochs.jsonl")


def people(rows: int = 96, classes: int = 4, values: int = 2) -> pd.DataFrame:
    """Return rows of all groups in turn, with two features that tell classes apart a little."""
    number = np.arange(rows)
    y, z = number % classes, number // classes % values
    x = np.random.default_rng(0).normal(size=(rows, 2)) + y[:, None] / 2
    table = pd.DataFrame(x, columns=["a", "b"])
    table["job"] = [f"class {label:04d}" for label in y]
    table["sex"] = [f"value {value:03d}" for value in z]
    return table


def with_(**columns: object) -> pd.DataFrame:
    return people().assign(**columns)


def odd_names() -> pd.DataFrame:
    table = people(144, classes=6)
    table["job"] = [NAMES[n % 6] for n in range(144)]
    return table.assign(sex=["♀\ufe0f", "עברית"] * 72).rename(columns={"a": "ü 中 $x$"})


def unseen_in_test() -> pd.DataFrame:
    table = with_(test=np.arange(96) // 8 % 3 == 0)
    table.loc[table.index[table["test"]][::8], "job"] = "never trained"
    return table


def partly_unknown() -> pd.DataFrame:
    table = people()
    table.loc[::5, "sex"] = None
    return table


@dataclass(frozen=True)
class Case:
    """Data, words of the commands, and the sentence of an error by method; "" if it works."""

    data: Callable[[], pd.DataFrame]
    words: tuple[str, ...] = ()
    run: str = ""
    fsw: str | None = None  # where it is another one
    fit: str = ""


LARGE = "column 'a' has 96 value(s) that are infinite or exceed 3.4e+38; replace or drop them"
UNSEEN = "no training sample of class(es) never trained; mark some of their rows"
MISSING = "column 'sex' has 20 missing value(s)"
CASES = {
    "all rows are equal": Case(lambda: with_(a=1.0, b=1.0)),
    "all inputs are 0, so that gradients of the first layer are": Case(lambda: with_(a=0, b=0)),
    "one row in each group": Case(lambda: people(8), run="no test sample of class(es)"),
    "two rows in each group": Case(lambda: people(16)),
    "12 attribute values": Case(lambda: people(96, classes=2, values=12)),
    "20 classes": Case(lambda: people(160, classes=20), ("--classes-per-task", "10")),
    "one class in each task": Case(
        people, ("--classes-per-task", "1"), fit="the first rows are all of one class"
    ),
    "names of any letters": Case(odd_names),
    "values of 1e308": Case(lambda: with_(a=1e308), run=LARGE, fit=LARGE),
    "values of 1e38": Case(lambda: with_(a=np.where(np.arange(96) % 3, 1e38, -1e38))),
    "values of 1e-308": Case(lambda: with_(a=people()["a"] * 1e-308)),
    "an attribute that is missing for some": Case(partly_unknown, run=MISSING, fit=MISSING),
    "the same, kept as an unknown group": Case(
        partly_unknown, ("--unknown-group",), fsw="use the method 'moments'"
    ),
    "the same, left out": Case(partly_unknown, ("--drop-missing",)),
    "a class that only test rows have": Case(
        unseen_in_test, ("--test-column", "test"), run=UNSEEN, fit=UNSEEN
    ),
    "an attribute that is the class": Case(lambda: with_(sex=people()["job"])),
    "no features": Case(
        lambda: people()[["job", "sex"]], run="no column left for features", fit="no column left"
    ),
}
# Minutes with moments: each step of its weights is a program over all groups.
FULL = {
    "500 attribute values": Case(lambda: people(3000, classes=3, values=500)),
    "1,000 classes": Case(
        lambda: people(4000, classes=1000, values=2),
        ("--classes-per-task", "100"),
    ),
}


def is_finite(value: object) -> bool:
    """Whether a JSON document has no number that is not one."""
    if isinstance(value, dict | list):
        return all(map(is_finite, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or np.isfinite(value)


def check_run(cli: Cli, case: Case, method: str) -> None:
    few = ("--set", "epochs=1", "hidden=8") if method == "fsw" else ("--set", "width=64")
    roles = ("--data", "odd.csv", "--label", "job", "--sensitive", "sex", "--baseline", "none")
    outcome = cli("run", *roles, "--method", method, *case.words, *few, "--out", method)
    expected = case.run if method == "moments" or case.fsw is None else case.fsw
    if expected:
        assert (outcome.code, expected in outcome.err) == (1, True), outcome.err
        assert not Path(method).exists()
        return
    assert outcome.code == 0, outcome.err
    for name in RESULTS:
        lines = (Path(method) / "seed-0" / name).read_text()
        parts = [lines] if name.endswith(".json") else lines.splitlines()
        assert all(is_finite(json.loads(part)) for part in parts)


def check_model(cli: Cli, case: Case, data: pd.DataFrame) -> None:
    roles = ("--data", "odd.csv", "--label", "job", "--sensitive", "sex")
    words = ("--method", "moments", "--set", "width=64", *case.words, "-o", "model")
    outcome = cli("fit", *roles, *words)
    if case.fit:
        assert (outcome.code, case.fit in outcome.err) == (1, True), outcome.err
        assert not Path("model").exists()
        return
    assert outcome.code == 0, outcome.err
    outcome = cli("predict", "model", "--data", "odd.csv", "-o", "predicted.csv")
    assert outcome.code == 0, outcome.err
    found = pd.read_csv("predicted.csv")
    assert set(found["prediction"]) <= set(data["job"])
    assert found["probability"].between(0, 1).all()


def check(cli: Cli, case: Case) -> None:
    data = case.data()
    data.to_csv("odd.csv", index=False)
    for method in METHODS:
        check_run(cli, case, method)
    check_model(cli, case, data)


@pytest.mark.parametrize("name", CASES)
def test_odd_data(name: str, cli: Cli) -> None:
    check(cli, CASES[name])


@pytest.mark.soak
@pytest.mark.parametrize("name", FULL)
def test_odd_data_in_full(name: str, cli: Cli) -> None:
    check(cli, FULL[name])


def test_classes_that_come_back(cli: Cli) -> None:
    """A model learns rows of classes that it knows, in another order and with other values."""
    table = people()
    table[table["job"] < "class 0002"].to_csv("first.csv", index=False)
    table[table["job"] >= "class 0002"].to_csv("second.csv", index=False)
    table.assign(sex="value 009").iloc[::-1].to_csv("back.csv", index=False)
    roles = ("--label", "job", "--sensitive", "sex", "--method", "moments", "--set", "width=32")
    assert cli("fit", "--data", "first.csv", *roles, "-o", "model").code == 0
    for name in ("second.csv", "first.csv", "back.csv"):
        outcome = cli("update", "model", "--data", name)
        assert outcome.code == 0, outcome.err
    assert cli("predict", "model", "--data", "back.csv", "-o", "p.csv").code == 0
    assert set(pd.read_csv("p.csv")["prediction"]) <= set(table["job"])


def test_training_that_diverges(cli: Cli) -> None:
    people().to_csv("odd.csv", index=False)
    roles = ("--data", "odd.csv", "--label", "job", "--sensitive", "sex", "--baseline", "none")
    outcome = cli("run", *roles, "--method", "fsw", "--set", "lr=1e20", "epochs=2", "--out", "o")
    assert outcome.code == 1
    assert "training diverged in task 1" in outcome.err
    assert "lower the learning rate" in outcome.err
    assert not list(Path("o").glob("seed-0/*"))


@pytest.mark.parametrize("gradient", ["last", "all"])
def test_gradients_that_are_all_0(gradient: str) -> None:
    """Without a direction, no sample helps or harms: weights are within [0, 1] and proven."""
    net = MLP(2, 4, (4,))
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)
    # Every row has all classes' gradients, which sum to 0, and no input.
    y, z = torch.arange(16) % 4, torch.arange(16) // 4 % 2
    found = FairSampleWeights(gradient=gradient)(net, Samples(torch.zeros(16, 2), y, z))
    assert ((found.weights >= 0) & (found.weights <= 1)).all()
    assert found.objective == pytest.approx(found.bound, abs=1e-9)


@pytest.mark.parametrize("keep", SELECTIONS)
def test_a_program_that_leaves_no_sample_a_weight(
    keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such an epoch trains on the buffer alone, or not at all, and the run goes on."""
    nothing = replace(WEIGHTINGS["fsw"], reweight=lambda weights, *_: torch.zeros_like(weights))
    monkeypatch.setitem(WEIGHTINGS, "fsw", nothing)
    config = small_config("er", "fsw", attribute=True, keep=keep)
    result = run(config, seed=0, stream=small_stream(attribute=True))
    weighted = [epoch for epoch in result.epochs if epoch.weights is not None]
    assert weighted
    assert all(epoch.weights is not None and epoch.weights.kept == 0 for epoch in weighted)
    assert all(np.isfinite(part.probability).all() for part in result.predictions)
