"""Terminal output: messages and progress on stderr, tables on stdout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

from rich.console import Console as RichConsole, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from faircil.files import as_json

if TYPE_CHECKING:
    from faircil.report import Cell, Table

PLAIN_WIDTH = 220  # without a terminal that sets the width, tables are not squeezed
EDGE, BETWEEN = 1, 3  # characters of a table's frame: at its left, and per column
BEST = "*"
# Control characters other than line ends and tabs, which a terminal would interpret.
CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class Console(RichConsole):
    """A console that shows names from files as plain text, whatever they contain."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the parts of the output; only the console's own control codes are kept."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=part.text.translate(CONTROLS))


class Messages:
    """The stream of messages, stderr; messages that cannot be written are dropped.

    A full device, or a reader that has ended, must not abort a run.
    """

    def write(self, text: str) -> int:
        """Write text; on failure, drop this and all further output."""
        try:
            return sys.stderr.write(text)
        except OSError:
            silence(sys.stderr)
            return len(text)

    def flush(self) -> None:
        """Flush the stream; on failure, drop all further output."""
        try:
            sys.stderr.flush()
        except OSError:
            silence(sys.stderr)

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr, name)


def silence(stream: TextIO) -> None:
    """Redirect a stream to nowhere, so that Python does not fail when flushing it at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def make_console(stderr: bool = False) -> Console:
    """Return a console on stdout or stderr that does not squeeze output into files."""
    file = cast(IO[str], Messages()) if stderr else None
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, width=PLAIN_WIDTH, soft_wrap=True)
    return console


def say(message: str) -> None:
    """Print a message on stderr."""
    make_console(stderr=True).print(Text(message), soft_wrap=True)


def duration(seconds: float) -> str:
    """Write a duration in words.

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
    """Print a table of results on stdout, followed by the meaning of its marks and its notes.

    The best of a column is bold and starred. A table wider than the terminal is continued below,
    repeating its first column.
    """
    from faircil.report import legend

    console = make_console()
    for part, columns in enumerate(_fitting(table, console.width)):
        rich = RichTable(
            title=None if part else Text(table.title), title_justify="left", title_style="bold"
        )
        for column in columns:
            rich.add_column(
                Text(table.header[column]), justify="right" if column else "left", no_wrap=True
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
    rich = RichTable(title=Text(title), title_justify="left", title_style="bold")
    for name in header:
        rich.add_column(Text(name), overflow="fold")
    for row in rows:
        rich.add_row(*(Text(cell) for cell in row))
    make_console().print(rich)


def say_notes(notes: Iterable[str]) -> None:
    """Print notes on stderr, each of them once."""
    for note in dict.fromkeys(notes):
        say(f"note: {note}")


def json_text(document: dict[str, Any]) -> str:
    """Return a document as JSON for both people and programs."""
    return as_json(document, indent=2)


def print_json(document: dict[str, Any]) -> None:
    """Print a document on stdout."""
    print(json_text(document))  # noqa: T201


def _text(cell: Cell) -> str:
    return cell.marked(BEST)


def _fitting(table: Table, width: int) -> Iterator[list[int]]:
    """Yield sets of columns, by index, that fit the width; each begins with the first column."""
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
