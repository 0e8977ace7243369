"""Files that tell of people are for their owner alone, whatever the umask; pages are not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cli_outcome import Cli, WriteTable
from faircil.cache import KEY, EmbeddingStore
from faircil.files import make_private, open_private, write_private
from faircil.results.folder import write_run
from run_results import make_result

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
FAST = ("--method", "moments", "--set", "width=20", "--device", "cpu")
ROLES = ("--label", "job", "--sensitive", "sex")


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: str | Path) -> int:
    return Path(path).stat().st_mode & 0o777


def open_to_others(folder: str | Path) -> list[str]:
    """Name what others may look into."""
    return [str(path) for path in (Path(folder), *Path(folder).rglob("*")) if mode(path) & 0o077]


def test_new_files_and_folders_are_private_and_others_stay_as_they_are(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    assert [mode(tmp_path / name) for name in ("a", "a/b")] == [0o700, 0o700]
    write_private(tmp_path / "a" / "text", "ä\n")
    assert mode(tmp_path / "a" / "text") == 0o600
    assert (tmp_path / "a" / "text").read_text(encoding="utf-8") == "ä\n"
    (tmp_path / "a" / "text").chmod(0o644)  # the user's choice
    with open_private(tmp_path / "a" / "text", "wb") as file:
        file.write(b"x")
    assert mode(tmp_path / "a" / "text") == 0o644
    (tmp_path / "shared").mkdir(mode=0o755)
    make_private(tmp_path / "shared" / "own")
    assert [mode(tmp_path / name) for name in ("shared", "shared/own")] == [0o755, 0o700]
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "a" / "text")


def test_runs_models_predictions_and_audits_are_private(cli: Cli, write_table: WriteTable) -> None:
    table = write_table()
    outcome = cli("run", "--data", table, *ROLES, *FAST, "--out", "runs/people")
    assert outcome.code == 0, outcome.err
    assert open_to_others("runs") == []
    assert cli("fit", "--data", table, *ROLES, *FAST, "-o", "models/a").code == 0
    assert open_to_others("models") == []
    for name in ("found.csv", "found/found.parquet"):
        assert (
            cli("predict", "models/a", "--data", table, "--keep", "job", "sex", "-o", name).code
            == 0
        )
        assert mode(name) == 0o600
    assert open_to_others("found") == []
    audit = ("audit", "found.csv", "--truth", "job", "--prediction", "prediction")
    files = (
        "-o",
        "audits/a",
        "--markdown",
        "page.md",
        "--fail-on",
        "eo_gap>0.9",
        "--junit",
        "j.xml",
    )
    assert cli(*audit, "--sensitive", "sex", *files).code in (0, 3, 4)
    assert open_to_others("audits") == []
    # Made for others: a page of a build, and a report.
    assert [mode(name) for name in ("page.md", "j.xml")] == [0o644, 0o644]
    assert cli("report", "runs/people", "-o", "report.html").code == 0
    assert mode("report.html") == 0o644


def test_run_folders_and_caches_are_private(tmp_path: Path) -> None:
    write_run(tmp_path / "made" / "seed-0", make_result(), {})
    assert open_to_others(tmp_path / "made") == []
    store = EmbeddingStore(tmp_path / "cache" / "of", 2, lambda _: None)
    with store.alone():
        store.append(np.array([b"a" * 16], dtype=KEY), np.zeros((1, 2), dtype=np.float32))
    assert open_to_others(tmp_path / "cache") == []
