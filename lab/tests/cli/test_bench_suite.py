"""``faircil bench fair-cil`` on the small suite: plug-ins, predictions, mistakes, the page."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from cli_outcome import Cli, Outcome
from faircil.learners import LEARNERS
from faircil.tuning import auto
from faircil_lab.suite.catalogue import Suite, SuiteStream
from faircil_lab.suite.submissions import write_template
from suite_rows import write_table

BENCH = ("bench", "fair-cil", "--small", "--quiet")
SHORT = ("--streams", "toy", "--set", "epochs=1", "hidden=8")
PLUGIN = '''
from faircil.learners.replay import Replay


class MyReplay(Replay):
    """Replay of mine."""


NOTHING = 3
'''


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A module of somebody else."""
    (tmp_path / "somebody.py").write_text(PLUGIN)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "ending.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("somebody", None)
    if "MyReplay" in LEARNERS:
        LEARNERS.remove("MyReplay")


@pytest.fixture(autouse=True)
def _nothing_drawn(nothing_drawn: None) -> None:
    """No figures, but for the test that wants one."""


def row(tmp_path: Path, name: str) -> dict[str, object]:
    path = tmp_path / "bench" / "fair-cil" / "rows" / "fair-cil-small" / f"{name}.json"
    found: dict[str, object] = json.loads(path.read_text())
    return found


@pytest.mark.usefixtures("plugin")
def test_a_plug_in_gets_a_row_with_intervals(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*BENCH, "--method", "somebody:MyReplay", "--name", "mine", *SHORT)
    assert outcome.code == 0, outcome.err
    found = row(tmp_path, "mine")
    assert found["what"] == "MyReplay, epochs=1 hidden=8"
    assert found["origin"] == "run"
    assert list(found["scores"]["toy"]) == ["0", "1", "2", "3", "4"]
    line = next(
        line for line in outcome.out.split("Three clusters")[1].splitlines() if "mine" in line
    )
    assert line.count("…") == 5
    # The same runs are found again, and the page has the row.
    again = cli(*BENCH, "--method", "somebody:MyReplay", "--name", "mine", *SHORT, "--page", "p.md")
    assert again.code == 0
    page = (tmp_path / "p.md").read_text()
    assert "| mine | MyReplay, epochs=1 hidden=8 |" in page
    assert "faircil bench fair-cil --small --method somebody:MyReplay" in page


@pytest.mark.usefixtures("plugin")
def test_a_plug_in_runs_in_other_processes_too(cli: Cli, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    words = ("--method", "somebody:MyReplay", "--jobs", "2", "--seeds", "0-1")
    outcome = cli(*BENCH, *words, *SHORT)
    assert outcome.code == 0, outcome.err
    found = row(tmp_path, "somebody_MyReplay, epochs=1 hidden=8-" + _hash(tmp_path))
    assert set(found["scores"]["toy"]) == {"0", "1"}


def _hash(tmp_path: Path) -> str:
    folder = tmp_path / "bench" / "fair-cil" / "rows" / "fair-cil-small"
    (path,) = folder.glob("somebody*.json")
    return path.stem.rpartition("-")[2]


def test_more_than_the_budget_is_not_ranked(cli: Cli, tmp_path: Path) -> None:
    words = ("--method", "er", "--name", "long", "--streams", "toy", "--seeds", "0")
    outcome = cli(*BENCH, *words, "--set", "epochs=21", "hidden=8", "buffer_size=33")
    assert outcome.code == 0, outcome.err
    assert row(tmp_path, "long")["other_budget"] == "epochs=21 buffer_size=33"
    assert "not ranked, other budget: epochs=21 buffer_size=33" in outcome.out


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--method", "nobody:It"), "module nobody cannot be imported"),
        (("--method", "somebody:It"), "module somebody has no It"),
        (("--method", ":It"), "'' cannot be imported (ValueError"),
        (("--method", ".somebody:It"), "'.somebody' cannot be imported (TypeError"),
        (("--method", "broken:It"), "'broken' cannot be imported (ZeroDivisionError"),
        (("--method", "ending:It"), "'ending' cannot be imported (SystemExit: 3)"),
        (("--method", "somebody:NOTHING"), "expected a Method or a subclass of Learner"),
        (("--method", "err"), "unknown method 'err'"),
        (("--method", "er+fswx"), "unknown weighting 'fswx'"),
        (("--method", "er", "--set", "epochz=1"), "unknown setting 'epochz'"),
        (("--method", "er", "gdumb", "--name", "x"), "--name is 'x', and there are 2 methods"),
        (("--streams", "toyy"), "unknown stream 'toyy': did you mean 'toy'?"),
        (("--method", "er", "--seeds", "7"), "seed 7 is not of the suite fair-cil-small 1"),
        (("--method", "er", "--jobs", "0"), "--jobs is 0"),
        (("--predictions", "x"), 'add --name "My method"'),
        (("--predictions", "x", "--name", "y", "--method", "er"), "give one of them"),
        (("--set", "epochs=1"), "--set is for methods that are run"),
        (("--inputs",), "--inputs is for --write-template"),
    ],
)
def test_mistakes_are_named(cli: Cli, words: tuple[str, ...], said: str) -> None:
    outcome = cli(*BENCH, *words)
    assert outcome.code == 2
    assert said in outcome.err


