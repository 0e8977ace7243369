"""HTML as text: escaped names, tables, figures with their data, and the page around them.

Everything from data passes through :func:`escaped`. The page loads nothing from outside and has no
scripts; its policy forbids both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from math import isfinite
from unicodedata import category

FORBIDDEN = ("Cc", "Cs")  # control characters and lone surrogates
MOST_METHODS = 6  # shown at first; others are collapsed
MOST_ROWS = 200  # of a table that only lists data
EMPTY = "(no name)"
# Nothing is loaded and no script runs, whatever names contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"


def escaped(text: object) -> str:
    r"""Escape text for HTML, replacing control characters, which HTML forbids.

    Examples
    --------
    >>> escaped('<b title="x">'), escaped("a\x00b")
    ('&lt;b title=&quot;x&quot;&gt;', 'a\ufffdb')
    """
    plain = "".join(c if category(c) not in FORBIDDEN else _visible(c) for c in str(text))
    return escape(plain, quote=True)


def _visible(character: str) -> str:
    return " " if character.isspace() else "\ufffd"


def named(text: object) -> str:
    """Write a name from data, isolated so that its text direction does not affect others.

    Examples
    --------
    >>> named("F"), named("")
    ('<bdi>F</bdi>', '<i>(no name)</i>')
    """
    shown = str(text)
    return f"<bdi>{escaped(shown)}</bdi>" if shown.strip() else f"<i>{EMPTY}</i>"


def percent(value: float | None, digits: int = 1) -> str:
    r"""Write a share in percent; a dash for None.

    Examples
    --------
    >>> percent(0.6584), percent(-0.05, 0), percent(None)
    ('65.8\u202f%', '−5\u202f%', '–')
    """
    if value is None or not isfinite(value):
        return "–"
    return f"{100 * value:z.{digits}f}\u202f%".replace("-", "−")


def number(value: float | None, *, signed: bool = False) -> str:
    """Write a difference of two shares in percentage points, without the unit; a dash for None."""
    if value is None or not isfinite(value):
        return "–"
    return f"{100 * value:{'+' if signed else ''}z.1f}".replace("-", "−")


def points(value: float | None, *, signed: bool = False) -> str:
    r"""Write a difference of two shares, in percentage points.

    Examples
    --------
    >>> points(0.012), points(-0.3, signed=True), points(0.05, signed=True)
    ('1.2\xa0points', '−30.0\xa0points', '+5.0\xa0points')
    """
    text = number(value, signed=signed)
    return text if text == "–" else f"{text}\xa0points"


@dataclass(frozen=True)
class Cells:
    """A table of HTML: header, rows, and whether the first cell of a row is its name."""

    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    kind: str = ""


def table(cells: Cells, most: int = MOST_ROWS) -> str:
    """Write a table, which scrolls separately if wider than the page, also by keyboard."""
    head = "".join(f'<th scope="col">{name}</th>' for name in cells.header)
    body = "".join(
        f'<tr><th scope="row">{row[0]}</th>{"".join(_cell(one) for one in row[1:])}</tr>'
        for row in cells.rows[:most]
    )
    left = len(cells.rows) - most
    more = f'<p class="note">{left:,} further rows are not shown.</p>' if left > 0 else ""
    caption = f"<caption>{cells.caption}</caption>" if cells.caption else ""
    label = escaped(cells.caption or "table")
    kind = f' class="{cells.kind}"' if cells.kind else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table{kind}>'
        f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}"
    )


def _cell(text: str) -> str:
    return text if text.startswith("<td") else f"<td>{text}</td>"


def heat_cell(value: float | None, shade: float, text: str) -> str:
    """Write a cell with a value, darker for larger ``shade`` in [0, 1]; a dash for None."""
    if value is None or not isfinite(value):
        return '<td class="none">–</td>'
    amount = min(max(shade, 0.0), 1.0)
    return f'<td class="heat" style="--v:{100 * amount:.0f}%">{text}</td>'


def figure(picture: str, sentence: str, data: Cells | None = None, key: str = "") -> str:
    """Combine a picture, a sentence that describes it, and its data."""
    listed = more("The data of this figure", table(data)) if data is not None else ""
    return f"<figure>{picture}{key}<figcaption>{sentence}</figcaption>{listed}</figure>"


def more(title: str, content: str) -> str:
    """Collapse content under a title that expands it."""
    return f"<details><summary>{title}</summary>{content}</details>"


def some(parts: Sequence[str], kind: str, most: int = MOST_METHODS) -> str:
    """Show the first parts, and collapse the others."""
    shown = f'<div class="{kind}">{"".join(parts[:most])}</div>'
    left = len(parts) - most
    if left <= 0:
        return shown
    return shown + more(
        f"{left} more methods", f'<div class="{kind}">{"".join(parts[most:])}</div>'
    )


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """List markers (SVG) with their names (HTML)."""
    items = "".join(f"<li>{mark}{name}</li>" for mark, name in entries)
    return f'<ul class="legend">{items}</ul>'


def badge(kind: str, text: str) -> str:
    """Write a verdict; ``kind`` is good, bad or open, and the text is clear without the colour."""
    return f'<span class="badge {kind}">{escaped(text)}</span>'


def paragraph(*sentences: str) -> str:
    """Join sentences, without empty ones."""
    told = " ".join(filter(None, sentences))
    return f"<p>{told}</p>" if told else ""


@dataclass(frozen=True)
class Section:
    """A section of the page: its anchor, title and content, all of them HTML."""

    anchor: str
    title: str
    content: str


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Write the whole document.

    Parameters
    ----------
    title : str
        Plain text.
    lead : str
        HTML below the title.
    sections : sequence of Section
    """
    style = (files("faircil.report") / "style.css").read_text(encoding="utf-8")
    links = "".join(f'<li><a href="#{one.anchor}">{one.title}</a></li>' for one in sections)
    body = "".join(
        f'<section id="{one.anchor}"><h2>{one.title}</h2>{one.content}</section>'
        for one in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escaped(title)}</title><style>{style}</style></head><body>"
        '<a class="skip" href="#main">Skip to the content</a>'
        f"<header><h1>{escaped(title)}</h1>{lead}</header>"
        f'<nav aria-label="Contents"><ul>{links}</ul></nav><main id="main">{body}</main>'
        "</body></html>\n"
    )
