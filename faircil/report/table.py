"""A table as data, how its values are written, and what its marks mean."""

from __future__ import annotations

from dataclasses import dataclass

AMONG_BEST = "°"
TEST = "paired t-test over seeds, Holm, 5 %; lower is better but for accuracy"
UNTESTED = "nothing is marked: methods are told apart only over two or more common seeds"


@dataclass(frozen=True)
class Cell:
    """Text of a value, and how it stands in its column.

    Parameters
    ----------
    text : str
    best : bool
        Whether it is proven to be the best.
    among_best : bool
        Whether nothing is proven the best, and it is not told apart from the best mean.
    """

    text: str
    best: bool = False
    among_best: bool = False


@dataclass(frozen=True)
class Table:
    """A comparison on one dataset: header, cells row by row, whether methods are ranked."""

    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    ranked: bool = False


def format_value(mean: float | None, deviation: float | None = None) -> str:
    """Write a metric as in papers, ``.925 ± .004``; a dash where there is none.

    Examples
    --------
    >>> format_value(0.92512, 0.0041), format_value(-0.05), format_value(None)
    ('.925 ± .004', '−.050', '–')
    """
    if mean is None:
        return "–"
    text = _short(mean)
    return text if deviation is None else f"{text} ± {_short(deviation)}"


def _short(value: float) -> str:
    text = f"{value:z.3f}".replace("-", "−")
    return text.replace("0.", ".", 1) if abs(value) < 1 else text


def legend(table: Table, best: str = "bold") -> str:
    """Explain the marks of a table in a line; empty where there is nothing to explain.

    Parameters
    ----------
    table : Table
    best : str
        How the proven best of a column is marked: ``bold`` by :func:`as_markdown`.
    """
    cells = [cell for row in table.cells for cell in row]
    marks = [f"{best}: better than all others"] if any(cell.best for cell in cells) else []
    if any(cell.among_best for cell in cells):
        marks.append(f"{AMONG_BEST}: not told apart from the best mean")
    if not marks:
        return UNTESTED if table.ranked else ""
    return f"{', '.join(marks)} ({TEST})"


def as_markdown(table: Table) -> str:
    """Write a table in Markdown, with the marks that :func:`legend` explains."""
    lines = ["| " + " | ".join(table.header) + " |", "|" + "---|" * len(table.header)]
    for row in table.cells:
        lines.append("| " + " | ".join(_marked(cell) for cell in row) + " |")
    return "\n".join(lines) + "\n"


def _marked(cell: Cell) -> str:
    text = cell.text.replace("|", r"\|")
    if cell.best:
        return f"**{text}**"
    return f"{text} {AMONG_BEST}" if cell.among_best else text
