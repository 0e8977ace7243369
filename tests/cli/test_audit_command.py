"""``faircil audit``: tables of any kind, what is printed and written, and the codes of its gate."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from cli_outcome import Cli

COLUMNS = ("--truth", "y", "--prediction", "p", "--sensitive", "sex", "race", "--draws", "500")


def people(worse: float = 0.5, better: float = 0.95) -> pd.DataFrame:
    """Make 1,200 predictions, in which women fare worse."""
    draw = np.random.default_rng(0)
    true, sex = draw.choice(["no", "yes"], 1200), draw.choice(["f", "m"], 1200)
    race = draw.choice(["a", "b", "c"], 1200, p=[0.6, 0.394, 0.006])
    right = draw.random(1200) < np.where(sex == "f", worse, better)
    other = np.where(true == "no", "yes", "no")
    return pd.DataFrame({"y": true, "p": np.where(right, true, other), "sex": sex, "race": race})


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    people().to_csv(tmp_path / "old.csv", index=False)
    people(0.5, 0.5).to_csv(tmp_path / "new.csv", index=False, sep=";")
    people().to_parquet(tmp_path / "old.parquet")
    return tmp_path


def test_words_and_files(cli: Cli, tables: Path) -> None:
    outcome = cli("audit", "old.csv", *COLUMNS, "-o", "found", "--markdown", "told/audit.md")
    assert outcome.code == 0
    assert "sex: groups are treated differently, more than chance explains" in outcome.out
    assert "race: no difference is shown that chance would not explain" in outcome.out
    assert ": cannot tell" in outcome.out
    assert "by sex × race" in outcome.out
    markdown = (tables / "told" / "audit.md").read_text("utf-8")
    assert markdown == (tables / "found" / "audit.md").read_text("utf-8")
    assert "| eo_gap (equalized odds, mean gap) |" in markdown
    document = json.loads((tables / "found" / "audit.json").read_text("utf-8"))
    assert document["unfair"] == [["sex"], ["sex", "race"]]
    assert document["gate"] is document["against"] is None
    assert set(document["findings"][0]) == {
        "measure", "scope", "value", "low", "high", "floor", "floor_high", "excess", "p_value",
        "p_adjusted", "worst", "too_small",
    }  # fmt: skip


def test_every_kind_of_table_gives_the_same(cli: Cli, tables: Path) -> None:
    found = [
        json.loads(cli("audit", name, *COLUMNS, "--json").out)
        for name in ("old.csv", "old.parquet")
    ]
    for name in ("file", "command"):
        assert found[0].pop(name) != found[1].pop(name)
    assert found[0] == found[1]


def test_levelling_down_is_named(cli: Cli, tables: Path) -> None:
    arguments = ("audit", "new.csv", "--against", "old.csv", *COLUMNS)
    outcome = cli(*arguments)
    assert "levelled down: in class no the gap by sex closed from" in outcome.out
    assert "because the better group m fell from" in outcome.out
    document = json.loads(cli(*arguments, "--json").out)
    assert document["against"]["levelled_down"][0]["better"] == "m"


@pytest.mark.parametrize(
    ("conditions", "policy", "code"),
    [
        (["eo_gap[sex]>0.9", "accuracy<0.1"], "report", 0),
        (["eo_gap>0.10"], "report", 3),
        (["eo_gap[race]>0.02"], "report", 4),
        (["eo_gap[race]>0.02"], "pass", 0),
        (["eo_gap[race]>0.02"], "fail", 3),
    ],
)
def test_exit_codes_of_a_gate(
    cli: Cli, tables: Path, conditions: list[str], policy: str, code: int
) -> None:
    outcome = cli(
        "audit", "old.csv", *COLUMNS, "--fail-on", *conditions, "--cannot-tell", policy,
        "--junit", "gate.xml", "--json",
    )  # fmt: skip
    assert outcome.code == code
    assert json.loads(outcome.out)["gate"]["exit_code"] == code
    suite = ElementTree.parse(tables / "gate.xml").getroot()
    assert suite.get("failures") != "0" if code == 3 else suite.get("failures") == "0"


def test_a_run_needs_no_columns(cli: Cli, tmp_path: Path) -> None:
    lines = ["after_task,task,y_true,y_pred,probability,attribute"]
    lines += ["1,1,ant,bee,.9,f"] * 30
    for name in "fm":
        lines += [f"2,1,ant,ant,.9,{name}"] * 20 + [f"2,2,bee,bee,.8,{name}"] * 20
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "predictions.csv").write_text("\n".join(lines) + "\n")
    document = json.loads(cli("audit", "run", "--json", "--draws", "100").out)
    assert document["n"] == 80
    assert document["findings"][0]["value"] == 1.0
    assert document["unfair"] == []


def test_mistakes_are_told_at_once(cli: Cli, tables: Path) -> None:
    outcome = cli("audit", "old.csv", "--truth", "y", "--fail-on", "eo_gab>1", "eo>x")
    assert outcome.code == 2
    for message in ("did you mean 'eo_gap'", "limit of 'eo>x'", "--prediction is missing"):
        assert message in outcome.err
    outcome = cli("audit", "old.csv", *COLUMNS[:2], "--prediction", "q", "--sensitive", "sexx")
    assert outcome.code == 1
    assert "no column 'q'" in outcome.err
    assert "no column 'sexx'" in outcome.err
    outcome = cli("audit", "old.csv", *COLUMNS, "--junit", "gate.xml", "--task", "y")
    assert "--junit writes the result of a gate" in outcome.err
    assert "the column 'y' is named 2 times" in outcome.err


def test_mistakes_of_the_call_hide_none_of_the_table(cli: Cli, tables: Path) -> None:
    wrong = ("--truth", "y", "--prediction", "pp", "--sensitive", "sex", "sexx")
    outcome = cli("audit", "old.csv", *wrong, "--draws", "5", "--seed", "-1")
    assert outcome.code == 2
    for message in ("--draws is 5", "--seed is -1", "no column 'pp'", "no column 'sexx'"):
        assert message in outcome.err
    outcome = cli(
        *("audit", "old.csv", *COLUMNS, "--favoured", "maybe"),
        *("--fail-on", "eo_gap[age]>0.1", "accuracy[sex]<0.5", "eo_gap[sex × race]>0.1"),
    )
    assert outcome.code == 2
    assert "'eo_gap[age]>0.1' is about attributes that were not audited; eo_gap" in outcome.err
    assert "'accuracy[sex]<0.5' is about attributes that were not audited" in outcome.err
    assert "the favoured class 'maybe' is never true" in outcome.err
    assert "sex × race]" not in outcome.err
    outcome = cli("audit", "old.csv", *COLUMNS[:4], "--fail-on", "eo_gap>0.1", "eopp>0.1")
    assert "'eo_gap>0.1' needs sensitive attributes" in outcome.err
    assert "'eopp>0.1' needs favoured classes (--favoured)" in outcome.err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_missing_column_hides_no_fault_of_the_others(
    cli: Cli, tmp_path: Path, ending: str
) -> None:
    table = people().assign(score=np.linspace(0.01, 0.99, 1200))
    table.loc[3:9, "y"] = None
    getattr(table, f"to_{ending}")(tmp_path / f"bad.{ending}", index=False)
    columns = ("--truth", "y", "--prediction", "score", "--sensitive", "sexx", "race")
    outcome = cli("audit", f"bad.{ending}", *columns)
    assert outcome.code == 1
    for message in ("no column 'sexx'", "'y' has missing values, 7 in", "'score' has values such"):
        assert outcome.err.count(message) == 1


def test_identifiers_are_no_groups_however_few(cli: Cli, tmp_path: Path) -> None:
    table = people().head(60).assign(id=range(60), few=[0] * 30 + [1] * 30)
    table.to_csv(tmp_path / "small.csv", index=False)
    outcome = cli("audit", "small.csv", *COLUMNS[:4], "--sensitive", "id", "few")
    assert outcome.code == 1
    assert "id has a different value in each of 60 samples" in outcome.err
    assert "few" not in outcome.err.replace("small.csv", "")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"y,p,sex,race\n", "no rows"),
        (b"y,p,sex,race\na,a,f,\xff\n", "not UTF-8"),
        (b"y,p,sex,race\na,a,f,x\n,b,m,y\n", "column 'y' has missing values, 1 in 2 rows"),
        (b"y,p,sex,race\na,1,f,x\nb,0,m,y\n", "none could be correct"),
        (b"y,p,sex,race\na,a,f,x\nb,b,f,y\n", "sex has only the value 'f'"),
        (b"y,p,sex,race\n0,0.3,f,x\n1,0.7,m,y\n", "classes instead of scores"),
    ],
)
def test_tables_that_cannot_be_audited(
    cli: Cli, tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "bad.csv").write_bytes(content)
    outcome = cli("audit", "bad.csv", *COLUMNS)
    assert outcome.code == 1
    assert message in outcome.err
    if b"\xff" not in content and content.count(b"\n") != 1:
        return
    (tmp_path / "bad.parquet").write_bytes(content)
    assert cli("audit", "bad.parquet", *COLUMNS).code == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_faults_of_a_table_are_told_with_those_of_the_call(
    cli: Cli, tmp_path: Path, kind: str
) -> None:
    table = people().assign(one="x", person=range(1200), score=np.linspace(0, 1, 1200))
    table["y"] = table["y"].where(table.index > 0)
    if kind == "csv":
        table.to_csv(tmp_path / "bad.csv", index=False)
    else:
        table.to_parquet(tmp_path / "bad.parquet")
    arguments = ("--truth", "y", "--prediction", "score", "--sensitive", "one", "person", "sex")
    outcome = cli("audit", f"bad.{kind}", *arguments, "--fail-on", "eo", "--against", "none.csv")
    assert outcome.code == 2  # the call is wrong, too
    told = outcome.err.strip().splitlines()[1:]
    expected = (
        "the condition 'eo' cannot be parsed",
        "column 'y' has missing values, 1 in 1,200 rows",
        "column 'score' has values such as",
        "column 'person' has 1,200 different values, such as 0, 1, 2",
        "one has only the value 'x'",
        "there is no file none.csv",
    )
    assert len(told) == len(expected)
    for line, message in zip(told, expected, strict=True):
        assert message in line


def test_classes_of_several_types_are_words(cli: Cli, tmp_path: Path) -> None:
    """Numbers among words are words; so are then those of the other column."""
    lines = ["y,p,sex"] + ["1,1,f", "2,2,m", "unknown,1,f", "unknown,2,m"] * 10
    (tmp_path / "mixed.csv").write_text("\n".join(lines) + "\n")
    outcome = cli("audit", "mixed.csv", *COLUMNS[:4], "--sensitive", "sex", "--json")
    assert json.loads(outcome.out)["findings"][0]["value"] == pytest.approx(2 / 3)


def test_a_predicted_table_and_a_run(cli: Cli, tmp_path: Path) -> None:
    """As somebody would try them who has not read the manual."""
    people().to_csv(tmp_path / "people.csv", index=False)
    fit = ("--label", "y", "--sensitive", "sex", "--ignore", "race", "--quiet")
    made = cli("run", "--data", "people.csv", *fit, "--method", "er", "--set", "epochs=1",
               "--seeds", "0-1", "-o", "runs")  # fmt: skip
    assert made.code == 0, made.err
    outcome = cli("audit", "runs")
    assert outcome.code == 1
    assert "the folder runs has no predictions.csv; name one of runs/seed-0, runs/seed-1" in (
        outcome.err
    )
    assert "by sex" in cli("audit", "runs/seed-0").out
    predicted = cli("predict", "runs/seed-0/model", "--data", "people.csv", "--keep", "y", "sex",
                    "-o", "predictions.csv", "--quiet")  # fmt: skip
    assert predicted.code == 0, predicted.err
    outcome = cli("audit", "predictions.csv")
    assert outcome.code == 1
    assert "of any other table, name the columns: --truth, --prediction" in outcome.err
    columns = ("--truth", "y", "--prediction", "prediction", "--sensitive", "sex", "--draws", "100")
    outcome = cli("audit", "predictions.csv", *columns)
    assert outcome.code == 0
    assert "1,200 samples of predictions.csv" in outcome.out
    assert cli("audit", ".", *columns).out.splitlines()[1:] == outcome.out.splitlines()[1:]


def test_a_run_without_an_attribute_compares_classes(cli: Cli, tmp_path: Path) -> None:
    lines = ["after_task,task,y_true,y_pred,probability"]
    lines += ["1,1,ant,ant,.9"] * 20 + ["1,1,bee,ant,.9"] * 12 + ["1,1,wasp,wasp,.9"] * 7
    (tmp_path / "predictions.csv").write_text("\n".join(lines) + "\n")
    outcome = cli("audit", ".")
    assert outcome.code == 0
    assert "accuracy by class, worst first" in outcome.out
    assert "classes: cannot tell for wasp (n = 7)" in outcome.out


def test_columns_of_a_parquet_file_that_are_no_labels_are_told(cli: Cli, tmp_path: Path) -> None:
    table = people().assign(sex=[["f"]] * 1200, race=[{"a": 1}] * 1200)
    table.to_parquet(tmp_path / "NESTED.PARQUET")
    outcome = cli("audit", "NESTED.PARQUET", *COLUMNS)
    assert outcome.code == 1
    told = outcome.err.strip().splitlines()[1:]
    assert len(told) == 2
    for line, name in zip(told, ("sex", "race"), strict=True):
        assert f"column '{name}' of NESTED.PARQUET is of type" in line


def test_missing_values_of_a_parquet_file_are_unknown(cli: Cli, tables: Path) -> None:
    table = people()
    table["sex"] = table["sex"].where(table.index >= 5)
    table.loc[5:9, "sex"] = "NA"
    table.to_parquet(tables / "holes.parquet")
    assert "sex is unknown for 10 samples" in cli("audit", "holes.parquet", *COLUMNS).out


@pytest.mark.parametrize("option", ["--markdown", "--junit"])
def test_what_is_audited_is_not_written_over(cli: Cli, tmp_path: Path, option: str) -> None:
    table = "y_true,y_pred\na,a\nb,a\n"
    (tmp_path / "run").mkdir()
    (tmp_path / "run/summary.json").write_text("{}")
    (tmp_path / "model").mkdir()
    for place in ("table.csv", "run/predictions.csv"):
        (tmp_path / place).write_text(table)
    named = ("--truth", "y_true", "--prediction", "y_pred", "--fail-on", "eer>0.5")
    for words in (
        ("table.csv", *named, option, "table.csv"),
        ("run", option, "run/predictions.csv"),
        ("run", option, "run/summary.json"),
        ("model", "--data", "table.csv", option, "table.csv"),
    ):
        outcome = cli("audit", *words)
        assert outcome.code == 2
        assert "is an input of this command; choose another name" in outcome.err
    assert (tmp_path / "table.csv").read_text() == table
    assert (tmp_path / "run/predictions.csv").read_text() == table
