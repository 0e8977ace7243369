"""Pages as Markdown, and the index of all pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from faircil.errors import StorageError
from faircil_lab.paper.claims import CONTROLS_ABOUT
from faircil_lab.paper.comparison import count_verdicts
from faircil_lab.paper.exhibit import Exhibit, Grid, Page, Picture, Section, Verdict
from faircil_lab.paper.published import METHODS

IMAGES = "images"  # folder of pictures, next to the pages


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
        parts.append(f"Published values compared with ours: {count_verdicts(page.verdicts)}.")
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


HEADER = ("page", "in the paper", "result", "published values and ours", "command")
HOW = (
    "Every table and figure of the paper (Park, Kim and Whang, KDD 2026), reproduced by the "
    "command next to it. Each page shows the published value, ours, the difference, a verdict, "
    "and the command of every line. A page without a counterpart in the paper says so. Finished "
    "runs are reused. This page is written by `faircil reproduce all`."
)


def index_markdown(exhibits: Mapping[str, Exhibit], pages: Mapping[str, Page]) -> str:
    """Write the index of the given pages."""
    rows = tuple(_row(name, exhibits[name], page) for name, page in pages.items())
    parts = [
        "# The paper, reproduced",
        HOW,
        "## Pages",
        grid_markdown(Grid(HEADER, rows)),
        "## What the reproduction says",
        *_says(exhibits, pages),
        "## Published rows that rest on defects",
        _defects(pages),
    ]
    return "\n\n".join(parts) + "\n"


def _row(name: str, exhibit: Exhibit, page: Page) -> tuple[str, ...]:
    counts = count_verdicts(page.verdicts) or "–"
    title = f"[{exhibit.title}]({name}.md)"
    return title, exhibit.paper, page.answer, counts, f"`faircil reproduce {name}`"


def _says(exhibits: Mapping[str, Exhibit], pages: Mapping[str, Page]) -> list[str]:
    verdicts = [verdict for page in pages.values() for verdict in page.verdicts]
    run = sum(verdict is not Verdict.NOT_RUN for verdict in verdicts)
    parts = [
        f"{len(verdicts)} published values, {run} of them with a value of ours: "
        f"{count_verdicts(verdicts)}. A value that several pages show is counted for each.",
        "Times are not among them: they depend on the machine, and have separate sections. "
        "Comparisons on DRUG are shown but not counted, since its test data is too small to rank "
        "methods.",
        CONTROLS_ABOUT + " Where FSW is not significantly better than its controls, its choice of "
        "samples is not shown to help.",
    ]
    for name, page in pages.items():
        if page.findings:
            parts += [f"### {exhibits[name].title}", _items(page.findings)]
    return parts


def _defects(pages: Mapping[str, Page]) -> str:
    """List the methods whose published rows do not show what their name says."""
    found = {
        key: [v for page in pages.values() for v in page.by_method.get(key, ())]
        for key, method in METHODS.items()
        if method.defect
    }
    return _items(
        [
            f"**{METHODS[key].name}** ({count_verdicts(some) or 'not shown'}): {METHODS[key].why}"
            for key, some in found.items()
        ]
    )


def _items(texts: Sequence[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)
