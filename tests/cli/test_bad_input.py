"""Every mistake ends with a message that names it, exit code 1 or 2, and nothing written."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cli_outcome import Cli, Person, WriteTable
from faircil.data.sources import SOURCES

RUN = ("run", "--method", "fsw", "--quiet", "--set", "epochs=1")
TOY = (*RUN, "--dataset", "toy")
MOMENTS = ("run", "--method", "moments", "--quiet", "--dataset", "toy-groups")
TARGET = (*MOMENTS, "--target", "eo_gap<=0.05")
OWN_DATA = ("--data", "people.csv", "--label", "job")
OWN = (*RUN, *OWN_DATA)


@pytest.fixture(autouse=True)
def nothing_is_written(tmp_path: Path) -> object:
    yield
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rnu"], "unknown command 'rnu': did you mean 'run'?"),
        (["run", "--seed", "3"], "unknown option '--seed': did you mean '--seeds'?"),
        (["run", "toy"], "unexpected argument 'toy'"),
        (["run", "--set"], "argument --set: expected at least one argument"),
        (["list", "dataset"], "unknown kind 'dataset': did you mean 'datasets'?"),
        (["data", "chek"], "unknown action 'chek': did you mean 'check'?"),
        (["data", "fetch"], "NAME"),
        (["data", "fetch", "mnits"], "unknown dataset 'mnits': did you mean 'mnist'?"),
        (RUN, "with --dataset (see `faircil list datasets`), or give your own data with --data"),
        ([*RUN, "--dataset", "mnits"], "unknown dataset 'mnits': did you mean 'mnist'?"),
        ([*TOY, "--method", "momnets"], "unknown method 'momnets': did you mean 'moments'?"),
        ([*TOY, "--method", "atuo"], "unknown method 'atuo': did you mean 'auto'? Known: agem"),
        ([*MOMENTS, "--set", "lr=1", "tau=2"], "method 'moments' has no setting 'tau'"),
        (
            [*MOMENTS, "--set", "lr=1", "epochs=2", "net=conv", "hidden=8"],
            "setting lr, epochs, net, hidden has no effect on method 'moments': it trains no net "
            "with features=relu (trained: it does); leave it out",
        ),
        (
            [*MOMENTS, "--set", "features=trained", "buffer_size=9", "keep=all", "alpha=0.1"],
            "setting buffer_size, keep, alpha has no effect on method 'moments': it keeps no",
        ),
        (
            [*MOMENTS, "--set", "lam=2", "classifier=lda"],
            "setting lam has no effect on method 'moments': it chooses no weights with "
            "classifier=lda",
        ),
        ([*MOMENTS, "--set", "features=raw", "width=9"], "features=raw are as many as the inputs"),
        (
            [*TARGET, "--set", "classifier=nearest-mean"],
            "a target chooses `lam`, which has no effect on method 'moments' here: it chooses no "
            "weights with classifier=nearest-mean; leave that setting out, or the target",
        ),
        ([*TARGET, "--set", "group_weights=class"], "weights are fixed with group_weights=class"),
        ([*TARGET, "--method", "err"], "unknown method 'err': did you mean 'er'? Known: agem, au"),
        ([*TOY, "--measure", "eerr"], "unknown measure 'eerr': did you mean 'eer'?"),
        ([*TOY, "--weighting", "rndom"], "unknown weighting 'rndom': did you mean 'random'?"),
        ([*TOY, "--set", "taau=1"], "unknown setting 'taau': did you mean 'tau'?"),
        ([*TOY, "--set", "solver=higs"], "unknown solver 'higs': did you mean 'highs'?"),
        ([*TOY, "--set", "buffer_rule=rndm"], "unknown buffer rule 'rndm': did you mean 'random'?"),
        ([*TOY, "--set", "granularity=grp"], "unknown granularity 'grp': did you mean 'group'?"),
        ([*TOY, "--set", "tau"], "setting 'tau' is not of the form name=value"),
        ([*TOY, "--set", "lr=-1"], "setting lr=-1 is not allowed: it should be greater than 0"),
        ([*TOY, "--set", "lr=nan"], "lr=nan is not allowed: it should be a finite number"),
        ([*TOY, "--set", "epochs=1.5"], "epochs=1.5 is not allowed: it should be a valid integer"),
        ([*TOY, "--set", "lam=1e308"], "lam=1e308 is not allowed: it should be less than or equal"),
        ([*TOY, "--set", "alpha=1e308"], "alpha=1e308 is not allowed"),
        ([*TOY, "--set", "hidden=8,99999999999"], "hidden=8,99999999999 is not allowed"),
        ([*TOY, "--set", "batch_size=99999999999999999999"], "less than or equal to 1000000000"),
        ([*TOY, "--method", "ocs", "--set", "warm_up=99999999999999999999"], "warm_up=9999"),
        ([*MOMENTS, "--set", "width=99999999999999999999"], "width=9999"),
        ([*TOY, "--set", "alpha=x"], "it should be a valid number or 'auto'"),
        ([*TOY, "--set", "hidden=8,x"], "hidden=8,x is not allowed: it should be a valid integer"),
        ([*TOY, "--set", "floor=maybe"], "it should be a valid boolean"),
        ([*TOY, "--set", "class_order=up"], "it should be 'fixed' or 'shuffled'"),
        ([*TOY, "--seeds", "4-1"], "--seeds '4-1' counts down; write 1-4"),
        ([*TOY, "--seeds", "a"], "--seeds 'a' cannot be read; write 3, 0-4 or 0,2,5"),
        ([*TOY, "--seeds", "-1"], "--seeds '-1' cannot be read"),
        ([*TOY, "--seeds", ""], "--seeds '' cannot be read"),
        ([*TOY, "--seeds", "0-9999"], "10,000 seeds, more than 1,000"),
        ([*TOY, "--measure", "eo"], "toy has none; use --measure eer, or choose a --dataset that"),
        ([*TOY, "--measure", "dp"], "toy has none; use --measure eer, or choose a --dataset that"),
        ([*TOY, "--weighting", "random"], "use --method er with --weighting random"),
        ([*TOY, "--held-out", "-1"], "--held-out is -1, expected a number of samples, 0 for none"),
        ([*TOY, "--method", "joint", "--weighting", "fsw"], "it trains on all data at once"),
        ([*TOY, "--method", "finetune", "--weighting", "balanced"], "it keeps no buffer"),
        ([*TOY, "--abstain", "1"], "--abstain is 1, expected a share between 0 and 1, e.g. 0.1"),
        ([*TOY, "--abstain", "0.1", "--evaluate-on", "validation"], "--abstain needs predictions"),
        ([*TOY, "--device", "tpu"], "unknown device 'tpu'; use auto, cpu, cuda or cuda:N"),
        ([*TOY, "--device", "meta"], "device 'meta' is not supported"),
        ([*TOY, "--label", "job"], "--label: for your own data, given with --data FILE"),
        ([*TOY, "--test-share", "0"], "--test-share: for your own data"),
        ([*OWN, "--dataset", "toy"], "dataset 'toy' and own data people.csv are given"),
        ([*RUN, "--data", "people.csv"], "--data needs --label COLUMN"),
        ([*OWN, "--measure", "dp"], "--measure eer, or name a sensitive column with --sensitive"),
        ([*OWN, "--set", "class_order=shuffled"], "choose the tasks of own data with --tasks"),
        (["diagnose", *OWN_DATA, "--seed", "-1"], "--seed is -1, expected a whole number"),
        (["fit", *OWN_DATA, "-o", "m", "--seed", "-1"], "--seed is -1, expected a whole number"),
        ([*OWN, "--test-share", "x"], "invalid float value: 'x'"),
        ([*OWN, "--test-share", "1.5"], "--test-share is 1.5, expected a number between 0"),
        ([*RUN, "--data", "people.csv", "--label", "jb"], "unknown column 'jb': did you mean"),
        ([*OWN, "--sensitive", "sx"], "unknown column 'sx': did you mean 'sex'"),
        ([*OWN, "--tasks", "w,x|x,y"], "class 'x' appears 2 times in tasks 'w,x|x,y'"),
        ([*OWN, "--tasks", "w,x|q"], "unknown class 'q'"),
        ([*OWN, "--tasks", "w"], "name fewer than two classes"),
    ],
)  # fmt: skip
def test_wrong_calls(cli: Cli, write_table: WriteTable, arguments: list[str], message: str) -> None:
    write_table()
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert outcome.err.startswith("error:")
    assert message in outcome.err
    assert outcome.out == ""


def test_a_net_that_does_not_fit_is_refused_before_it_is_made(cli: Cli) -> None:
    outcome = cli(*TOY, "--set", "hidden=1000000000,1000000000")
    assert outcome.code == 1
    assert "not enough memory: a net of 1,000,000," in outcome.err
    assert "with --set, choose fewer or narrower hidden layers" in outcome.err


def test_too_few_addresses(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS would wait for memory without end, and hear no signal."""
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**29, resource.RLIM_INFINITY))
    outcome = cli("list", "methods")
    assert outcome.code == 2
    assert "limited to 512 MiB, and the libraries of faircil need at least 1,024" in outcome.err
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert cli("list", "methods").code == 0


