from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from rich.progress import TextColumn

import faircil.cli.progress
from cli_outcome import Cli, WriteTable
from faircil.cache import EmbeddingProgress
from faircil.cli.progress import Bars, DetailedProgress, LessonBar, Lines, reporting
from faircil.metrics import TaskMetrics, evaluate
from faircil.moments import PassRecord
from faircil.results.record import EpochRecord, WeightRecord
from faircil.runs.config import resolve

CONFIG = resolve(dataset="toy-groups", method="fsw", overrides=["epochs=2"])
FIRST = EpochRecord(
    task=1, epoch=1, samples=2000, trained=2000, steps=1000, train=1.0, weights=None
)
WEIGHTS = WeightRecord(
    kept=300, dropped=699, partial=1, objective=1.0, bound=1.0, gradient=0.5, lp=0.25
)
LATER = EpochRecord(
    task=2, epoch=2, samples=1000, trained=320, steps=160, train=1.0, weights=WEIGHTS
)


def metrics() -> TaskMetrics:
    y, z = np.repeat([0, 1], 20), np.tile(np.repeat([0, 1], 10), 2)
    hits = (y == 1) | (z == 0) | (np.arange(40) % 2 == 0)
    return evaluate(y, np.where(hits, y, 1 - y), task=y, sensitive=z)


def terminal(width: int = 80) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, force_terminal=True, width=width, _environ={"TERM": "xterm"}), file


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def test_lines() -> None:
    file = io.StringIO()
    report = Lines(Console(file=file, width=40), CONFIG)
    report.start(seed=3, tasks=2)
    for event in (FIRST, metrics(), FIRST, LATER, metrics()):
        report(event)
    assert file.getvalue().splitlines() == [
        "toy-groups fsw seed 3: task 1/2  accuracy .875  eo_gap .250  worst_group .500  "
        "2,000 samples  1.0 s",
        "toy-groups fsw seed 3: task 2/2  accuracy .875  eo_gap .250  worst_group .500  "
        "kept 301 of 1,000 samples, LP 0.25 s  2.8 s",
    ]


def test_lines_of_long_epochs_with_an_end_in_sight() -> None:
    file = io.StringIO()
    config = resolve(dataset="toy-groups", overrides=["epochs=4"])
    report = Lines(Console(file=file), config)
    report.start(seed=0, tasks=1)
    for epoch in range(1, 5):
        report(replace(FIRST, epoch=epoch, train=6.0, tokens=1200))
    assert file.getvalue().splitlines() == [
        "toy-groups fsw seed 0: task 1/1 epoch 2/4  2,000 samples, 200 tokens/s  12.0 s, "
        "about 12 s left of this task",
    ]  # after the last epoch, the line of the task comes at once


def test_lines_about_embeddings() -> None:
    file = io.StringIO()
    report = Lines(Console(file=file), CONFIG)
    for rows in (100, 200, 300, 400):
        report.embedding(EmbeddingProgress(rows, 400, tokens=50 * rows, seconds=rows / 25))
    assert file.getvalue().splitlines() == [
        "texts embedded: 300 of 400, 1,250 tokens/s, about 4 s left",
        "texts embedded: 400 of 400, 1,250 tokens/s, about 0 s left",
    ]


def test_names_are_not_markup() -> None:
    file = io.StringIO()
    report = Lines(Console(file=file), CONFIG.model_copy(update={"dataset": "my[red]:smile:"}))
    report.start(seed=0, tasks=1)
    report(FIRST)
    report(metrics())
    assert file.getvalue().startswith("my[red]:smile: fsw seed 0")


def test_bars_count_epochs_of_all_runs() -> None:
    console, file = terminal()
    with DetailedProgress(TextColumn("{task.description}"), console=console) as progress:
        bars = Bars(progress, CONFIG, runs=2)
        assert progress.tasks[0].total is None
        bars.start(seed=0, tasks=2)
        for event in (FIRST, metrics(), LATER):
            bars(event)
        assert progress.tasks[0].total == 2 * 2 * 2
        assert progress.tasks[0].completed == 2
    text = plain(file.getvalue())
    assert "loading data" in text
    assert "fsw seed 0 task 2/2 epoch 2/2" in text
    assert "kept 301 of 1,000 samples, LP 0.25 s  accuracy .875  eo_gap .250" in text
    assert max(map(len, text.splitlines())) <= 80


def test_bars_on_a_terminal_during_a_run(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    console, file = terminal()
    monkeypatch.setattr(faircil.cli.progress, "make_console", lambda stderr: console)
    outcome = cli("run", "--method", "fsw", "--dataset", "toy", "--set", "epochs=1")
    assert outcome.code == 0
    assert "\x1b[" in file.getvalue()
    assert "100 %" in plain(file.getvalue())
    assert "fsw seed 0 task 2/2 epoch 1/1" in plain(file.getvalue())


def test_quiet_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(CONFIG, 1, quiet=True) as report:
        report.start(seed=0, tasks=2)
        report(FIRST)
        report(metrics())
    assert capsys.readouterr() == ("", "")


def test_the_bar_of_a_model_shows_candidates_then_epochs() -> None:
    console, file = terminal()
    with DetailedProgress(TextColumn("{task.description}"), console=console) as progress:
        bar = LessonBar(progress)
        assert progress.tasks[0].total is None
        bar.trying("moments", 2, 6)
        assert (progress.tasks[0].completed, progress.tasks[0].total) == (1, 6)
        progress.refresh()
        bar.start(CONFIG, lessons=2)
        bar(replace(FIRST, task=4))  # a model that had three lessons before
        bar(replace(LATER, task=5))
        assert (progress.tasks[0].completed, progress.tasks[0].total) == (2, 4)
    text = plain(file.getvalue())
    assert "choosing the method" in text
    assert "trying moments, run 2 of 6" in text
    assert "fsw lesson 2/2 epoch 2/2" in text


def test_the_bar_of_a_method_that_learns_in_one_pass() -> None:
    console, file = terminal()
    with DetailedProgress(TextColumn("{task.description}"), console=console) as progress:
        bar = LessonBar(progress)
        bar.start(resolve(dataset="toy", method="moments"), lessons=1)
        bar(FIRST)  # of a net whose activations are features
        assert progress.tasks[0].completed == 0
        bar(replace(FIRST, passed=PassRecord(0.0, 0.0, 1, 1.0, 1.0, ())))
        assert (progress.tasks[0].completed, progress.tasks[0].total) == (1, 1)
    assert "moments lesson 1/1" in plain(file.getvalue())


def test_models_show_a_bar_on_a_terminal_and_a_line_elsewhere(
    cli: Cli, write_table: WriteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = ("fit", "--data", write_table(), "--label", "job", "--method", "er", "-o", "model")
    small = ("--set", "epochs=1", "hidden=8")
    outcome = cli(*fit, *small)
    assert outcome.err.splitlines()[0] == "learning people.csv"
    assert "epoch" not in outcome.err
    fit = (*fit, "--force")
    assert cli(*fit, *small, "--quiet").err == ""
    console, file = terminal()
    monkeypatch.setattr(faircil.cli.progress, "make_console", lambda stderr: console)
    assert "learning" not in cli(*fit, *small).err
    assert "er lesson 1/1 epoch 1/1" in plain(file.getvalue())
    assert cli("update", "model", "--data", "people.csv").code == 0
    assert plain(file.getvalue()).count("reading") >= 2