def test_nothing_finished_is_no_row_but_a_reason(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*BENCH, "--method", "er", "--only-finished", "--jobs", "2")
    assert outcome.code == 0, outcome.err
    assert row(tmp_path, "replay")["scores"] == {}
    assert set(row(tmp_path, "replay")["missing"]) == {
        *("toy", "digits", "digits-bias", "biased-digits"),
    }


def test_mistakes_are_named_all_at_once(cli: Cli) -> None:
    words = ("--streams", "x", "--seeds", "9", "--method", "err", "--jobs", "0", "--inputs")
    assert len(cli(*BENCH, *words).err.strip().splitlines()) == 5


def test_without_files_it_says_which_are_missing(cli: Cli) -> None:
    outcome = cli("bench", "fair-cil", "--method", "er")
    assert outcome.code == 1
    assert "run `faircil data fetch fashion-mnist`" in outcome.err
    assert "add --small" in outcome.err


@pytest.fixture
def predictions(cli: Cli, tmp_path: Path) -> Path:
    """A folder of predictions: those of runs, as files of another system."""
    settings = ("--set", "epochs=1", "hidden=8", "--seeds", "0-4", "--no-model", "--out", "mine")
    assert cli("run", "--dataset", "toy", "--method", "er", *settings, "--quiet").code == 0
    for seed in range(5):
        target = tmp_path / "sent" / "toy" / f"seed-{seed}"
        target.mkdir(parents=True)
        shutil.copy(tmp_path / "mine" / f"seed-{seed}" / "predictions.csv", target)
    return tmp_path / "sent"


def send(cli: Cli, folder: Path, *words: str) -> Outcome:
    return cli(*BENCH, "--predictions", str(folder), "--name", "sent", "--streams", "toy", *words)


def test_predictions_score_as_the_run_that_made_them(
    cli: Cli, predictions: Path, tmp_path: Path
) -> None:
    assert send(cli, predictions).code == 0
    assert cli(*BENCH, "--method", "er", "--name", "run", *SHORT).code == 0
    sent, ran = row(tmp_path, "sent"), row(tmp_path, "run")
    assert sent["scores"] == ran["scores"]
    assert sent["origin"] == "predictions"


def test_everything_that_is_wrong_with_predictions_is_said(cli: Cli, predictions: Path) -> None:
    (predictions / "toy" / "seed-1" / "predictions.csv").unlink()
    (predictions / "rings").mkdir()
    path = predictions / "toy" / "seed-2" / "predictions.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[5]["y_pred"] = "cat"
    write_table(path, rows[:-1])
    outcome = send(cli, predictions)
    assert outcome.code == 1
    for said in (
        "rings is no stream of fair-cil-small 1",
        "seed-1/predictions.csv is missing; write all, or score a part with --streams or --seeds",
        "unknown classes are predicted after task 1: 'cat' (1 rows)",
        "1,499 rows after task 2, expected 1,500",
    ):
        assert said in outcome.err
    # All streams are wanted unless some are named.
    outcome = cli(*BENCH, "--predictions", predictions, "--name", "sent")
    assert "digits-bias/seed-0/predictions.csv and 4 more are missing" in outcome.err
    assert cli(*BENCH, "--predictions", "nowhere", "--name", "x").code == 1


