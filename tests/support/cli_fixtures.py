"""Fixtures for tests that run command lines."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from cli_outcome import Cli, Outcome, Person, WriteTable
from faircil.cli import main


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Return a function that runs a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path / "data"))

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def nothing_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave figures empty in tests that do not look at them, because drawing is slow."""

    def save(_: Figure, path: Path, **__: object) -> None:
        path.touch()

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture
def write_table(tmp_path: Path) -> WriteTable:
    """Return a function that writes 240 people as CSV: features a, b; class job (4); sex (2)."""

    def write(
        name: str = "people.csv",
        change: Callable[[Person], Person | None] = lambda row: row,
        seed: int = 0,
    ) -> str:
        rows = [row for person in _people(seed) if (row := change(person)) is not None]
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return name

    return write


def _people(seed: int) -> Iterable[Person]:
    draw = random.Random(seed)
    for number in range(240):
        job, sex = number % 4, "FM"[number // 4 % 2]
        a, b = draw.gauss(2 * job, 1), draw.gauss(0, 1)
        yield {"id": number, "a": a, "b": b, "job": "wxyz"[job], "sex": sex}
