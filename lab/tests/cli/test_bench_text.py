from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cli_outcome import Cli
from faircil.cli import main
from faircil.errors import FaircilError
from faircil_lab.bench import texts, texts_measure
from faircil_lab.bench.texts import EncoderWorkload
from faircil_lab.cli.bench import TEXT_SIZES
from text_costs import epoch_round

SMALL = ("--layers", "1", "--hidden", "8", "--rows", "500", "--tokens", "4", "--steps", "1")
TEXT = ("bench", "text", *SMALL, "--repeats", "1", "--device", "cpu")


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts_measure, "KNOWN", 1)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "text", "--help"])
    assert stopped.value.code == 0
    assert "texts for training, over all tasks (default: 253000)" in capsys.readouterr().out


def test_writes_files_and_prints_tables(cli: Cli, tmp_path: Path) -> None:
    outcome = cli(*TEXT, "--page", "docs/text.md")
    assert outcome.code == 0
    for words in ("An epoch", "Parts of an epoch", "Embeddings of a frozen encoder"):
        assert words in outcome.out
    for words in ("products inside of the encoder are in float32", "epoch, round 1: one pass "):
        assert words in outcome.err
    assert outcome.err.endswith("saved in bench/text\n")
    names = {"results.json", "results.csv", "epoch.png", "epoch.svg", "page.md"}
    assert {file.name for file in (tmp_path / "bench" / "text").iterdir()} == names
    page = (tmp_path / "docs" / "text.md").read_text("utf-8")
    assert f"```\nfaircil {' '.join(TEXT)}\n```" in page
    assert "transformers" in page
    assert (tmp_path / "docs" / "images" / "text-epoch.svg").is_file()


@pytest.mark.usefixtures("nothing_drawn")
def test_json(cli: Cli) -> None:
    outcome = cli(*TEXT, "--json", "--quiet")
    assert outcome.err == ""
    document = json.loads(outcome.out)
    assert document["workload"] == {
        "layers": 1, "hidden": 8, "rows": 500, "tokens": 4, "steps": 1, "repeats": 1,
    }  # fmt: skip
    assert document["epochs"][0]["name"] == "plain replay"


def test_what_a_cpu_would_take_long_for_stops(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(texts, "cpu_seconds", lambda _: 7200.0)
    outcome = cli("bench", "text", *SMALL)
    assert outcome.code == 2
    assert "there is no GPU, and this CPU would take about 2.0 hours; take less" in outcome.err
    assert "--device cpu" in outcome.err
    assert not (tmp_path / "bench").exists()


@pytest.mark.usefixtures("nothing_drawn")
@pytest.mark.parametrize("arguments", [("--device", "cpu"), ()])
def test_nobody_is_asked_about_a_short_one_or_what_they_want(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(texts, "cpu_seconds", lambda _: 7200.0 if arguments else 60.0)
    monkeypatch.setattr(texts_measure, "measure_epochs", lambda *_: iter([epoch_round()]))
    assert cli("bench", "text", *SMALL, "--repeats", "1", *arguments, "--quiet").code == 0


def test_all_mistakes_at_once(cli: Cli) -> None:
    outcome = cli("bench", "text", "--rows", "3", "--steps", "0", "--device", "tpu")
    assert outcome.code == 2
    for words in ("device 'tpu'", "--rows is 3, expected at least 50", "--steps is 0"):
        assert words in outcome.err


@pytest.mark.usefixtures("nothing_drawn")
def test_what_was_measured_stays(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stopped(*_: Any) -> Iterator[Any]:
        yield epoch_round()
        raise FaircilError("not enough memory")

    monkeypatch.setattr(texts_measure, "measure_epochs", stopped)
    outcome = cli(*TEXT, "--quiet")
    assert outcome.code == 1
    assert outcome.err.endswith("error: not enough memory\n")
    document = json.loads((tmp_path / "bench" / "text" / "results.json").read_text("utf-8"))
    assert document["complete"] is False
    assert len(document["rounds"]) == 1


def test_defaults_are_those_of_the_workload() -> None:
    """The command line names them without importing torch."""
    defaults = {field.name: field.default for field in fields(EncoderWorkload)}
    assert {name: default for name, (default, _) in TEXT_SIZES.items()} == defaults
