"""What `make release` tries: the oldest versions of all that it installs, and every extra."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from scripts import script_module

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / ".ci" / "release.py"


@pytest.fixture(scope="module")
def release() -> ModuleType:
    return script_module(FILE)


@pytest.fixture(scope="module")
def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found: dict[str, list[str]] = project["optional-dependencies"]
    return found


def test_the_oldest_versions_are_constraints_that_pip_takes(
    release: ModuleType, extras: dict[str, list[str]]
) -> None:
    lines = release.oldest().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\d.]+", line) for line in lines)
    named = {line.partition("==")[0] for line in lines}
    assert {"torch", "distributed", "dask", "cryptography", "pyarrow", "pillow", "optuna"} <= named
    assert release.least_of("dask[dataframe]>=2025.1") == ("dask", "2025.1")
    assert release.least_of("scipy-stubs") == ("scipy-stubs", None)


def test_what_extras_install_is_tested_and_used(
    release: ModuleType, extras: dict[str, list[str]]
) -> None:
    for name in release.EXTRAS:
        assert set(extras[name]) <= set(extras["dev"]), f"tests run without what [{name}] installs"
    used = (ROOT / ".ci" / "try_extras.py").read_text("utf-8")
    for words in ("--scheduler local:2", "fit --images", "--text bio", "--strategy optuna"):
        assert words in used


def test_the_page_for_beginners_names_every_extra(extras: dict[str, list[str]]) -> None:
    table = (ROOT / "docs" / "start.md").read_text("utf-8").partition("| extra | for |")[2]
    named = set(re.findall(r"`([\w-]+)`", table.partition("\n\n")[0]))
    assert set(extras) - {"dev"} <= named
