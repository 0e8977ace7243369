"""Fuzzing of files, guided by coverage: see `guided.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzzing import FULL

NAMES = [
    *("read_table csv", "read_table npz", "read_table parquet", "read_table feather"),
    *("audit_file", "read_predictions", "parted_table arrow", "read_idx", "find_runs"),
    "load_model",
]


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_files_that_reach_new_lines(name: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="guided fuzzing needs atheris: pip install atheris")
    script = Path(__file__).with_name("guided.py")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), name, f"-runs={FULL}"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    print(name, *(line for line in said.splitlines() if line.startswith(("Done", "stat::"))))
    kept = [path.read_bytes().hex() for path in tmp_path.iterdir()]  # files that are findings
    assert done.returncode == 0, (said[said.find("Uncaught") :][:5000], kept)
    assert f"Done {FULL} runs" in said
