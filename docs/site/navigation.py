"""The navigation of the site, read from ``docs/README.md``: sections, pages, pages below pages.

A section is a heading of the second level; it may be a link, to a page that introduces it. A page
is an item of a list that begins with a link to a Markdown file; pages below it are indented::

    ## [Gallery](gallery/README.md)
    - [Who is forgotten](gallery/who-is-forgotten.md): accuracy of every group over time
      - [A closer look](gallery/closer.md)

So the repository and the site have the same index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
LINK = r"\[(?P<title>[^\]]+)\]\((?P<target>[^)#\s]+\.md)\)"
SECTION = re.compile(rf"^## (?:{LINK}|(?P<plain>.+))$")
ITEM = re.compile(rf"^(?P<indent> *)- {LINK}(?:: (?P<summary>.*))?$")


@dataclass
class Page:
    """A page in the navigation.

    Parameters
    ----------
    title : str
    path : Path or None
        The Markdown file; None for a section that has no page of its own.
    summary : str
        The text after the link.
    pages : list of Page
        Pages below this one.
    """

    title: str
    path: Path | None
    summary: str = ""
    pages: list[Page] = field(default_factory=list)

    def walk(self) -> Iterator[Page]:
        """Yield this page and all below it, in order."""
        yield self
        for page in self.pages:
            yield from page.walk()


def read_sections(index: Path = INDEX) -> list[Page]:
    """Return the sections of an index, each with its pages."""
    sections: list[Page] = []
    above: list[tuple[int, Page]] = []  # possible parents of the next item, by indent
    for line in index.read_text("utf-8").splitlines():
        if found := SECTION.match(line):
            title = found["plain"] or found["title"]
            path = (index.parent / found["target"]).resolve() if found["target"] else None
            sections.append(Page(title, path))
            above = [(-1, sections[-1])]
        elif above and (found := ITEM.match(line)):
            page = Page(
                found["title"], (index.parent / found["target"]).resolve(), found["summary"] or ""
            )
            indent = len(found["indent"])
            above = [(level, parent) for level, parent in above if level < indent]
            above[-1][1].pages.append(page)
            above.append((indent, page))
    return sections


def listed(index: Path = INDEX) -> list[Path]:
    """Return the files of all pages in the navigation, in order."""
    pages = (page for section in read_sections(index) for page in section.walk())
    return [page.path for page in pages if page.path is not None]
