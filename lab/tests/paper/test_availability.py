from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from faircil.runs.config import resolve
from faircil.sweep.sweep import SweepOptions, finish
from faircil.sweep.work import Outcome, Work
from faircil_lab.paper import contenders
from faircil_lab.paper.contenders import (
    FILES_ABSENT,
    FSW,
    NO_GPU,
    REPLAY,
    files_absent,
    where_possible,
)
from faircil_lab.paper.exhibits import collect
from faircil_lab.paper.table import TableRow
from figure_runs import run_of
from made_tables import ABSENT, TABLE, put_files
from sweeps import small_work
from tiny_bios import write_splits
from tiny_encoder import write_tiny_encoder

MNIST, DRUG = (Work(resolve(dataset=name, method="er"), 0) for name in ("mnist", "drug"))


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path / "data"))
    put_files(tmp_path / "data", "drug")


def test_files_are_absent_or_not_and_embedded_data_never_is() -> None:
    assert files_absent("mnist")
    assert files_absent("biasbios")
    assert not files_absent("drug")
    assert not files_absent("digits")


def test_runs_without_data_are_not_tried(tmp_path: Path) -> None:
    asked: list[Work] = []

    def make(works: Sequence[Work]) -> list[Outcome]:
        asked.extend(works)
        return [Outcome(work, run_of(work)) for work in works]

    finish = where_possible(make, SweepOptions(tmp_path / "runs"))
    works = [MNIST, DRUG, small_work(), MNIST]
    outcomes = finish(works)
    assert asked == [DRUG, works[2]]
    assert [outcome.work for outcome in outcomes] == works
    assert [outcome.problem for outcome in outcomes] == [FILES_ABSENT, None, None, FILES_ABSENT]


def test_finished_runs_are_found_where_the_data_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = SweepOptions(tmp_path / "runs")

    def find(works: Sequence[Work], how: SweepOptions) -> list[Outcome]:
        assert how == replace(options, run_missing=False)
        return [Outcome(work, run_of(work)) for work in works]

    monkeypatch.setattr(contenders, "finish", find)
    (outcome,) = where_possible(lambda _: [], options)([MNIST])
    assert (outcome.run, outcome.problem) == (run_of(MNIST), None)


def test_encoders_are_trained_only_where_a_gpu_takes_part(tmp_path: Path) -> None:
    write_splits(tmp_path / "data")
    encoder = write_tiny_encoder(tmp_path / "tiny")
    trained, frozen = (
        Work(resolve(dataset="biasbios", overrides=[f"encoder={encoder}", f"finetune={way}"]), 0)
        for way in ("true", "false")
    )

    def make(works: Sequence[Work]) -> list[Outcome]:
        return [Outcome(work, run_of(work)) for work in works]

    def problems(gpu_jobs: int) -> list[str | None]:
        options = SweepOptions(tmp_path / "runs", gpu_jobs=gpu_jobs)
        outcomes = where_possible(make, options)([trained, frozen])
        return [outcome.problem for outcome in outcomes]

    assert problems(0) == [NO_GPU, None]
    assert problems(1) == [None, None]


def test_rows_of_biasbios_run_where_its_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_splits(tmp_path / "data")
    write_tiny_encoder(tmp_path / "bert-base-uncased")  # found as a folder
    monkeypatch.chdir(tmp_path)
    short = [one.with_fixed("epochs=1") for one in (FSW, REPLAY)]
    rows = (TableRow(short[0], "fsw"), TableRow(short[1]))
    table = replace(TABLE, rows=rows, columns=(ABSENT,), seeds=(0,))
    options = SweepOptions(tmp_path / "runs")
    # As if a GPU took part: for a real BERT it would have to.
    shared = replace(options, gpu_jobs=1)
    results = collect({"table": table}, lambda works: finish(works, options), shared)
    for line in table.entries(ABSENT, results):
        assert (len(line.runs), line.problem) == (1, None)
        assert line.runs[0].config["settings"]["finetune"] is True
