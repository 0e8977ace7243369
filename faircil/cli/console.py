"""Terminal output: messages and progress on stderr, tables on stdout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from faircil.report import Cell, Table

PLAIN_WIDTH = 220  # where no terminal sets the width, tables are not squeezed
EDGE, BETWEEN = 1, 3  # characters of a table's frame: at its left, and per column
BEST = "*"


def make_console(stderr: bool = False) -> Console:
    """Return a console on stdout or stderr that does not squeeze output into files."""
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH, soft_wrap=True)
    return console


def say(message: str) -> None:
    """Tell the user something on stderr."""
    make_console(stderr=True).print(Text(message), soft_wrap=True)


def duration(seconds: float) -> str:
    """Write a duration as people say it.

    Examples
    --------
    >>> duration(40), duration(400), duration(40_000)
    ('40 s', '7 min', '11 h 7 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def show_table(table: Table) -> None:
    """Print a table of results on stdout, and below it the meaning of its marks and its notes.

    The best of a column is bold and starred. A table that is wider than the terminal goes on
    below, with its first column again.
    """
    from faircil.report import legend

    console = make_console()
    for part, columns in enumerate(_fitting(table, console.width)):
        rich = RichTable(
            title=None if part else table.title, title_justify="left", title_style="bold"
        )
        for column in columns:
            rich.add_column(
                table.header[column], justify="right" if column else "left", no_wrap=True
            )
        for row in table.cells:
            rich.add_row(
                *(Text(_text(row[c]), style="bold" if row[c].best else "") for c in columns)
            )
        console.print(rich)
    if caption := legend(table, best=BEST):
        console.print(Text(caption, style="italic"))


def show_columns(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a plain table of text on stdout."""
    rich = RichTable(title=title, title_justify="left", title_style="bold")
    for name in header:
        rich.add_column(name, overflow="fold")
    for row in rows:
        rich.add_row(*(Text(cell) for cell in row))
    make_console().print(rich)


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on stderr, each once."""
    for note in dict.fromkeys(notes):
        say(f"note: {note}")


def json_text(document: dict[str, Any]) -> str:
    """Return a document as people and programs read it."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def print_json(document: dict[str, Any]) -> None:
    """Print a document on stdout."""
    print(json_text(document))  # noqa: T201


def _text(cell: Cell) -> str:
    return cell.marked(BEST)


def _fitting(table: Table, width: int) -> Iterator[list[int]]:
    """Yield columns, by position, that fit side by side; each time the first column leads."""
    widths = [
        BETWEEN + max(len(name), *(len(_text(row[column])) for row in table.cells))
        for column, name in enumerate(table.header)
    ]
    columns, used = [0], EDGE + widths[0]
    for column in range(1, len(widths)):
        if used + widths[column] > width and len(columns) > 1:
            yield columns
            columns, used = [0], EDGE + widths[0]
        columns.append(column)
        used += widths[column]
    yield columns
