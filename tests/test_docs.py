"""What the documentation says must hold: commands parse, links lead somewhere, code runs."""

from __future__ import annotations

import re
import shlex
import sys
from argparse import Namespace
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from faircil.cli import parse
from faircil.registry import KINDS, registry_of

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(page.read_text("utf-8")) if name == language]


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "")).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0] for line in lines if line.startswith("faircil ")]


@cache
def parsed(command: str) -> Namespace:
    return parse(shlex.split(command)[1:])


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_parse(page):
    for command in commands(page):
        assert callable(parsed(command).command)


def test_there_are_commands_in_the_readme():
    assert len(commands(ROOT / "README.md")) >= 5


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_to_files(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.fixture
def own_pieces():
    """Forget the pieces that a page registers."""
    tables = [registry_of(kind) for kind in KINDS]
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):
        for name in set(table) - names:
            table.remove(name)


@pytest.mark.usefixtures("own_pieces")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=names)
def test_python_runs(page, capsys, monkeypatch, tmp_path):
    # As a module of its own, like code of a user: classes are found again by their module, and
    # settings by their source.
    (tmp_path / "documented.py").write_text("\n".join(blocks(page, "python")), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)  # files that it writes
    monkeypatch.delitem(sys.modules, "documented", raising=False)
    import_module("documented")
    monkeypatch.delitem(sys.modules, "documented")


def test_makefile_and_readme_agree():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE):
        assert target in targets


@pytest.mark.parametrize("page", ["reproduction/methods.md"])
def test_settings_command_of_every_benchmark_resolves(page):
    from faircil.runs.config import resolve

    for command in commands(ROOT / "docs" / page):
        arguments = parsed(command)
        resolve(
            dataset=arguments.dataset,
            method=arguments.method,
            weighting=arguments.weighting,
            measure=arguments.measure,
            overrides=arguments.set,
        )


def table_rows(text: str) -> dict[str, list[str]]:
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines}


def test_results_of_the_readme_are_those_of_the_page():
    shown = table_rows((ROOT / "README.md").read_text("utf-8").partition("## Results")[2])
    page = (ROOT / "docs/reproduction/moments.md").read_text("utf-8")
    found = table_rows(page.partition("## All methods on all data")[2].partition("\n## ")[0])
    titles = [title.partition(" (")[0] for title in found["method"]]
    places = [titles.index(name) for name in ("Fashion-MNIST", "Biased MNIST")]
    places.append(titles.index("census occupations by sex"))
    rows = {name: cells for name, cells in shown.items() if name in found and name != "method"}
    assert len(rows) == 10
    for name, cells in rows.items():
        assert list(cells) == [found[name][place] for place in places], name
    patches = [found["moments, 9,601 patches"][place] for place in places]
    assert list(shown["moments of patches (images)"]) == patches
