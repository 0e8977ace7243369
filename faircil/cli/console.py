"""What people see: messages and progress on stderr, tables on stdout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table as RichTable
from rich.text import Text

if TYPE_CHECKING:
    from faircil.config import RunConfig
    from faircil.metrics import TaskMetrics
    from faircil.report import Table
    from faircil.results.record import EpochRecord

PLAIN_WIDTH = 160  # where no terminal sets the width, tables are not squeezed


def _console(stderr: bool = False) -> Console:
    console = Console(stderr=stderr, highlight=False)
    return (
        console
        if console.is_terminal
        else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH, soft_wrap=True)
    )


def say(message: str) -> None:
    """Tell the user something on stderr."""
    _console(stderr=True).print(Text(message), soft_wrap=True)


def show_table(table: Table) -> None:
    """Print a table of results on stdout; the best of a column is bold and starred."""
    rich = RichTable(title=table.title, title_justify="left", title_style="bold")
    marked = any(cell.best for row in table.cells for cell in row)
    for position, name in enumerate(table.header):
        rich.add_column(name, justify="left" if position == 0 else "right", no_wrap=True)
    for row in table.cells:
        rich.add_row(
            *(Text(f"{c.text} *" if c.best else c.text, style="bold" * c.best) for c in row)
        )
    rich.caption = "* best mean; lower is better but for accuracy" if marked else None
    rich.caption_justify = "left"
    _console().print(rich)


def show_columns(title: str, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a plain table of text on stdout."""
    rich = RichTable(title=title, title_justify="left", title_style="bold")
    for name in header:
        rich.add_column(name, overflow="fold")
    for row in rows:
        rich.add_row(*(Text(cell) for cell in row))
    _console().print(rich)


class Reporter(Protocol):
    """Is told how a run goes on."""

    def start(self, seed: int, tasks: int) -> None:
        """Start a run with this seed and number of tasks."""

    def __call__(self, event: EpochRecord | TaskMetrics) -> None:
        """Take note of an epoch or an evaluation."""


@contextmanager
def reporting(config: RunConfig, runs: int, quiet: bool) -> Iterator[Reporter]:
    """Show progress while runs go on: bars on a terminal, lines elsewhere, nothing if quiet."""
    from faircil.cli.progress import Bars, Lines, Silence

    console = _console(stderr=True)
    if quiet:
        yield Silence()
    elif not console.is_terminal:
        yield Lines(console, config)
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[detail]}", style="dim"),
        )
        with Progress(*columns, console=console) as progress:
            yield Bars(progress, config, runs)
