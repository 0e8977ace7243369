"""Cards of models, and audits of models on rows that they have not learned."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cli_outcome import Cli, WriteTable
from faircil.auditing import audit
from faircil.data.own import OwnData
from faircil.model.card import audit_of, card_of
from faircil.model.model import Model
from faircil.model.saved import load_model
from faircil.runs.config import resolve

FIT = ("fit", "--label", "job", "--sensitive", "sex", "--method", "moments", "--set", "width=40")


@pytest.fixture
def model(cli: Cli, write_table: WriteTable) -> str:
    outcome = cli(*FIT, "--data", write_table("people.csv"), "-o", "model")
    assert outcome.code == 0, outcome.err
    return "model"


def card_in(folder: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(folder) / "card.json").read_text())
    return found


def test_a_card_is_beside_every_model_and_says_what_is_not_measured(model: str) -> None:
    page = (Path(model) / "card.md").read_text()
    assert "predicts `job`, one of 4 classes" in page
    assert "the model is not measured" in page
    assert card_in(model)["audit"] is None
    (tensors,) = Path(model).glob("tensors-*")
    assert f"`{tensors.name}`" in page
    for name in ("card.md", "card.json"):
        assert (Path(model) / name).stat().st_mode & 0o077 == 0


def test_an_audit_of_a_model_is_that_of_its_predictions(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    test = write_table("test.csv", seed=1)
    assert cli("predict", model, "--data", test, "--keep", "job", "sex", "-o", "p.csv").code == 0
    columns = ("--truth", "job", "--prediction", "prediction", "--sensitive", "sex")
    expected = json.loads(cli("audit", "p.csv", *columns, "--json").out)
    before = (Path(model) / "model.json").read_bytes()
    outcome = cli("audit", model, "--data", test, "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["findings"] == expected["findings"]
    assert (Path(model) / "model.json").read_bytes() == before
    assert cli("audit", model, "--data", test, "--fail-on", "accuracy<0.99").code == 3


def test_what_is_remembered_is_in_the_card_until_more_is_learned(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    test = write_table("test.csv", seed=1)
    assert cli("audit", model, "--data", test, "--remember").code == 0
    card = card_in(model)
    assert card["not_measured"] == []
    assert card["audit"] is not None
    assert "### by sex" in (Path(model) / "card.md").read_text()
    shown = cli("show", model)
    assert "rows of test.csv" in shown.out
    assert "not measured" not in shown.err
    cli("update", model, "--data", write_table("more.csv", seed=2))
    assert "not measured since it learned or forgot 240 more rows" in cli("show", model).err
    assert "not measured since" in (Path(model) / "card.md").read_text()


def test_two_models_are_compared_on_the_same_rows(
    cli: Cli, write_table: WriteTable, model: str
) -> None:
    test = write_table("test.csv", seed=1)
    assert cli("update", model, "--data", write_table("m.csv", seed=2), "-o", "later").code == 0
    outcome = cli("audit", "later", "--data", test, "--against", model)
    assert outcome.code == 0, outcome.err
    assert "before and after" in outcome.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("model",), "give rows that it has not learned with --data FILE"),
        (
            ("model", "--data", "people.csv", "--truth", "job"),
            "--truth: the model already defines this",
        ),
        (("people.csv", "--data", "people.csv"), "there is none in people.csv"),
        (("people.csv", "--remember"), "--remember: only a model takes this"),
        (("model", "--data", "none.csv"), "none.csv"),
        (("model", "--data", "people.csv", "--against", "people.csv"), "there is no model in"),
    ],
)
def test_what_does_not_go_together_is_told(
    cli: Cli, model: str, words: tuple[str, ...], told: str
) -> None:
    assert model == "model"
    outcome = cli("audit", *words)
    assert outcome.code in (1, 2)
    assert told in outcome.err
    assert outcome.err.count("error:") == 1


def people(values: list[str], sensitive: tuple[str, ...]) -> tuple[Model, np.ndarray]:
    """Return a model of a class 'a' and a hostile one, and its inputs."""
    own = OwnData(path="", label="kind", sensitive=sensitive)
    made = Model(resolve(own=own, method="moments", overrides=["width=20"]))
    generator = np.random.default_rng(0)
    x = generator.normal(size=(len(values), 3)).astype(np.float32)
    labels = ["a", "<script>|[x](y)"] * (len(values) // 2)
    made.learn(x, labels, values)
    made.measure(x, labels, values)
    return made, x


def test_names_do_no_harm_and_small_groups_are_not_listed() -> None:
    made, _ = people(["<b>"] * 40 + ["rare"] * 6 + ["m"] * 40, ("sex",))
    card = card_of(made)
    assert "<script>" not in card["page"]
    assert "<b>" not in card["page"]
    assert "Groups of fewer than 10 rows: 2, with 6 rows in all." in card["page"]
    table = card["page"].split("## From whom")[1].split("## How fair")[0]
    assert "rare" not in table
    assert card["summary"]["small_groups"] == {"groups": 2, "rows": 6}
    assert "rare" not in json.dumps(card["summary"]["groups"])
    assert "predicted" not in card["summary"]["measured"][0]


def test_several_attributes_are_audited_by_themselves_and_together() -> None:
    values = [f"{sex} × {age}" for sex in "fm" for age in ("old", "young") for _ in range(20)]
    made, x = people(values, ("sex", "age"))
    found = audit_of(made, made.measured[-1], draws=100)
    sexes, ages = zip(*(value.split(" × ") for value in values), strict=True)
    labels = ["a", "<script>|[x](y)"] * 40
    predicted = [made.names[place] for place in made.predict(x)]
    slow = audit(labels, predicted, sensitive_features={"sex": sexes, "age": ages}, draws=100)
    assert found.report().as_dict() == slow.report().as_dict()


def test_a_model_of_one_group_has_a_card_that_says_why_there_is_no_audit() -> None:
    made, _ = people(["f"] * 60, ("sex",))
    card = card_of(made)
    assert card["audit"] is None
    assert "only the value" in card["no_audit"]
    assert "only the value" in card["page"]


def test_cards_are_no_part_of_a_model_but_an_altered_one_is_told(cli: Cli, model: str) -> None:
    assert "not what was written" not in cli("show", model).err
    (Path(model) / "card.md").unlink()
    with (Path(model) / "card.json").open("a") as file:
        file.write(" ")
    assert load_model(Path(model)).names == ("w", "x", "y", "z")
    assert "card.json and card.md: missing, or not what was written" in cli("show", model).err
    assert json.loads(cli("show", model, "--json").out)["cards"]
