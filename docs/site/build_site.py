"""Build the documentation as a folder of pages that needs no server and no network.

    python docs/site/build_site.py          site/, warnings are errors, every link checked
    python docs/site/build_site.py -o DIR   somewhere else

The Markdown files of ``docs/`` are copied to ``build/site`` and adapted, so that they stay plain
Markdown in the repository:

- ``docs/README.md`` is the home page, and its lists are the navigation (:mod:`navigation`);
- files outside of ``docs/`` that the navigation lists, such as ``CONTRIBUTING.md``, become pages;
- other files that a page links to are copied unchanged;
- a page for each public name, from its docstring, and one for each command, from its ``--help``.

Sphinx does the rest (``conf.py``); :mod:`check_site` then checks the built pages.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from check_site import faults_of
from navigation import DOCS, INDEX, ROOT, Page, listed, read_sections

FENCE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"^\|.*\|$", re.MULTILINE)
JOINT = re.compile(r"(?<=[\d)–]) (…|/|±) (?=[−–.\d(])")  # as in an interval
LINK = re.compile(r"(?<!!)\[(?!!)([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")  # not an image
PERCENT = re.compile(r"^(\s*)%", re.MULTILINE)
ACTION = re.compile(r"^ {4}(\S+)", re.MULTILINE)  # in the help of a command with actions
COMMAND_ROW = re.compile(r"^\| `faircil [^|]+\|", re.MULTILINE)  # the first cell of a row
COMMAND = re.compile(r"`(?:faircil )?(\w+)`")
API, COMMANDS = DOCS / "api.md", DOCS / "command-line.md"
SCORER = Path(__file__).parent / "static/search.js"
WIDTH = 84  # of printed text, in characters: fits the column of a page


def main() -> int:
    """Write the sources, run Sphinx, check the pages; return an exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "site", help="default: site/")
    arguments = parser.parse_args()
    started = time.monotonic()
    sources, cache = ROOT / "build/site", ROOT / "build/site-doctrees"
    try:
        write_sources(sources)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    from sphinx.cmd.build import build_main

    strict = ["--fail-on-warning", "--keep-going", "--quiet", "--fresh-env"]
    places = ["-d", cache, "-c", Path(__file__).parent, sources / "pages", arguments.out]
    shutil.rmtree(arguments.out, ignore_errors=True)
    if code := build_main([*strict, "-j", "2", *map(str, places)]):
        return code
    faults = faults_of(arguments.out)
    for fault in faults:
        print(fault, file=sys.stderr)
    pages = len(list(arguments.out.rglob("*.html")))
    seconds = time.monotonic() - started
    print(f"{pages} pages in {arguments.out}, {seconds:.0f} s; open {arguments.out / 'index.html'}")
    return 1 if faults else 0


def write_sources(folder: Path) -> None:
    """Write the sources of Sphinx: ``pages``, and ``files``, which it copies unchanged."""
    shutil.rmtree(folder, ignore_errors=True)
    pages, files = folder / "pages", folder / "files"
    sections = read_sections()
    placed = places_of_pages()
    below = {page.path: page.pages for section in sections for page in section.walk() if page.path}
    generated = {API: write_api(pages), COMMANDS: write_commands(pages)}
    for source, place in placed.items():
        text = unbroken(with_links(source, placed, files))
        if source == API:
            text = re.sub(r"^\| `(\w+)` \|", r"| [`\1`](api/\1.md) |", text, flags=re.MULTILINE)
        if source == COMMANDS:
            text = COMMAND_ROW.sub(
                lambda row: COMMAND.sub(r"[\g<0>](commands/\1.md)", row[0]), text
            )
        entries = [entry_of(page, placed) for page in below.get(source, [])]
        if source == INDEX:
            entries = [entry_of(section, placed) for section in sections]
        write(pages / place, text + toctree([*entries, *generated.get(source, {})]))
    for section in sections:
        if section.path is None:
            place = pages / f"{slug(section.title)}.md"
            if place.exists():
                raise ValueError(
                    f"the section '{section.title}' would replace {place.name}; rename"
                )
            write(place, section_page(section, placed))
    for picture in [*DOCS.rglob("*.png"), *DOCS.rglob("*.svg")]:
        place = pages / picture.relative_to(DOCS)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, place)
    files.mkdir(exist_ok=True)
    found = json.dumps(search_pages(sections, placed, generated))
    write(folder / "search.js", f"const PAGES = {found};\n{SCORER.read_text('utf-8')}")


def search_pages(
    sections: list[Page], placed: dict[Path, Path], generated: dict[Path, dict[str, str]]
) -> dict[str, tuple[str, str]]:
    """Return the section of each page, by which search results are ranked, and its summary."""
    found = {}
    for section in sections:
        for page in section.walk():
            entries = {entry_of(page, placed): page.summary}
            if page.path:
                entries |= generated.get(page.path, {})
            for entry, summary in entries.items():
                found[entry.rpartition("</")[2].rstrip(">")] = (section.title, summary)
    return found


