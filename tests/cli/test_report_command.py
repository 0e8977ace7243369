from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli_outcome import Cli, WriteTable, run_words

RUN = run_words("fsw", "toy-groups", "--quiet", epochs=1)
OWN = ("run", "--label", "job", "--sensitive", "sex", "--set", "epochs=1", "hidden=8", "lam=0.3")


def test_a_page_of_two_methods(cli: Cli, tmp_path: Path) -> None:
    cli(*RUN, "--out", "runs/fsw", "--seeds", "0-1")
    cli(*RUN, "--method", "er", "--out", "runs/er", "--seeds", "0-1")
    outcome = cli("report", "runs", "-o", "pages/mine.html")
    assert outcome.code == 0
    assert "report: pages/mine.html (0.1 MB); open it in a browser" in outcome.err
    text = (tmp_path / "pages/mine.html").read_text("utf-8")
    assert "Fairness report: toy-groups" in text
    assert "plain replay" in text
    assert "faircil report runs -o pages/mine.html" in text
    assert "weight of each group in each task" in text
    assert "What the audit found" in text
    assert "no difference is shown" in text or "groups are treated differently" in text


def test_altered_runs_are_refused(cli: Cli, tmp_path: Path) -> None:
    cli(*RUN, "--out", "runs/fsw")
    (tmp_path / "runs/fsw/seed-0/predictions.csv").write_text("after_task\n")
    outcome = cli("report", "runs")
    assert outcome.code == 1
    assert "was altered after it was written: predictions.csv" in outcome.err
    assert not (tmp_path / "report.html").exists()


def test_a_place_that_cannot_be_written(cli: Cli, tmp_path: Path) -> None:
    cli(*RUN, "--out", "runs/fsw")
    (tmp_path / "page.html").mkdir()
    outcome = cli("report", "runs", "-o", "page.html")
    assert outcome.code == 1
    assert "cannot write the report to page.html" in outcome.err
    assert "give another file with --out" in outcome.err
    (tmp_path / "people.csv").write_text("mine")
    assert cli("report", "runs", "-o", "people.csv").code == 2
    assert (tmp_path / "people.csv").read_text() == "mine"


