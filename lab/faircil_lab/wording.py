"""Numbers as people write them, on every page of the laboratory."""

from __future__ import annotations

import math

from faircil.report import format_value
from faircil.report.statistics import Interval

HOUR, DAY = 3600.0, 86_400.0


def seconds_text(seconds: float) -> str:
    """Write a time with three digits, in the unit that people would use.

    Examples
    --------
    >>> seconds_text(0.0000123), seconds_text(0.0123), seconds_text(1.234), seconds_text(123.4)
    ('0.0123 ms', '12.3 ms', '1.23 s', '123 s')
    >>> seconds_text(0.0), seconds_text(5400), seconds_text(400_000)
    ('0 s', '1.5 hours', '4.6 days')
    """
    if seconds == 0:
        return "0 s"
    if seconds >= HOUR:
        return f"{seconds / HOUR:.1f} hours" if seconds < 2 * DAY else f"{seconds / DAY:.1f} days"
    value, unit = (seconds, "s") if seconds >= 0.9995 else (1000 * seconds, "ms")
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f} {unit}"


def percent(share: float, digits: int | None = None) -> str:
    """Write a share; without ``digits``, none from one percent on and one below.

    Examples
    --------
    >>> percent(0.054), percent(0.0054), percent(0.0712, 1), percent(0.01234, 2)
    ('5 %', '0.5 %', '7.1 %', '1.23 %')
    """
    if digits is None:
        digits = 0 if share >= 0.01 else 1
    return f"{100 * share:z.{digits}f} %"


def three_digits(value: float) -> str:
    """Write a number with three digits.

    Examples
    --------
    >>> three_digits(0.01234), three_digits(1.234), three_digits(123.4)
    ('0.0123', '1.23', '123')
    """
    return f"{value:#.3g}".rstrip(".")


def mean_text(found: Interval, digits: int = 2, unit: str = "") -> str:
    """Write a mean with its interval.

    Examples
    --------
    >>> mean_text(Interval(127.31, 125.0, 129.6), 0, "°")
    '127° (125 … 130)'
    >>> mean_text(Interval(0.5, None, None))
    '0.50'
    """
    text = f"{found.mean:.{digits}f}{unit}".replace("-", "−")
    if found.low is None or found.high is None:
        return text
    return f"{text} ({found.low:.{digits}f} … {found.high:.{digits}f})".replace("-", "−")


def interval_text(found: Interval | None) -> str:
    """Write a metric with its interval, without leading zeros; a dash where there is none.

    Examples
    --------
    >>> interval_text(Interval(0.8451, 0.8312, 0.8599)), interval_text(None)
    ('.845 (.831 … .860)', '–')
    """
    if found is None or found.low is None or found.high is None:
        return format_value(None if found is None else found.mean)
    return f"{format_value(found.mean)} ({format_value(found.low)} … {format_value(found.high)})"


def sentence(text: str) -> str:
    """Return a text with a capital and a full stop; the rest of it, such as paths, stays."""
    return f"{text[0].upper()}{text[1:]}."
