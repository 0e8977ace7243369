from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from cli_outcome import Cli
from faircil.cli.lists import KINDS
from faircil.data.sources import SOURCES, DataFile, Source
from tiny_bios import in_place_of_the_sample, write_splits

CONTENT = b"1,2,3\n"
TINY = Source("mnist", (DataFile("a.gz", hashlib.sha256(CONTENT).hexdigest()),), "made here")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all datasets with files be one small file each, without a place to get it from."""
    for name in SOURCES:
        monkeypatch.setitem(SOURCES, name, replace(TINY, name=name))


def put(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.gz").write_bytes(gzip.compress(content, mtime=0))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("datasets", ["digits", "biased-digits", "toy", "mnist", "drug", "embedded", "colour"]),
        ("datasets", ["biasbios", "biasbios-sample", "texts", "gender"]),
        ("methods", ["finetune", "joint", "er", "fsw", "er with weighting fsw"]),
        ("measures", ["eer", "eo", "dp", "equalized odds"]),
        ("weightings", ["none", "fsw", "random", "balanced"]),
        ("settings", ["lr", "256,256", "tau", "granularity", "true"]),
        ("metrics", ["accuracy", "eo_gap", "forgetting", "0 = fair"]),
        ("solvers", ["exact", "highs", "cplex"]),
    ],
)
def test_list_of_a_kind(cli: Cli, kind: str, names: list[str]) -> None:
    outcome = cli("list", kind)
    assert outcome.code == 0
    assert outcome.out.startswith(kind)
    for name in names:
        assert name in outcome.out


def test_settings_name_the_methods_that_they_have_an_effect_on(cli: Cli) -> None:
    rows = [line.split("│") for line in cli("list", "settings").out.splitlines()]
    methods = {row[1].strip(): row[3].strip() for row in rows if len(row) > 3}
    assert methods["lr"] == "all but moments"
    assert methods["lam"] == "all"
    assert "ocs" in methods["shards"].removeprefix("all but ").split(", ")


def test_list_of_everything(cli: Cli) -> None:
    lines = [line.strip() for line in cli("list").out.splitlines()]
    assert [line for line in lines if line in KINDS] == list(KINDS)


@pytest.mark.usefixtures("tiny")
def test_data_list_shows_the_state_of_files(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path / "data/mnist", CONTENT)
    put(tmp_path / "data/drug", b"other")
    out = cli("data", "list").out
    assert str(tmp_path / "data") in out
    states = {
        cells[1].strip(): cells[2].strip()
        for line in out.splitlines()
        if len(cells := line.split("│")) > 2
    }
    assert states["digits"] == "embedded"
    assert states["mnist"] == states["biased-mnist"] == "ok"
    assert states["fashion-mnist"] == "missing"
    assert states["drug"] == "corrupt"


@pytest.mark.usefixtures("tiny")
def test_data_check_of_intact_files(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path / "data/mnist", CONTENT)
    outcome = cli("data", "check", "mnist", "biased-mnist")
    assert outcome.code == 0
    assert outcome.out.count("ok") == 1
    assert outcome.err == ""


@pytest.mark.usefixtures("tiny")
def test_data_check_says_what_to_do(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path / "data/drug", b"other")
    outcome = cli("data", "check", "mnist", "drug")
    assert outcome.code == 1
    assert "mnist: 1 of 1 files missing: run `faircil data fetch mnist`" in outcome.err
    assert "drug/a.gz is corrupt" in outcome.err
    assert "run `faircil data fetch drug --force`" in outcome.err


def test_embedded_datasets_need_nothing(cli: Cli) -> None:
    for action in ("check", "fetch"):
        outcome = cli("data", action, "digits")
        assert outcome.code == 0
        assert outcome.out == ""
        assert outcome.err == "digits is embedded and needs no files\n"


@pytest.mark.usefixtures("tiny")
def test_data_fetch_from_a_folder(cli: Cli, tmp_path: Path) -> None:
    put(tmp_path / "downloads", CONTENT)
    outcome = cli("data", "fetch", "biased-mnist", "--from", "downloads")
    assert outcome.code == 0
    assert f"mnist is in {tmp_path / 'data/mnist'}" in outcome.err
    assert cli("data", "check", "mnist").code == 0


@pytest.mark.usefixtures("tiny")
def test_data_fetch_that_fails(cli: Cli) -> None:
    outcome = cli("data", "fetch", "drug", "--from", "nowhere")
    assert outcome.code == 1
    assert "nowhere" in outcome.err


def test_files_that_nothing_fetches_say_how_to_get_them(cli: Cli, tmp_path: Path) -> None:
    for action in ("fetch", "check"):
        outcome = cli("data", action, "biasbios", "biasbios-sample")
        assert outcome.code == 1
        assert outcome.err.count("hf download LabHC/bias_in_bios") == 1
        assert f"--local-dir {tmp_path / 'data/biasbios'}" in outcome.err
        assert f"{tmp_path / 'data/biasbios/bios_sample.csv'} is missing" in outcome.err


def test_files_put_in_place_are_found(cli: Cli, tmp_path: Path) -> None:
    write_splits(tmp_path / "data")
    with in_place_of_the_sample(tmp_path / "data") as sample:
        outcome = cli("data", "fetch", "biasbios", "biasbios-sample")
        assert outcome.code == 0
        assert outcome.err.count("its files are in place") == 2
        outcome = cli("data", "check", "biasbios", "biasbios-sample")
        assert outcome.code == 0
        assert outcome.out.count("ok") == 3
        sample.write_text("another")
        outcome = cli("data", "check", "biasbios-sample")
        assert outcome.code == 1
        assert "bios_sample.csv is corrupt" in outcome.err


@pytest.mark.usefixtures("tiny")
def test_files_that_nothing_fetches_are_missed_only_where_they_are_named(
    cli: Cli, tmp_path: Path
) -> None:
    for name in SOURCES:
        put(tmp_path / "data" / name, CONTENT)
    outcome = cli("data", "check")
    assert outcome.code == 0
    assert "biasbios" not in outcome.out
    write_splits(tmp_path / "data")
    assert "biasbios" in cli("data", "check").out
