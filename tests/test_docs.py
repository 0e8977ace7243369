"""What the documentation says must hold: commands parse, links lead somewhere, code runs.

Where a page shows what its code or its commands print, that is what they print.
"""

from __future__ import annotations

import re
import shlex
import sys
from argparse import Namespace
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from executed import FENCE, check_shown, code_blocks, commands_of, module_of, printed_by
from faircil.cli import parse
from faircil.registry import KINDS, registry_of

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TEXTS = {page: page.read_text("utf-8") for page in PAGES}
BLOCKS = {page: code_blocks(text) for page, text in TEXTS.items()}
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*?)$", re.MULTILINE)


def commands(page: Path) -> list[str]:
    found = [commands_of(block.text) for block in BLOCKS[page] if not block.language]
    return [command for one in found for command in one]


@cache
def parsed(command: str) -> Namespace:
    return parse(shlex.split(command)[1:])


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_parse(page):
    for command in commands(page):
        assert callable(parsed(command).command)


def test_nothing_is_installed_that_is_on_no_index():
    """faircil is installed from a folder: pip install '.[text]'."""
    sources = [
        path for part in ("faircil", "lab/faircil_lab") for path in (ROOT / part).rglob("*.py")
    ]
    wanted = re.compile(r"pip install[^\n`]*\bfaircil\[|pip install [\"']?faircil\b")
    found = [
        names(path)
        for path in [*PAGES, *sources]
        if wanted.search(TEXTS.get(path) or path.read_text("utf-8"))
    ]
    assert found == []


def test_there_are_commands_in_the_readme():
    assert len(commands(ROOT / "README.md")) >= 5


@cache
def anchors(page: Path) -> list[str]:
    """Return the anchors of headings, as web views of repositories name them, and the site."""
    titles = HEADING.findall(FENCE.sub("", page.read_text("utf-8")))
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return [re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain]


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(FENCE.sub("", TEXTS[page])):
        if target.startswith("http"):
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{target or page.name} has no heading '{anchor}'"


@pytest.fixture
def own_pieces():
    """Forget the pieces that a page registers."""
    tables = [registry_of(kind) for kind in KINDS]
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before, strict=True):
        for name in set(table) - names:
            table.remove(name)


RUN = [page for page, blocks in BLOCKS.items() if any(b.language or b.shown for b in blocks)]


@pytest.mark.usefixtures("own_pieces")
@pytest.mark.parametrize("page", RUN, ids=names)
def test_python_runs_and_prints_what_is_shown(page, capsys, monkeypatch, tmp_path):
    # As a module of its own, like code of a user: classes are found again by their module, and
    # settings by their source.
    blocks = BLOCKS[page]
    (tmp_path / "documented.py").write_text(module_of(blocks), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)  # files that it writes
    monkeypatch.delitem(sys.modules, "documented", raising=False)
    capsys.readouterr()
    import_module("documented")
    monkeypatch.delitem(sys.modules, "documented")
    for block, printed in zip(blocks, printed_by(blocks, capsys.readouterr().out), strict=True):
        if block.shown is not None:
            check_shown(block.shown, printed)
    if page.parent.name == "gallery":
        assert (tmp_path / f"{page.stem}.png").stat().st_size > 5000


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