@pytest.mark.skipif(os.name == "nt", reason="a folder in use is not removed there")
def test_a_current_folder_that_is_gone(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    outcome = cli(*TOY, "--out", str(tmp_path / "runs"))
    assert outcome.code == 2
    assert "the current folder cannot be used: No such file or directory; change to" in outcome.err


def test_a_name_that_is_no_text(cli: Cli) -> None:
    outcome = cli(*TOY, "--out", "runs/\udcff")
    assert outcome.code == 2
    assert "'runs/\\udcff' has bytes that are not valid" in outcome.err


def test_a_name_that_is_too_long(cli: Cli) -> None:
    outcome = cli(*TOY, "--out", "x" * 300)
    assert outcome.code == 1
    assert "File name too long; check the name" in outcome.err


def test_cuda_where_there_is_none(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    outcome = cli(*TOY, "--device", "cuda")
    assert outcome.code == 2
    assert "device 'cuda' is not available: torch sees 0 CUDA devices" in outcome.err
    assert "use --device cpu, or install a CUDA build of torch" in outcome.err


def test_several_mistakes_are_reported_at_once(cli: Cli) -> None:
    outcome = cli(
        "run", "--dataset", "tooy", "--method", "err", "--measure", "oe", "--seeds", "x",
        "--device", "tpu", "--label", "y", "--set", "lr=0", "tauu=1", "solver=x",
    )  # fmt: skip
    assert outcome.code == 2
    lines = outcome.err.splitlines()
    assert lines[0] == "error:"
    assert len(lines) == 10
    assert all(line.startswith("- ") for line in lines[1:])


def without(name: str, value: object, every: int) -> Callable[[Person], Person]:
    return lambda row: row | ({name: value} if int(str(row["id"])) % every == 0 else {})


@pytest.mark.parametrize(
    ("change", "options", "messages"),
    [
        (without("job", "", 50), [], ["column 'job' has 5 missing value(s)"]),
        (
            lambda row: without("sex", "NA", 50)(without("a", math.inf, 240)(row)),
            ["--sensitive", "sex"],
            ["column 'sex' has 5 missing value(s)", "--unknown-group", "column 'a' has 1 value(s)"],
        ),
        (without("a", math.inf, 240), [], ["column 'a' has 1 value(s) that are infinite"]),
        (without("a", math.nan, 1), [], ["column 'a' has no value at all"]),
        (without("job", "w", 1), [], ["label column 'job' has 1 class(es); at least two"]),
        (without("sex", "F", 1), ["--sensitive", "sex"], ["'sex' has 1 distinct value(s)"]),
    ],
)
def test_tables_that_cannot_be_used(
    cli: Cli,
    write_table: WriteTable,
    change: Callable[[Person], Person],
    options: list[str],
    messages: list[str],
) -> None:
    write_table(change=change)
    outcome = cli(*OWN, *options)
    assert outcome.code == 1
    for message in messages:
        assert message in outcome.err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.csv", None, "there is no file absent.csv; check the path"),
        (".", None, "the folder . has no table"),
        ("empty.csv", b"", "empty.csv is empty"),
        ("header.csv", b"a,job\n", "has columns but no rows"),
        (
            "people.txt",
            b"a,job\n1,w\n",
            "people.txt has an unknown file extension; expected one of .csv",
        ),
        ("people.npz", b"a,job\n1,w\n", "people.npz is not an .npz archive"),
        ("people.csv.gz", b"a,job\n1,w\n", "cannot read people.csv.gz"),
        ("people.csv", b"\x89PNG\r\n\x1a\n\x00\xff", "people.csv is not UTF-8 text"),
    ],
)
def test_files_that_cannot_be_read(
    cli: Cli, tmp_path: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    outcome = cli(*RUN, "--data", name, "--label", "job")
    assert outcome.code == 1
    assert message in outcome.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("command", ["run", "fit", "diagnose", "tune"])
def test_a_pipe_is_no_table(cli: Cli, tmp_path: Path, command: str) -> None:
    """Reading one would wait without end."""
    os.mkfifo(tmp_path / "pipe.csv")
    out = ["--out", "model"] if command == "fit" else []
    method = [] if command == "diagnose" else ["--method", "er"]
    outcome = cli(command, "--data", "pipe.csv", "--label", "job", *method, *out)
    assert outcome.code == 1
    assert "pipe.csv is a device or a pipe" in outcome.err


def test_missing_data_file_says_how_to_get_it(cli: Cli) -> None:
    outcome = cli(*RUN, "--dataset", "drug")
    assert outcome.code == 1
    assert "drug_consumption.data is missing: run `faircil data fetch drug`" in outcome.err


@pytest.mark.parametrize("content", [b"", b"not gzip"])
def test_corrupt_data_file_says_how_to_replace_it(cli: Cli, tmp_path: Path, content: bytes) -> None:
    for file in SOURCES["mnist"].files:
        (tmp_path / "data" / "mnist").mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / "mnist" / file.name).write_bytes(content)
    outcome = cli(*RUN, "--dataset", "mnist")
    assert outcome.code == 1
    assert "is corrupt" in outcome.err
    assert "run `faircil data fetch mnist --force`" in outcome.err
