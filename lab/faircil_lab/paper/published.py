"""What the paper prints, as data: one TOML file for each topic.

A topic has columns (a dataset and a measure, such as ``mnist eer``), a column has rows (a method or
a variant of it) with a value for each of its metrics, as printed:

>>> table = published("ablation")
>>> table.paper
'Tables 4 and 12 to 14'
>>> table.value("mnist eer", "fsw", "eer_task")
Value(mean=0.032, deviation=0.005, rounding=0.0005)
>>> str(table.value("mnist eer", "fsw", "accuracy"))
'.925 ± .004'

A value that the paper leaves open is None, as is one that it does not have:

>>> published("eo").value("biasbios eo", "ocs", "accuracy") is None
True
>>> published("toy").value("toy", "fsw", "angle g2 g1").mean
127.0
>>> published("lp-time").value("mnist eer", "cplex", "exponent").mean
1.642

:data:`METHODS` says what separates a published method from ours, and where its rows rest on a
defect. The numbers are of Park, Kim and Whang, KDD 2026, mean and deviation over five seeds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

SEEDS = 5  # that every mean and deviation of the paper is over
OPEN = "–"  # where the paper has no value


@dataclass(frozen=True)
class Value:
    """A number as the paper prints it.

    Parameters
    ----------
    mean : float
    deviation : float or None
        None where only a number is printed.
    rounding : float
        Half a unit of the last digit that is printed.
    """

    mean: float
    deviation: float | None
    rounding: float

    def __str__(self) -> str:
        """Return it as printed, without a leading zero."""
        digits = len(f"{2 * self.rounding:.9f}".rstrip("0").partition(".")[2])
        numbers = [self.mean] if self.deviation is None else [self.mean, self.deviation]
        texts = [f"{number:,.{digits}f}" for number in numbers]
        return " ± ".join(t.removeprefix("0") if t.startswith("0.") else t for t in texts)


@dataclass(frozen=True)
class Published:
    """A topic: where it stands in the paper, and its values by column, row and metric."""

    paper: str
    values: Mapping[tuple[str, str, str], Value]

    def value(self, column: str, row: str, metric: str) -> Value | None:
        """Return a value; None where the paper has none."""
        return self.values.get((column, row, metric))

    @property
    def columns(self) -> list[str]:
        """The columns, in the order of the file."""
        return list(dict.fromkeys(column for column, _, _ in self.values))


@dataclass(frozen=True)
class PublishedMethod:
    """A method of the paper: its name there, and what separates its rows from ours.

    ``defect`` says whether they rest on a mistake in the code that made them.
    """

    name: str
    defect: bool
    why: str


@cache
def published(topic: str) -> Published:
    """Return the values of a topic, the name of a file here without its ending."""
    table = _read(topic)
    values: dict[tuple[str, str, str], Value] = {}
    for other in table.pop("include", ()):
        values |= published(other).values
    paper = table.pop("paper")
    for column, content in table.items():
        for row, texts in content["rows"].items():
            for metric, text in zip(content["metrics"], texts, strict=True):
                if text != OPEN:
                    values[column, row, metric] = parse_value(text)
    return Published(paper, values)


def parse_value(text: str) -> Value:
    """Read ``.925 ± .004`` or ``127``.

    Examples
    --------
    >>> parse_value("835 ± 18")
    Value(mean=835.0, deviation=18.0, rounding=0.5)
    """
    mean, _, deviation = (part.strip() for part in text.partition("±"))
    digits = len(mean.partition(".")[2])
    return Value(float(mean), float(deviation) if deviation else None, 0.5 * 10.0**-digits)


def _read(topic: str) -> dict[str, Any]:
    file = files("faircil_lab.paper") / "published" / f"{topic}.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


METHODS: dict[str, PublishedMethod] = {
    key: PublishedMethod(**values) for key, values in _read("reasons").items()
}
