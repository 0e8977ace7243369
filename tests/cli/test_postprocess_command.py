from __future__ import annotations

import csv
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pytest

from cli_outcome import Cli, run_words
from faircil.files import write_checksums
from faircil.postprocess import EpsilonFair

RUN = run_words("fsw", "toy-groups", "--quiet", epochs=8, hidden=8)
TABLE = ("--probabilities", "p_a", "p_b", "--sensitive", "sex", "--epsilon", "0.05")


@pytest.fixture
def runs(cli: Cli) -> None:
    """Make two runs with a buffer."""
    assert cli(*RUN, "--method", "er", "--out", "runs/er", "--seeds", "0-1").code == 0


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


@pytest.mark.usefixtures("runs")
def test_saved_runs_get_a_table_a_curve_and_rows(cli: Cli, tmp_path: Path) -> None:
    outcome = cli("postprocess", "runs", "--epsilon", "0", "0.1", "1", "-o", "curves")
    assert outcome.code == 0
    assert "toy-groups, er, eps-fair, 2 seeds" in outcome.out
    rows = rows_of(outcome.out)
    assert [row[0] for row in rows] == ["none", "0", "0.1", "1"]
    assert rows[0][1] == rows[3][1]  # 1 is no constraint
    assert rows[0][2] == "–"
    assert rows[3][2] == ".000 ± .000"
    names = {path.name for path in (tmp_path / "curves").iterdir()}
    assert names == {"postprocess.csv", "toy-groups.png", "toy-groups.svg"}
    with (tmp_path / "curves/postprocess.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [(row["seed"], row["epsilon"]) for row in table] == [
        (seed, epsilon) for seed in "01" for epsilon in ("none", "0", "0.1", "1")
    ]
    summary = json.loads((tmp_path / "runs/er/seed-0/summary.json").read_text())
    assert float(table[0]["accuracy"]) == pytest.approx(summary["metrics"]["accuracy"], abs=0.02)


@pytest.mark.usefixtures("nothing_drawn", "runs")
def test_a_run_with_post_processing_is_what_the_saved_run_becomes(cli: Cli) -> None:
    options = ("--method", "er", "--postprocess", "eps-fair", "--epsilon", "0.02", "--json")
    fair = json.loads(cli(*RUN, *options, "--out", "runs-fair").out)
    again = cli("postprocess", "runs/er/seed-0", "--epsilon", "0.02", "-o", "curves")
    assert again.code == 0
    with Path("curves/postprocess.csv").open() as file:
        row = list(csv.DictReader(file))[1]
    for metric in ("accuracy", "dp", "eo_gap"):
        assert float(row[metric]) == pytest.approx(fair["runs"][0][metric])
    # A run that is processed already has the probabilities before that.
    other = cli("postprocess", "runs-fair", "--epsilon", "0.02", "--markdown")
    assert "er+eps-fair" in other.out
    assert "| 0.02 |" in other.out


def test_runs_that_cannot_be_processed_say_why_all_at_once(cli: Cli) -> None:
    cli(*RUN, "--method", "finetune", "--out", "runs/finetune")
    cli(*run_words("fsw", "toy", "--quiet", "--out", "runs/toy", epochs=1))
    outcome = cli("postprocess", "runs")
    assert outcome.code == 1
    assert "method 'finetune' keeps no buffer" in outcome.err
    assert "no sensitive attribute" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["postprocess"], "nothing to post-process: give folders of runs, or"),
        (["postprocess", "runs", "--epsilon", "2", "-1"], "epsilon is -1.0, expected 0"),
        (["postprocess", "--apply", "a.csv"], "--apply: for probabilities in files"),
        (["postprocess", "--pool", "a.csv"], "--pool needs --probabilities"),
        (["postprocess", "runs", "--pool", "a.csv"], "--pool and the folder runs are given"),
        (
            [*RUN, "--epsilon", "0.1"],
            "--epsilon is for post-processing; add --postprocess eps-fair",
        ),
        ([*RUN, "--postprocess", "esp-fair"], "unknown postprocess 'esp-fair': did you mean"),
        ([*RUN, "--method", "joint", "--postprocess", "eps-fair"], "method 'joint' keeps none"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: list[str], message: str, tmp_path: Path) -> None:
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert not list(tmp_path.iterdir())


Row = dict[str, Any]
WriteProbabilities = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> WriteProbabilities:
    """Write a table of 120 people with probabilities of two classes."""

    def write(name: str, seed: int = 0, change: Callable[[Row], Row] = lambda row: row) -> str:
        generator = np.random.default_rng(seed)
        with (tmp_path / name).open("w", newline="") as file:
            for number in range(120):
                sex = "FM"[number % 2]
                p = generator.beta(*((3, 1) if sex == "F" else (1, 2)))
                row = change({"id": f"{number:04}", "sex": sex, "p_a": p, "p_b": 1 - p})
                if number == 0:
                    writer = csv.DictWriter(file, row)
                    writer.writeheader()
                writer.writerow(row)
        return name

    return write


def read(name: str) -> list[Row]:
    with Path(name).open() as file:
        return list(csv.DictReader(file))