def test_the_template_is_all_that_others_need(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*BENCH, "--write-template", "mine", "--inputs", "--streams", "toy")
    assert outcome.code == 0, outcome.err
    described = json.loads((tmp_path / "mine" / "suite.json").read_text())
    assert described["streams"][0]["tasks"] == [["0", "1"], ["2"]]
    assert "--small --predictions" in (tmp_path / "mine" / "README.md").read_text()
    # A method that knows nothing of faircil: the nearest mean of a class.
    for seed in range(5):
        folder = tmp_path / "mine" / "toy" / f"seed-{seed}"
        data = np.load(folder / "inputs.npz")
        assert "train_z" not in data
        with (folder / "test_rows.csv").open(newline="") as file:
            truth = [line["y_true"] for line in csv.DictReader(file)]
        rows = []
        for after in (1, 2):
            known = np.unique(data["train_y"][data["train_task"] <= after])
            means = np.stack([data["train_x"][data["train_y"] == c].mean(axis=0) for c in known])
            x = data["test_x"][data["test_task"] <= after]
            nearest = known[((x[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)]
            rows += [
                {"after_task": after, "row": place, "y_true": truth[place], "y_pred": str(c)}
                for place, c in enumerate(nearest)
            ]
        write_table(folder / "predictions.csv", rows)
    outcome = send(cli, tmp_path / "mine")
    assert outcome.code == 0, outcome.err
    scores = row(tmp_path, "sent")["scores"]["toy"]
    assert all(one["final_accuracy"]["value"] > 0.9 for one in scores.values())


def suite_of_groups(*, redrawn: bool = True) -> tuple[SuiteStream, Suite]:
    size = (2, 2, 3000, 1500)
    stream = SuiteStream("toy-groups", "", "points", "eo", size, ("",), "", redrawn=redrawn)
    return stream, Suite("made", 1, (stream,), (0, 1, 2))


def test_inputs_that_seeds_do_not_change_are_written_with_any_first_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SuiteStream, "check", lambda *_: None)
    stream, suite = suite_of_groups(redrawn=False)
    list(write_template(suite, [stream], [1, 2], tmp_path, inputs=True))
    assert [path.parent.name for path in tmp_path.rglob("inputs.npz")] == ["seed-1"]


def test_the_template_has_attributes_of_training_rows_only(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SuiteStream, "check", lambda *_: None)
    groups, suite = suite_of_groups()
    list(write_template(suite, [groups], [0], tmp_path / "mine", inputs=True))
    described = json.loads((tmp_path / "mine" / "suite.json").read_text())
    assert described["streams"][0]["attribute_values"] == ["0", "1"]
    folder = tmp_path / "mine" / "toy-groups" / "seed-0"
    assert set(np.load(folder / "inputs.npz")) == {
        *("train_x", "train_y", "train_z", "train_task", "test_x", "test_task"),
    }
    assert (folder / "test_rows.csv").read_text().startswith("row,task,y_true\n0,1,0\n")


def test_auto_takes_what_is_best_on_held_out_rows(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = auto.Candidate("short", "gdumb", overrides=("epochs=1", "hidden=8"))
    narrow = auto.Candidate("narrow", "moments", overrides=("width=40",))
    monkeypatch.setattr(auto, "CANDIDATES", (narrow, short))
    monkeypatch.setattr(auto, "MOST_SEEDS", 1)
    outcome = cli(*BENCH, "--method", "auto", "--streams", "toy", "--seeds", "0")
    assert outcome.code == 0, outcome.err
    assert str(row(tmp_path, "auto")["note"]).startswith("takes toy: ")
    again = cli(*BENCH, "--method", "auto", "--streams", "toy", "--only-finished", "--jobs", "2")
    assert again.code == 0
    assert "not run: it has no finished run" in row(tmp_path, "auto")["missing"]["toy"]


def test_rows_of_others_are_shown_beside(cli: Cli, tmp_path: Path) -> None:
    assert cli(*BENCH, "--method", "er", "--name", "theirs", *SHORT).code == 0
    (tmp_path / "bench" / "fair-cil" / "rows" / "fair-cil-small").rename(tmp_path / "theirs")
    outcome = cli(*BENCH, "--rows", "theirs", "--json")
    assert outcome.code == 0, outcome.err
    document = json.loads(outcome.out)
    assert "theirs" in [place["row"] for place in document["order"]]
    (tmp_path / "theirs" / "theirs.json").write_text("{}")
    outcome = cli(*BENCH, "--rows", "theirs")
    assert outcome.code == 1
    assert "is no row of a leaderboard" in outcome.err
