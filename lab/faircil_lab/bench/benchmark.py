"""One pipeline for all benchmarks: record, tables, sentences and pictures, files and page."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from matplotlib.figure import Figure

from faircil.errors import FaircilError
from faircil.report import Cell, Table, as_markdown
from faircil.report.plots import save
from faircil_lab.bench.measuring import Circumstances, described


@dataclass(frozen=True)
class BarPart:
    """A part that all bars have: its name, its colour, and its length in each."""

    name: str
    colour: str
    lengths: Sequence[float]


def split_bars(
    names: Sequence[str], layers: Sequence[BarPart], words: Sequence[str], unit: str
) -> Figure:
    """Draw a bar per name from its parts.

    Parameters
    ----------
    names : sequence of str, length n
        From top to bottom.
    layers : sequence of BarPart
        From left to right.
    words : sequence of str, length n
        To the right of the bars.
    unit : str
        What the length of a bar is.
    """
    figure = Figure(figsize=(8.4, 1.6 + 0.45 * len(names)), layout="constrained")
    axes = figure.subplots()
    left = [0.0] * len(names)
    for layer in layers:
        axes.barh(names, layer.lengths, left=left, color=layer.colour, label=layer.name, height=0.6)
        left = [start + length for start, length in zip(left, layer.lengths, strict=True)]
    for position, (text, end) in enumerate(zip(words, left, strict=True)):
        axes.text(end, position, f"  {text}", va="center", fontsize=9)
    axes.set_xlim(0, 1.4 * max(left))  # room for the words
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="x", alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure


PICTURES = "images"  # folder of a page's pictures, next to the page
HEAD = """# {title}

Written by

```
{command}
```

on {machine}.
"""
INTERRUPTED = "\nThe benchmark was interrupted here.\n"
Results = TypeVar("Results", bound=Circumstances)


@dataclass(frozen=True)
class Findings:
    """A benchmark, ready to be written.

    Parameters
    ----------
    document : mapping
        All of it, as ``results.json`` holds it.
    rows : sequence of mapping
        The measurements as ``results.csv`` holds them, all with the same keys.
    tables : sequence of Table
        What to show on a terminal.
    figures : mapping
        Pictures by name.
    page : callable
        ``page(pictures)`` writes Markdown, given where each picture is, seen from the page.
    """

    document: Mapping[str, Any]
    rows: Sequence[Mapping[str, Any]]
    tables: Sequence[Table]
    figures: Mapping[str, Figure]
    page: Callable[[Mapping[str, str]], str]


@dataclass(frozen=True)
class Benchmark(Generic[Results]):
    """What a benchmark has of its own; how it is recorded and written is the same for all.

    Parameters
    ----------
    title : str
        Of the page.
    line : callable
        From one outcome to a line that says how far it is.
    document : callable
        What ``results.json`` holds besides the circumstances and the sentences.
    rows : callable
        The lines of ``results.csv``.
    tables, figures : callable
        To be shown, and drawn.
    text : callable
        ``text(results, pictures)``: the page below its head, in Markdown.
    sentences : callable
        What the numbers say; ``text`` puts them where they belong.
    besides : callable
        What to say of the machine besides its name.
    """

    title: str
    line: Callable[[Any], str]
    document: Callable[[Results], Mapping[str, Any]]
    rows: Callable[[Results], Iterable[Mapping[str, Any]]]
    tables: Callable[[Results], Sequence[Table]]
    figures: Callable[[Results], Mapping[str, Figure]]
    text: Callable[[Results, Mapping[str, str]], str]
    sentences: Callable[[Results], Iterable[str]] = lambda _: ()
    besides: Callable[[Results], str] = lambda _: ""

    def page(self, results: Results, pictures: Mapping[str, str]) -> str:
        """Write the page; ``pictures`` says where each picture is, seen from the page."""
        machine = described(results.environment) + self.besides(results)
        head = HEAD.format(title=self.title, command=results.command, machine=machine)
        notes = "".join(f"\n{note}.\n" for note in results.notes)
        end = "" if results.complete else INTERRUPTED
        return head + notes + self.text(results, pictures) + end

    def findings(self, results: Results) -> Findings:
        """Put document, rows, tables, pictures and page together."""
        said = list(self.sentences(results))
        return Findings(
            {
                **results.described(),
                **({"findings": said} if said else {}),
                **self.document(results),
            },
            list(self.rows(results)),
            self.tables(results),
            self.figures(results),
            partial(self.page, results),
        )


def table_of(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Make a table of texts."""
    return Table(title, tuple(header), tuple(tuple(map(Cell, row)) for row in rows))


def sections(tables: Iterable[Table], level: int = 2) -> str:
    """Write tables under their titles."""
    return "".join(f"\n{'#' * level} {t.title}\n\n{as_markdown(t)}" for t in tables)


def items(texts: Iterable[str]) -> str:
    """Write a list."""
    return "\n".join(f"- {text}" for text in texts)


def write_findings(findings: Findings, folder: Path, page: Path | None) -> list[Path]:
    """Write ``results.json``, ``results.csv``, the pictures and ``page.md``; return the files.

    Parameters
    ----------
    findings : Findings
    folder : Path
    page : Path or None
        Where else to write the page; its pictures go to ``images`` next to it.
    """
    text = json.dumps(findings.document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files = [
        _write(folder / "results.json", text),
        _write(folder / "results.csv", _as_csv(findings.rows)),
    ]
    for name, figure in findings.figures.items():
        files += save(figure, folder / name, math=True)
    in_folder = {name: f"{name}.svg" for name in findings.figures}
    files.append(_write(folder / "page.md", findings.page(in_folder)))
    if page is not None:
        stems = {name: f"{page.stem}-{name}" for name in findings.figures}
        for name, figure in findings.figures.items():
            files += save(figure, page.parent / PICTURES / stems[name], math=True)
        below = {name: f"{PICTURES}/{stem}.svg" for name, stem in stems.items()}
        files.append(_write(page, findings.page(below)))
    return files


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write(path: Path, text: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FaircilError(
            f"cannot write {path}: {error.strerror or error}; free space, or choose another place"
        ) from None
    return path
