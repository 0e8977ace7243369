"""What the documentation says must hold: commands parse, links lead somewhere, code runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from faircil.cli.parser import parse

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(page.read_text("utf-8")) if name == language]


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "")).replace("\\\n", " ").splitlines()
    return [line.split(" #")[0] for line in lines if line.startswith("faircil ")]


def names(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_commands_parse(page):
    for command in commands(page):
        arguments = parse(shlex.split(command)[1:])
        assert callable(arguments.command)


def test_there_are_commands_in_the_readme():
    assert len(commands(ROOT / "README.md")) >= 5


@pytest.mark.parametrize("page", PAGES, ids=names)
def test_links_lead_to_files(page):
    text = FENCE.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=names)
def test_python_runs(page, capsys):
    namespace: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), namespace)


def test_makefile_and_readme_agree():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for target in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE):
        assert target in targets


@pytest.mark.parametrize("page", ["reproduction/methods.md"])
def test_settings_command_of_every_benchmark_resolves(page):
    from faircil.runs.config import resolve

    for command in commands(ROOT / "docs" / page):
        arguments = parse(shlex.split(command)[1:])
        resolve(
            dataset=arguments.dataset,
            method=arguments.method,
            weighting=arguments.weighting,
            measure=arguments.measure,
            overrides=arguments.set,
        )
