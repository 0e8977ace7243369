from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from faircil_lab.paper.comparison import machines_section
from run_summaries import make_run


def test_machines_are_counted(tmp_path: Path):
    runs = []
    for seed, gpu in enumerate((None, None, "NVIDIA H200")):
        folder = tmp_path / str(seed)
        folder.mkdir()
        content = {"processor": "x86", "gpu": gpu, "threads": 1, "packages": {"torch": "2.13"}}
        (folder / "environment.json").write_text(json.dumps(content | {"code": "abc"}))
        runs.append(replace(make_run("er", seed=seed), dir=str(folder)))
    table = machines_section([*runs, runs[0]]).table
    assert table is not None
    assert table.rows == (
        ("1", "x86", "NVIDIA H200", "1", "2.13", "abc"),
        ("2", "x86", "–", "1", "2.13", "abc"),
    )


def test_a_run_without_its_file_is_on_no_known_machine(tmp_path: Path):
    table = machines_section([replace(make_run("er"), dir=str(tmp_path))]).table
    assert table is not None
    assert table.rows == (("1", *["not known"] * 5),)
