"""Sentences of the paper that a measurement can check, each with what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faircil.reproduction.exhibit import Results
from faircil.reproduction.measurements.store import Measured, Measurement, Values, measured
from faircil.reproduction.page import Grid, Page, Section, Verdict
from faircil.statistics import Interval

HEADER = ("statement", "paper", "ours", "verdict")
YES = "yes"  # what the paper says where it prints no number


@dataclass(frozen=True)
class Statement:
    """What the paper says, in other words, its number if it has one, and ours."""

    says: str
    paper: str
    ours: str
    verdict: Verdict


def statement(says: str, ours: str, holds: bool, paper: str = YES) -> Statement:
    """Make a statement that came out or did not."""
    return Statement(says, paper, ours, Verdict.SAME if holds else Verdict.DIFFERENT)


def not_run(says: str, problem: str, paper: str = YES) -> Statement:
    """Make a statement that could not be checked."""
    return Statement(says, paper, problem, Verdict.NOT_RUN)


def statement_section(statements: Sequence[Statement], text: str, command: str) -> Section:
    """Write statements as a table."""
    rows = tuple((s.says, s.paper, s.ours, s.verdict.value) for s in statements)
    return Section("What the paper says", text, Grid(HEADER, rows), commands=(command,))


def page_of(
    answer: str, statements: Sequence[Statement], text: str, command: str, *sections: Section
) -> Page:
    """Put a page together: statements first, then what they rest on."""
    first = statement_section(statements, text, command)
    return Page(answer, (first, *sections), tuple(s.verdict for s in statements))


def look_up(measurement: Measurement[Values], results: Results) -> Measured[Values]:
    """Read a measurement, or make it where that is wanted."""
    return measured(
        measurement, results.root, run_missing=results.run_missing, any_code=results.any_code
    )


def problem_of(found: Sequence[Measured[Values]]) -> str | None:
    """Return why one of several measurements is missing, if one is."""
    return next((one.problem for one in found if one.problem is not None), None)


def values_of(found: Sequence[Measured[Values]]) -> list[Values]:
    """Return what was measured."""
    return [one.values for one in found if one.values is not None]


def written(found: Interval, digits: int = 2, unit: str = "") -> str:
    """Write a mean with its interval.

    Examples
    --------
    >>> written(Interval(127.31, 125.0, 129.6), 0, "°"), written(Interval(0.5, None, None))
    ('127° (125 … 130)', '0.50')
    """
    text = f"{found.mean:.{digits}f}{unit}".replace("-", "−")
    if found.low is None or found.high is None:
        return text
    return f"{text} ({found.low:.{digits}f} … {found.high:.{digits}f})".replace("-", "−")


def percent(share: float) -> str:
    """Write a share.

    Examples
    --------
    >>> percent(0.054), percent(0.0054)
    ('5 %', '0.5 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.1f} %"


def above_zero(found: Interval) -> bool:
    """Whether a mean is above 0 beyond chance; with one value, whether it is above 0 at all."""
    return (found.mean if found.low is None else found.low) > 0


def sentence(text: str) -> str:
    """Return a text with a capital and a full stop; what else is in it, such as paths, stays."""
    return f"{text[0].upper()}{text[1:]}."
