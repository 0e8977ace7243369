"""Pages as Markdown files with their pictures; the same results give the same text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from faircil.errors import StorageError
from faircil.reproduction.comparison import count_verdicts
from faircil.reproduction.exhibit import Exhibit
from faircil.reproduction.page import Grid, Page, Picture, Section

IMAGES = "images"  # folder of pictures, beside the pages


def write_page(folder: Path, name: str, exhibit: Exhibit, page: Page) -> Path:
    """Write ``folder/NAME.md`` and its pictures; return the page."""
    for section in page.sections:
        if section.picture is not None:
            _draw(section.picture, folder / IMAGES)
    return write_text(folder / f"{name}.md", as_markdown(name, exhibit, page))


def as_markdown(name: str, exhibit: Exhibit, page: Page) -> str:
    """Write a page."""
    parts = [
        f"# {exhibit.title}",
        f"In the paper: {exhibit.paper}. This page is written by `faircil reproduce {name}` from "
        "its runs.",
        page.answer,
    ]
    if page.verdicts:
        parts.append(f"Published values beside ours: {count_verdicts(page.verdicts)}.")
    if page.findings:
        parts.append("\n".join(f"- {finding}" for finding in page.findings))
    parts += [part for section in page.sections for part in _section(section)]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.heading}"
    if section.text:
        yield section.text
    if section.table is not None:
        yield grid_markdown(section.table)
    if section.picture is not None:
        picture = section.picture
        yield f"![{picture.caption}]({IMAGES}/{picture.file})"
        yield f"*{picture.caption}*"
    if section.commands:
        lines = "\n".join(section.commands)
        yield f"<details><summary>Commands</summary>\n\n```\n{lines}\n```\n\n</details>"


def grid_markdown(grid: Grid) -> str:
    r"""Write a table.

    Examples
    --------
    >>> print(grid_markdown(Grid(("a", "b"), (("1", "x|y"),))))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    lines = ["| " + " | ".join(grid.header) + " |", "|" + "---|" * len(grid.header)]
    for row in grid.rows:
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |")
    return "\n".join(lines)


def plain(text: str) -> str:
    """Return Markdown of a cell as a terminal shows it.

    Examples
    --------
    >>> plain("**.925 ± .004** `lr=0.1`")
    '.925 ± .004 lr=0.1'
    """
    return text.replace("**", "").replace("`", "")


def write_text(path: Path, text: str) -> Path:
    """Write a file; the error says what to do."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritten(path, error) from None
    return path


def _draw(picture: Picture, folder: Path) -> None:
    path = folder / picture.file
    try:
        folder.mkdir(parents=True, exist_ok=True)
        picture.draw(path)
    except OSError as error:
        raise _unwritten(path, error) from None


def _unwritten(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write {path}: {error.strerror or error}; free space, or choose another folder "
        "with -o"
    )
