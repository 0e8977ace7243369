from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from bench_results import lp_results, measured
from faircil.errors import FaircilError
from faircil_lab.bench.benchmark import BarPart, Findings, split_bars, write_findings
from faircil_lab.bench.lp_page import SOLVER_TIMES


@pytest.fixture
def findings() -> Findings:
    return SOLVER_TIMES.findings(
        lp_results(measured("highs", 100, 0.5), measured("highs", 1000, 0.7))
    )


def test_folder_holds_document_rows_pictures_and_page(findings: Findings, tmp_path: Path) -> None:
    files = write_findings(findings, tmp_path / "new", None)
    names = {"results.json", "results.csv", "time.png", "time.svg", "page.md"}
    assert {file.name for file in files} == names == {f.name for f in (tmp_path / "new").iterdir()}
    assert json.loads((tmp_path / "new" / "results.json").read_text()) == json.loads(
        json.dumps(findings.document)
    )
    with (tmp_path / "new" / "results.csv").open(newline="") as file:
        assert [row["n"] for row in csv.DictReader(file)] == ["100", "1000"]


def test_page_elsewhere_finds_its_pictures(findings: Findings, tmp_path: Path) -> None:
    write_findings(findings, tmp_path / "out", tmp_path / "docs" / "solver-speed.md")
    for page in (tmp_path / "out" / "page.md", tmp_path / "docs" / "solver-speed.md"):
        (picture,) = re.findall(r"!\[.*?\]\((.*?)\)", page.read_text())
        assert (page.parent / picture).is_file()
    assert (tmp_path / "docs" / "images" / "solver-speed-time.svg").is_file()


def test_place_that_cannot_be_written(findings: Findings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FaircilError, match=r"cannot write .*results.json"):
        write_findings(findings, tmp_path / "file", None)


def test_parts_follow_each_other_and_words_stand_at_the_end() -> None:
    layers = [BarPart("first", "#000000", [1.0, 2.0]), BarPart("second", "#FF0000", [3.0, 0.5])]
    (axes,) = split_bars(["a", "b"], layers, ["four", "two"], "seconds").axes
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0, 1), (0, 2), (1, 3), (2, 0.5)]
    assert [(text.get_position(), text.get_text().strip()) for text in axes.texts] == [
        ((4, 0), "four"),
        ((2.5, 1), "two"),
    ]
    assert axes.get_xlim()[1] > 4
    assert axes.yaxis_inverted()
