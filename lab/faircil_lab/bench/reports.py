"""``faircil bench report``: how large the page about many runs is, and how soon it is open."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from faircil.cli.compare import write_report
from faircil.errors import FaircilError, raise_all
from faircil.results.folder import find_runs
from faircil.sweep.sweep import SweepOptions, finish
from faircil.sweep.work import Work
from faircil_lab.bench.benchmark import Benchmark, items, sections, table_of
from faircil_lab.bench.browser import SCHEMES, WINDOWS, Browser
from faircil_lab.bench.measuring import Circumstances
from faircil_lab.bench.whole_runs import TimedMethod
from faircil_lab.wording import seconds_text

# Ten methods of different kinds: that weigh groups, or samples, and none.
METHODS = (
    *("er", "fsw", "fsw:granularity=group", "moments", "der++"),
    *("gdumb", "er-ace", "wa", "bgs", "group-dro"),
)
SIZE, SECONDS = 5e6, 2.0  # at most, of a report of 50 runs


@dataclass(frozen=True)
class ReportCost:
    """What the report of a dataset's runs takes.

    Parameters
    ----------
    dataset : str
    methods, runs : int
    size : int
        Of the file, in bytes.
    written : float
        Seconds to read the runs, check and audit them, and write the page.
    opened, unfolded : tuple of float
        Seconds until the page is drawn, and until all of its folded parts are; one each time.
    elements : int
        Of the page; 0 where it was not opened.
    asked, errors : tuple of str
        What the page asked for besides itself, and what its console said.
    cut_off : mapping from "window, scheme" to elements
        What is wider than the window, all parts unfolded.
    browser : str
        Its name and version; empty where the page was not opened.
    """

    dataset: str
    methods: int
    runs: int
    size: int
    written: float
    opened: tuple[float, ...]
    unfolded: tuple[float, ...]
    elements: int
    asked: tuple[str, ...]
    errors: tuple[str, ...]
    cut_off: Mapping[str, tuple[str, ...]]
    browser: str = ""


@dataclass(frozen=True)
class ReportResults(Circumstances):
    """All reports.

    Parameters
    ----------
    outcomes : tuple of ReportCost
    """

    outcomes: tuple[ReportCost, ...]


def measure_reports(
    methods: Sequence[TimedMethod], seeds: Sequence[int], folder: Path, repeats: int, jobs: int
) -> Iterator[ReportCost]:
    """Make the runs of each dataset that are not there yet, and its report; then open that.

    Parameters
    ----------
    methods : sequence of TimedMethod
    seeds : sequence of int
    folder : Path
        Where runs, reports and pictures of these are kept.
    repeats : int
        How often a report is opened; 0: never, and no browser is needed.
    jobs : int
        Processes that make the runs.
    """
    for dataset in dict.fromkeys(one.dataset for one in methods):
        own = [one for one in methods if one.dataset == dataset]
        works = [Work(one.config(), seed) for one in own for seed in seeds]
        outcomes = finish(works, SweepOptions(folder / "runs", jobs))
        failed = [f"{o.work.name}: {o.problem}" for o in outcomes if o.problem is not None]
        raise_all(failed, FaircilError)
        made = [Path(o.run.dir) for o in outcomes if o.run is not None]
        yield report_cost(dataset, len(own), made, folder, repeats)


def report_cost(
    dataset: str, methods: int, made: Sequence[Path], folder: Path, repeats: int
) -> ReportCost:
    """Write the report of these runs, open it, and look at it."""
    page = folder / f"{dataset}.html"
    start = time.perf_counter()
    size = write_report(find_runs(made), page, f"faircil report runs -o {page.name}")
    written = time.perf_counter() - start
    cost = ReportCost(dataset, methods, len(made), size, written, (), (), 0, (), (), {})
    if not repeats:
        return cost
    with Browser() as browser:
        browser.open(page)  # the first page of a browser is slower
        opened = [browser.open(page) for _ in range(repeats)]
        cut_off = {
            f"{window}, {scheme}": browser.look(
                page, window, scheme, folder / f"{dataset}-{window}-{scheme}.png"
            )
            for window in WINDOWS
            for scheme in SCHEMES
        }
        version = browser.version
    return ReportCost(
        *(dataset, methods, len(made), size, written),
        tuple(one.seconds for one in opened),
        tuple(one.unfolded for one in opened),
        opened[0].elements,
        tuple(dict.fromkeys(url for one in opened for url in one.asked)),
        tuple(dict.fromkeys(text for one in opened for text in one.errors)),
        cut_off,
        version,
    )


def _tables(results: ReportResults) -> list[Any]:
    header = ("runs", "methods", "size", "written in", "opens in", "at worst", "unfolds in")
    rows = [
        (
            f"{one.runs} of {one.dataset}",
            str(one.methods),
            f"{one.size / 1e6:.2f} MB",
            seconds_text(one.written),
            *(
                (
                    seconds_text(median(one.opened)),
                    seconds_text(max(one.opened)),
                    seconds_text(median(one.unfolded)),
                )
                if one.opened
                else ("–", "–", "–")
            ),
        )
        for one in results.outcomes
    ]
    return [table_of("Reports", header, rows)]


def _sentences(results: ReportResults) -> Iterator[str]:
    for one in results.outcomes:
        small = "is under" if one.size < SIZE else "is not under"
        said = f"The report of {one.runs} runs of {one.dataset} {small} {SIZE / 1e6:.0f} MB"
        if not one.opened:
            yield f"{said}; it was not opened."
            continue
        soon = "opens" if max(one.opened) < SECONDS else "does not always open"
        yield f"{said} and {soon} in under {SECONDS:g} s: {one.elements:,} elements."
        cut_off = [f"{len(found)} ({where})" for where, found in one.cut_off.items() if found]
        yield (
            f"Addresses that it asks for: {len(one.asked)}; messages of its console: "
            f"{len(one.errors)}; elements cut off, with all parts unfolded, in "
            f"{len(one.cut_off)} windows: {', '.join(cut_off) or 0}."
        )


ABOUT = """
The runs are real but short; their report is as long as that of long ones. *Opens in* is the median
of {repeats} times that headless Chromium takes to open the file in a new tab, from the request
until all of it is laid out and the next frame begins; *unfolds in*, until the same is true with
every folded part open. *Written in* includes reading all runs, checking their files and auditing
one run of each method.
"""


def _text(results: ReportResults, pictures: Mapping[str, str]) -> str:
    del pictures  # there are none
    repeats = max((len(one.opened) for one in results.outcomes), default=0)
    about = ABOUT.format(repeats=repeats)
    return f"{about}\n{items(_sentences(results))}\n" + sections(_tables(results))


def _rows(results: ReportResults) -> Iterator[dict[str, Any]]:
    for one in results.outcomes:
        counts = {
            "asked": len(one.asked),
            "errors": len(one.errors),
            "cut_off": sum(map(len, one.cut_off.values())),
        }
        seconds = {
            "opened": median(one.opened) if one.opened else "",
            "unfolded": median(one.unfolded) if one.unfolded else "",
        }
        yield asdict(one) | seconds | counts


REPORT_COSTS = Benchmark[ReportResults](
    title="Speed of reports",
    line=lambda one: (
        f"{one.runs} runs of {one.dataset}: {one.size / 1e6:.2f} MB"
        + (f", opens in {seconds_text(median(one.opened))}" if one.opened else "")
    ),
    document=lambda results: {"reports": [asdict(one) for one in results.outcomes]},
    rows=_rows,
    tables=_tables,
    figures=lambda _: {},
    text=_text,
    sentences=_sentences,
    besides=lambda results: "".join(
        f"; {name}" for name in dict.fromkeys(one.browser for one in results.outcomes) if name
    ),
)
