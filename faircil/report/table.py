"""Tables as data: cells with marks, number formats, legend, and Markdown."""

from __future__ import annotations

from dataclasses import dataclass, replace

from faircil.metrics import METRICS

AMONG_BEST = "°"
TOO_SMALL = "†"
TEST = "paired t-test over at least 3 common seeds, Holm, 5 %"
UNTESTED = "nothing is marked: methods are tested only over 3 or more common seeds"


@dataclass(frozen=True)
class Cell:
    """Text of a value, and its marks.

    Parameters
    ----------
    text : str
    best : bool
        Whether it is significantly better than all others of its column.
    among_best : bool
        Whether nothing is, and it is the best mean or one of those after it, down to the first that
        is significantly worse.
    too_small : bool
        Whether it compares parts of the test data that are too small to judge.
    """

    text: str
    best: bool = False
    among_best: bool = False
    too_small: bool = False

    def marked(self, best: str) -> str:
        """Return the text with its marks, ``best`` being that of the best."""
        marks = (
            best if self.best else "",
            AMONG_BEST if self.among_best else "",
            TOO_SMALL if self.too_small else "",
        )
        return " ".join(filter(None, (self.text, *marks)))


@dataclass(frozen=True)
class Table:
    """A comparison on one dataset.

    Parameters
    ----------
    title : str
    header : tuple of str
    cells : tuple of tuple of Cell
        Row by row.
    ranked : bool
        Whether the best of each column is looked for.
    notes : tuple of str
        What the reader has to know, a line each.
    """

    title: str
    header: tuple[str, ...]
    cells: tuple[tuple[Cell, ...], ...]
    ranked: bool = False
    notes: tuple[str, ...] = ()


def heading(metric: str) -> str:
    """Return the heading of a metric's column."""
    return METRICS[metric].heading or metric


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
    """Explain the marks of a table, then give its notes; empty where there is nothing to say.

    Parameters
    ----------
    table : Table
    best : str
        How the best of a column is marked: ``bold`` by :func:`as_markdown`.
    """
    cells = [cell for row in table.cells for cell in row]
    marks = []
    if any(cell.best for cell in cells):
        marks.append(f"{best}: significantly better than all others")
    if any(cell.among_best for cell in cells):
        marks.append(
            f"{AMONG_BEST}: the best mean and the next ones, down to the first that is "
            "significantly worse"
        )
    explained = f"{'; '.join(marks)} ({TEST})" if marks else UNTESTED
    return "\n".join([explained] * (table.ranked or bool(marks)) + list(table.notes))


def as_markdown(table: Table) -> str:
    """Write a table in Markdown, with the marks that :func:`legend` explains."""
    lines = ["| " + " | ".join(table.header) + " |", "|" + "---|" * len(table.header)]
    for row in table.cells:
        lines.append("| " + " | ".join(_marked(cell) for cell in row) + " |")
    return "\n".join(lines) + "\n"


def _marked(cell: Cell) -> str:
    text = cell.text.replace("|", r"\|")
    bold = replace(cell, text=f"**{text}**" if cell.best else text)
    return bold.marked("")