def write(path: Path, text: str) -> None:
    """Write a text file, and create missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def slug(title: str) -> str:
    """Return a file name for a title.

    >>> slug("Start here")
    'start-here'
    """
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def places_of_pages() -> dict[Path, Path]:
    """Return the path of every Markdown file in the sources, first those of ``docs/``."""
    inside = {path: path.relative_to(DOCS) for path in sorted(DOCS.rglob("*.md"))}
    outside = {path: path.relative_to(ROOT) for path in listed() if path not in inside}
    return inside | outside | {INDEX: Path("index.md")}


def entry_of(page: Page, placed: dict[Path, Path]) -> str:
    """Return the line of a page in a table of contents."""
    place = placed[page.path] if page.path else Path(slug(page.title))
    return f"{page.title} </{place.with_suffix('').as_posix()}>"


def toctree(entries: list[str]) -> str:
    """Return a hidden table of contents, from which Sphinx builds the navigation."""
    listing = "\n".join(entries)
    return f"\n\n```{{toctree}}\n:hidden:\n\n{listing}\n```\n" if entries else "\n"


def section_page(section: Page, placed: dict[Path, Path]) -> str:
    """Return a page for a section without one, which lists its pages."""

    def lines(pages: list[Page], indent: str = "") -> Iterator[str]:
        for page in pages:
            assert page.path
            summary = f": {page.summary}" if page.summary else ""
            yield f"{indent}- [{page.title}]({placed[page.path].as_posix()}){summary}"
            yield from lines(page.pages, indent + "  ")

    entries = [entry_of(page, placed) for page in section.pages]
    return f"# {section.title}\n\n" + "\n".join(lines(section.pages)) + toctree(entries)


def with_links(source: Path, placed: dict[Path, Path], files: Path) -> str:
    """Return the text of a page, with links to the places of pages and files in the site."""
    here = placed[source].parent
    to_front = {ROOT / "README.md": placed[INDEX]}

    def relinked(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if not target or re.match(r"\w+:", target):
            return match[0]
        path = (source.parent / target).resolve()
        place = placed.get(path) or to_front.get(path)
        if place is not None:
            return f"[{text}]({os.path.relpath(place, here)}{anchor})"
        if not path.is_file():
            raise ValueError(f"{source.relative_to(ROOT)} links to {target}, which is no file")
        base = DOCS if path.is_relative_to(DOCS) else ROOT
        copy = files / path.relative_to(base)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        return f'<a href="{os.path.relpath(path.relative_to(base), here)}">{text}</a>'

    parts = FENCE.split(source.read_text("utf-8"))
    return "".join(
        wrapped(part) if number % 2 else LINK.sub(relinked, shown(part))
        for number, part in enumerate(parts)
    )


def shown(text: str) -> str:
    r"""Escape lines that begin with %, which are comments in MyST.

    Examples
    --------
    >>> print(shown("takes 7" + chr(10) + "% more"))
    takes 7
    \% more
    """
    return PERCENT.sub(r"\1\%", text)


def unbroken(text: str) -> str:
    r"""Return a page whose tables do not break lines between numbers that belong together.

    Examples
    --------
    >>> unbroken("| .9 (.8 … .95) |") == "| .9 (.8\N{NO-BREAK SPACE}…\N{NO-BREAK SPACE}.95) |"
    True
    """

    def joined(match: re.Match[str]) -> str:
        return match[0].replace(" ", "\N{NO-BREAK SPACE}")

    return TABLE.sub(lambda row: JOINT.sub(joined, row[0]), text)


def wrapped(code: str) -> str:
    """Return a block of code; in a block of printed text, wrap long lines except tables.

    A terminal wraps long lines; on a page, their ends would be hidden.
    """
    if not code.startswith("```text\n"):
        return code
    lines = (
        textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
        if len(line) > WIDTH and not re.match(r"[│┃┏┡└]", line)
        else line
        for line in code.splitlines()
    )
    return "\n".join(lines)


def write_api(pages: Path) -> dict[str, str]:
    """Write a page for each public name; return the entries of the contents, with summaries."""
    import faircil

    entries = {}
    for name in faircil._PUBLIC:
        thing = getattr(faircil, name)
        directive = "autofunction"
        options = ""
        if isinstance(thing, type):
            directive = "autoexception" if issubclass(thing, BaseException) else "autoclass"
            options = "\n   :members:\n   :special-members: __call__"
            # scikit-learn generates these; their docstrings link to pages of its own documentation.
            routed = [name for name in dir(thing) if re.fullmatch(r"set_\w+_request", name)]
            if routed:
                options += f"\n   :exclude-members: {', '.join(routed)}"
        elif not callable(thing):
            directive = "autodata"
        rst = f".. currentmodule:: faircil\n\n.. {directive}:: {name}{options}"
        write(pages / f"api/{name}.md", f"# {name}\n\n```{{eval-rst}}\n{rst}\n```\n")
        summary = (inspect.getdoc(thing) or "").partition("\n")[0]
        entries[f"{name} </api/{name}>"] = re.sub(r"(:\w+:)?`+", "", summary)
    return entries


def write_commands(pages: Path) -> dict[str, str]:
    """Write a page with the help of each command; return entries as :func:`write_api` does."""
    from faircil.cli import all_commands

    commands = all_commands()
    for name in commands:
        text = help_of(name)
        parts = [f"# faircil {name}\n\n```text\n{text}\n```\n"]
        for action in ACTION.findall(text.partition("\n  action\n")[2].partition("\n\n")[0]):
            parts.append(f"## {name} {action}\n\n```text\n{help_of(name, action)}\n```\n")
        write(pages / f"commands/{name}.md", "\n".join(parts))
    return {f"faircil {name} </commands/{name}>": made.help for name, made in commands.items()}


def help_of(*command: str) -> str:
    """Return what ``faircil COMMAND --help`` prints."""
    from faircil.cli import parse

    printed, before = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)  # read by argparse
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            parse([*command, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return printed.getvalue().strip()


if __name__ == "__main__":
    sys.exit(main())
