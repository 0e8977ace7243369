from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from bench_results import lp_results, measured
from faircil.errors import FaircilError
from faircil_lab.bench.benchmark import Findings, write_findings
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