def test_a_table_gets_a_column_with_the_prediction(cli: Cli, write: WriteProbabilities) -> None:
    files = ("--pool", write("pool.csv"), "--apply", write("new.csv", seed=1))
    outcome = cli("postprocess", *files, *TABLE, "-o", "out/fair.csv")
    assert outcome.code == 0
    assert "shares differ by at most 0.0500" in outcome.err
    pool, new, out = read("pool.csv"), read("new.csv"), read("out/fair.csv")
    assert [{k: v for k, v in row.items() if k != "prediction"} for row in out] == new
    p_pool, p_new = (
        np.array([[float(row["p_a"]), float(row["p_b"])] for row in rows]) for rows in (pool, new)
    )
    rule = EpsilonFair(0.05).fit(p_pool, [row["sex"] for row in pool])
    expected = rule.predict(p_new, [row["sex"] for row in new])
    assert [row["prediction"] for row in out] == [("p_a", "p_b")[k] for k in expected]
    assert expected.tolist() != p_new.argmax(axis=1).tolist()


def _half(_table: pd.DataFrame, file: IO[str], **_options: Any) -> None:
    file.write("row")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_tables_of_any_kind_are_applied_to_and_no_file_is_lost(
    cli: Cli, write: WriteProbabilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = write("pool.csv")
    pd.read_csv(pool).to_parquet("new.parquet")
    pd.read_csv(pool).to_csv("new.csv", index=False, sep=";")
    fair = []
    for new in (pool, "new.parquet", "new.csv"):
        words = ("postprocess", "--pool", pool, "--apply", new, *TABLE)
        out = f"of-{Path(new).name}.csv"
        assert cli(*words, "-o", out).code == 0
        fair.append([row["prediction"] for row in read(out)])
        before = Path(new).read_bytes()
        for name in (new, f"away/../{new}"):
            outcome = cli(*words, "-o", name, "--force")
            assert outcome.code == 2
            assert "is an input of this command; choose another name" in outcome.err
        assert Path(new).read_bytes() == before
        again = cli(*words, "-o", out)
        assert again.code == 2
        assert f"{out} already exists; choose another name" in again.err
        with monkeypatch.context() as full:
            whole = Path(out).read_bytes()
            full.setattr(pd.DataFrame, "to_csv", _half)
            assert cli(*words, "-o", out, "--force").code == 1
            assert Path(out).read_bytes() == whole
        assert cli(*words, "-o", out, "--force").code == 0
        outcome = cli(*words, "-o", "minus.csv", "--seed", "-1")
        assert (outcome.code, Path("minus.csv").exists()) == (2, False)
        assert "--seed is -1, expected a number of at least 0" in outcome.err
    assert fair[0] == fair[1] == fair[2]


def test_names_from_files_lead_nowhere_and_are_no_mathematics(cli: Cli, tmp_path: Path) -> None:
    assert cli(*RUN, "--out", "far/away/runs").code == 0
    folder = tmp_path / "far/away/runs/seed-0"
    for name in ("../../harm", "$^$"):
        for file in ("config.json", "summary.json"):
            document = json.loads((folder / file).read_text())
            document["config"]["dataset"] = name
            (folder / file).write_text(json.dumps(document))
        (folder / "SHA256SUMS").unlink()
        write_checksums(folder)
        outcome = cli("postprocess", "far/away/runs", "--epsilon", "0.1", "-o", "far/away/curves")
        assert outcome.code == 0, outcome.err
    found = {path.relative_to(tmp_path).parent.as_posix() for path in tmp_path.rglob("*.svg")}
    assert found == {"far/away/curves"}
    assert (tmp_path / "far/away/curves/$^$.png").exists()


def test_weights_and_several_attributes(cli: Cli, write: WriteProbabilities) -> None:
    def more(row: Row) -> Row:
        return row | {"old": int(row["id"]) // 2 % 2, "n": 1 + int(row["id"]) % 7}

    files = ("--pool", write("pool.csv", change=more), "--apply", write("new.csv", 1, more))
    sensitive = ("--sensitive", "sex", "old", "--weight", "n", "-o", "out.tsv")
    outcome = cli("postprocess", *files, *TABLE, *sensitive)
    assert outcome.code == 0
    pool = read("pool.csv")
    rule = EpsilonFair(0.05).fit(
        [[float(row["p_a"]), float(row["p_b"])] for row in pool],
        [f"{row['sex']} × {row['old']}" for row in pool],
        sample_weight=[float(row["n"]) for row in pool],
    )
    assert f"differ by at most {rule.gap:.4f}" in outcome.err
    assert Path("out.tsv").read_text().startswith("id\tsex\tp_a\tp_b\told\tn\tprediction\n")


@pytest.mark.parametrize(
    ("change", "code", "messages"),
    [
        (lambda row: row | {"p_a": 3 * row["p_a"]}, 1, ["of new.csv have values from", "logits"]),
        (lambda row: row | {"p_a": "x"}, 1, ["column 'p_a' of new.csv is text"]),
        (lambda row: row | {"p_a": ""}, 1, ["of new.csv have NaN"]),
        (lambda row: row | {"sex": ""}, 1, ["column 'sex' of new.csv has 120 missing"]),
        (lambda row: row | {"sex": "X"}, 1, ["no sample of group X (it had F, M)"]),
        (lambda row: row | {"prediction": 1}, 2, ["has a column 'prediction' already"]),
        (lambda row: {"gender": 1, "p_a": 1}, 2, ["unknown column 'sex'", "unknown column 'p_b'"]),
    ],
)
def test_bad_tables(
    cli: Cli,
    write: WriteProbabilities,
    change: Callable[[Row], Row],
    code: int,
    messages: list[str],
) -> None:
    files = ("--pool", write("pool.csv"), "--apply", write("new.csv", 1, change))
    outcome = cli("postprocess", *files, *TABLE, "-o", "out.csv")
    assert outcome.code == code
    for message in messages:
        assert message in outcome.err
    assert not Path("out.csv").exists()
