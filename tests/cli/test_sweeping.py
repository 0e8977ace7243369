"""Sweeps as people see them."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import pytest

from faircil.cli.sweeping import add_sweep_arguments, finish_shown, sweep_options
from faircil.errors import StorageError, SweepError
from faircil.sweep import processes
from faircil.sweep.sweep import SweepOptions
from sweeps import small_work


def options(*words: str) -> tuple[SweepOptions, list[str]]:
    parser, mistakes = ArgumentParser(), []
    add_sweep_arguments(parser)
    return sweep_options(parser.parse_args(words), mistakes), mistakes


def test_options_and_their_mistakes() -> None:
    read, mistakes = options("--jobs", "3", "--runs", "here", "--any-code")
    assert read == SweepOptions(Path("here"), jobs=3, any_code=True)
    assert not mistakes
    _, mistakes = options("--jobs", "0", "--gpu-jobs", "-1")
    assert [line.split(",")[0] for line in mistakes] == ["`jobs` is 0", "--gpu-jobs is -1"]
    read, mistakes = options("--scheduler", "local:2")
    assert (read.scheduler, mistakes) == ("local:2", [])
    _, mistakes = options("--scheduler", "here", "--jobs", "2", "--gpu-jobs", "1")
    assert mistakes[0].startswith("`scheduler` is 'here', expected dask://HOST:PORT")
    assert mistakes[1:3] == [
        "`jobs` and `scheduler` are given; give one of them",
        "--gpu-jobs and --scheduler are given; give one of them",
    ]


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    _, mistakes = options("--gpu-jobs", "2")
    assert mistakes[0].startswith("--gpu-jobs needs a GPU, and torch sees none")


def test_progress_tells_what_was_there_what_failed_and_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finish_shown([small_work(0)], SweepOptions(tmp_path), quiet=True)
    assert capsys.readouterr().err == ""
    works = [small_work(0), small_work(1), small_work(2, lr=1e30), small_work(3, lr=1e30)]
    finish_shown(works, SweepOptions(tmp_path), quiet=False)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("2 of 4 runs, 1 of them reused, about ")
    assert lines[1] == "2 of 4 runs, 1 of them reused, 2 failed, nothing left"
    assert lines[2].startswith("not finished: toy-groups er eo seed 2")
    assert "training diverged" in lines[2]


def test_a_sweep_that_stops_says_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    finish_shown([small_work(0)], SweepOptions(tmp_path), quiet=True)

    def full(*_: object, **__: object) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr(processes, "make_run", full)
    with pytest.raises(SweepError):
        finish_shown([small_work(0), small_work(1)], SweepOptions(tmp_path), quiet=True)
    text = f"1 of 2 runs are finished and kept in {tmp_path}; the same command continues"
    assert text in capsys.readouterr().err.replace("\n", " ")
