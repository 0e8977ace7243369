from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from faircil.errors import DataError
from faircil_lab.suite.board_rows import (
    BoardRow,
    as_text,
    read_row,
    read_rows,
    shipped_folder,
    write_row,
)
from faircil_lab.suite.catalogue import FULL, SMALL
from faircil_lab.suite.entrants import REFERENCES
from suite_rows import STREAM, SUITE, made_row


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    row = made_row("a: row/with <odd> name", note="x", missing={"toy": "files absent"})
    path = write_row(row, tmp_path)
    found = read_row(path, SUITE)
    assert as_text(found) == as_text(row) == path.read_text()
    assert found.missing == row.missing
    # A line for each seed, and scores with five digits.
    assert len([line for line in path.read_text().splitlines() if '"accuracy"' in line]) == 5


def test_rows_of_other_suites_and_other_files_are_refused_all_at_once(tmp_path: Path) -> None:
    write_row(replace(made_row("old"), suite="made-suite 0"), tmp_path)
    write_row(replace(made_row("other"), scores={"unknown": {}}), tmp_path)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "text.json").write_text(json.dumps({"name": 3}))
    made = as_text(made_row("nan"))
    value = json.loads(made)["scores"][STREAM.dataset]["0"]["accuracy"]["value"]
    (tmp_path / "nan.json").write_text(made.replace(f'"value": {value}', '"value": "nan"', 1))
    with pytest.raises(DataError) as error:
        read_rows([tmp_path], SUITE)
    said = str(error.value)
    assert "old.json is a row of the suite made-suite 0, expected made-suite 1" in said
    assert "other.json has scores of unknown" in said
    assert said.count("is no row of a leaderboard") == 3


def test_streams_that_were_scored_before_stay() -> None:
    before = replace(made_row("mine"), scores={"toy": {}}, made=("there",))
    after = replace(made_row("mine"), made=("here",)).joined(before)
    assert set(after.scores) == {"toy", STREAM.dataset}
    assert after.made == ("there", "here")
    other = replace(before, what="other settings")
    assert set(made_row("mine").joined(other).scores) == {STREAM.dataset}


def test_seeds_that_were_scored_before_stay() -> None:
    row = made_row("mine")
    every = row.scores[STREAM.dataset]

    def of(*seeds: int) -> BoardRow:
        return replace(row, scores={STREAM.dataset: {seed: every[seed] for seed in seeds}})

    assert of(0, 1).joined(of(4, 2, 3)) == row
    assert list(of(3).joined(of(4, 1)).scores[STREAM.dataset]) == [1, 3, 4]


@pytest.mark.parametrize("suite", [FULL, SMALL])
def test_rows_that_are_shipped_are_rows_of_the_suite(suite) -> None:
    rows = read_rows([shipped_folder(suite)], suite)
    assert set(rows) <= {one.name for one in REFERENCES}
    for row in rows.values():
        for stream, seeds in row.scores.items():
            assert list(seeds) == list(suite.seeds), (row.name, stream)
