"""A page of the reproduction: its answer, tables, pictures and commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Verdict(Enum):
    """How a value of ours stands to the published one."""

    SAME = "same"
    BETTER = "better"
    WORSE = "worse"
    DIFFERENT = "different"  # where neither direction is better
    DIVERGED = "diverged"  # some of our seeds did, so there is no value of ours to compare
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Grid:
    """A table: texts in Markdown."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A figure: ``draw`` writes it to the path it is given, a PNG beside the page."""

    file: str
    caption: str
    draw: Callable[[Path], None]


@dataclass(frozen=True)
class Section:
    """A part of a page; ``commands`` are what a reader types to get its lines.

    ``on_terminal`` says whether the command line shows its table too.
    """

    heading: str
    text: str = ""
    table: Grid | None = None
    picture: Picture | None = None
    commands: tuple[str, ...] = ()
    on_terminal: bool = True


@dataclass(frozen=True)
class Page:
    """The result of reproducing a table or figure.

    Parameters
    ----------
    answer : str
        The result in a sentence or two, for the index, also where FSW does not help.
    sections : tuple of Section
    verdicts : tuple of Verdict
        One for each published value that stands beside one of ours.
    findings : tuple of str
        Sentences for the index: which differences are significant, and which are not.
    by_method : mapping
        The verdicts on the published rows of a method.
    """

    answer: str
    sections: tuple[Section, ...]
    verdicts: tuple[Verdict, ...] = ()
    findings: tuple[str, ...] = ()
    by_method: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