def test_a_report_that_cannot_be_written_leaves_the_one_before(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli(*RUN, "--out", "runs/fsw")
    assert cli("report", "runs", "-o", "page.html").code == 0
    before, original = (tmp_path / "page.html").read_bytes(), Path.write_bytes

    def write_half(path: Path, content: bytes) -> int:
        original(path, content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    outcome = cli("report", "runs", "-o", "page.html")
    assert (outcome.code, "No space left" in outcome.err) == (1, True)
    assert (tmp_path / "page.html").read_bytes() == before


def test_own_data_has_plain_replay_beside(
    cli: Cli, write_table: WriteTable, tmp_path: Path
) -> None:
    outcome = cli(*OWN, "--data", write_table(), "--method", "fsw", "-o", "o", "--no-model")
    assert outcome.code == 0
    assert (
        "note: These runs cannot tell whether fsw is better or worse than plain replay (er)."
        in (" ".join(outcome.err.split()))
    )
    assert "One common run cannot show whether a difference is due to chance" in outcome.err
    assert "baseline er in o/baseline" in outcome.err
    assert "both as a page: faircil report o" in outcome.err
    assert "│ er " in outcome.out
    identity = json.loads((tmp_path / "o/baseline/seed-0/config.json").read_text())["config"]
    assert (identity["method"], identity["weighting"], identity["measure"]) == ("er", "none", "eo")
    assert identity["settings"]["hidden"] == [8]  # what replay makes use of is shared
    assert cli("report", "o").code == 0
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "Against plain replay" in page


def test_baseline_in_json_and_in_the_usual_folders(cli: Cli, write_table: WriteTable) -> None:
    words = (*OWN, "--data", write_table(), "--method", "fsw", "--no-model", "--json", "--quiet")
    document = json.loads(cli(*words).out)
    assert document["baseline"].keys() == {"runs", "mean", "std"}
    assert "/er-eo-" in document["baseline"]["runs"][0]["dir"]
    assert "baseline" not in json.loads(cli(*words, "--baseline", "none").out)


@pytest.mark.parametrize(
    ("words", "beside"),
    [((), False), (("--baseline", "er"), True), (("--baseline", "fsw"), False)],
)
def test_datasets_have_a_baseline_on_demand(
    cli: Cli, tmp_path: Path, words: tuple[str, ...], beside: bool
) -> None:
    assert cli(*RUN, "--out", "o", *words).code == 0
    assert (tmp_path / "o/baseline").exists() == beside


def test_an_unknown_baseline_is_named_with_other_mistakes(cli: Cli) -> None:
    outcome = cli(*RUN, "--baseline", "err", "--seeds", "x")
    assert outcome.code == 2
    assert "unknown baseline 'err': did you mean 'er'?" in outcome.err
    assert "--seeds 'x' cannot be read" in outcome.err


def test_a_baseline_that_nobody_asked_for_may_fail(cli: Cli, write_table: WriteTable) -> None:
    name = write_table(change=lambda row: row | {"sex": ""} if row["id"] == 4 else row)
    words = ("run", "--data", name, "--label", "job", "--sensitive", "sex", "--unknown-group")
    words += ("--method", "moments", "--set", "width=20", "-o", "o", "--no-model")
    outcome = cli(*words)
    assert outcome.code == 0
    assert "note: er was not run for comparison: 1 of" in outcome.err
    wanted = cli(*words, "--baseline", "er")
    assert wanted.code == 1
    assert "unknown attribute value" in wanted.err


AUDIT = ("--truth", "y", "--prediction", "p", "--sensitive", "sex", "--draws", "200", "-o", "found")


def write_predictions(folder: Path) -> None:
    rows = ["ant,ant,f", "ant,ant,m", "bee,ant,f", "bee,bee,m"] * 20
    (folder / "people.csv").write_text("\n".join(["y,p,sex", *rows]) + "\n")


def test_a_page_of_an_audit(cli: Cli, tmp_path: Path) -> None:
    write_predictions(tmp_path)
    assert cli("audit", "people.csv", *AUDIT, "--fail-on", "eo_gap>0.10").code == 3
    for given in ("found", "found/audit.json"):
        outcome = cli("report", given, "-o", "audit.html")
        assert outcome.code == 0, outcome.err
        text = (tmp_path / "audit.html").read_text("utf-8")
        assert "Fairness report: people.csv" in text
        assert "The gate <strong>fails</strong>" in text
        assert "faircil audit people.csv --truth y" in text
        assert "<bdi>bee, f</bdi>" in text


def test_runs_and_audits_on_one_page(cli: Cli, tmp_path: Path) -> None:
    write_predictions(tmp_path)
    cli("audit", "people.csv", *AUDIT)
    cli(*RUN, "--out", "runs/fsw")
    assert cli("report", "runs", "found").code == 0
    text = (tmp_path / "report.html").read_text("utf-8")
    assert "Fairness report: toy-groups, people.csv" in text
    assert "<bdi>people.csv</bdi>: how each group fares" in text


def test_what_is_no_audit_is_refused(cli: Cli, tmp_path: Path) -> None:
    for name, content in {
        "broken.json": "{",
        "other.json": "[1, 2]",
        "wrong.json": '{"file": "x", "n": "many", "draws": 1, "findings": [], "groups": []}',
        "deep.json": "[" * 100_000,
    }.items():
        (tmp_path / name).write_text(content)
    names = ("broken.json", "other.json", "wrong.json", "deep.json", "absent.json")
    outcome = cli("report", *names)
    assert outcome.code == 1
    for name in names[:-1]:
        assert f"{name} is not an audit written by faircil" in outcome.err
    assert "n: Input should be a valid integer" in outcome.err
    assert "cannot read absent.json: No such file" in outcome.err
    assert not (tmp_path / "report.html").exists()
