"""Write what a benchmark found, and its page with the pictures beside it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from faircil.errors import FaircilError
from faircil.plots import save
from faircil.report import Table

PICTURES = "images"  # folder of a page's pictures, beside the page


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


def write_findings(findings: Findings, folder: Path, page: Path | None) -> list[Path]:
    """Write ``results.json``, ``results.csv``, the pictures and ``page.md``; return the files.

    Parameters
    ----------
    findings : Findings
    folder : Path
    page : Path or None
        Where else to write the page; its pictures go to ``images`` beside it.
    """
    text = json.dumps(findings.document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files = [
        _write(folder / "results.json", text),
        _write(folder / "results.csv", _as_csv(findings.rows)),
    ]
    for name, figure in findings.figures.items():
        files += save(figure, folder / name)
    beside = {name: f"{name}.svg" for name in findings.figures}
    files.append(_write(folder / "page.md", findings.page(beside)))
    if page is not None:
        stems = {name: f"{page.stem}-{name}" for name in findings.figures}
        for name, figure in findings.figures.items():
            files += save(figure, page.parent / PICTURES / stems[name])
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
