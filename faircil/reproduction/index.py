"""The index of all pages, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faircil.reproduction.comparison import count_verdicts
from faircil.reproduction.exhibit import Exhibit
from faircil.reproduction.page import Grid, Page, Verdict
from faircil.reproduction.published import METHODS
from faircil.reproduction.render import grid_markdown

HEADER = ("page", "in the paper", "what came out", "published values beside ours", "command")
HOW = (
    "Every table and figure of the paper (Park, Kim and Whang, KDD 2026), made again by the "
    "command beside it. Each page has the published value beside ours, the difference, a verdict, "
    "and the command of every line. A page that the paper has nothing for says so. Finished runs "
    "are used again. This page is written by `faircil reproduce all`."
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
        f"{len(verdicts)} published values, {run} of them with one of ours beside it: "
        f"{count_verdicts(verdicts)}. A value that several pages show counts on each.",
        "The controls tell what FSW adds. *Random weights* are those of FSW, permuted over the "
        "task: what FSW gains over them comes from *which* samples it keeps, not from how many. A "
        "*balanced subset* has as many samples, in equal numbers per group. Where FSW is not told "
        "apart from them, its choice of samples is not shown to help.",
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
