"""Fuzzing: generated cases for a public function, its properties, and how many cases to try.

A harness is a row of data. Its check calls the function and compares it with a simple
implementation. A faircil error with a message is as good as a correct result; any other exception
is a finding.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, Phase, example, given, settings, strategies as st

from faircil import cli
from faircil.errors import FaircilError
from faircil.model.choosing import Wish
from faircil.samples import Samples

# Cases: in every test run, and with `pytest -m soak`.
SHORT, FULL = 8, int(os.environ.get("FUZZ_CASES", "5000"))
LONGEST = 60  # seconds of CPU time per case; more is a hang
STUCK = 600  # seconds of wall time, for a case that waits


class HangError(Exception):
    """A case that did not end in time."""


@dataclass
class Tried:
    """Number of cases tried without a finding, and of those that ended in a message."""

    cases: int = 0
    refused: int = 0


@dataclass
class Refusals:
    """Messages so far."""

    number: int = 0


REFUSALS = Refusals()


@dataclass(frozen=True)
class Harness:
    """The generated cases, and the property to check.

    Parameters
    ----------
    cases : strategy
        Draws the argument of ``check``.
    check : callable
        Raises an error if the property is violated.
    kept : tuple
        Cases that failed in the past; they are tried first.
    short : int
        Cases in every test run; fewer if a case is slow.
    """

    cases: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    kept: tuple[Any, ...] = ()
    short: int = SHORT

    def run(self, number: int | None = None) -> Tried:
        """Try stored and generated cases; without a number, always the same few."""
        tried = Tried()

        def case(drawn: Any) -> None:
            before = REFUSALS.number
            with ended():
                self.check(drawn)
            tried.cases += 1
            tried.refused += REFUSALS.number > before

        test = given(self.cases)(case)
        for one in self.kept:
            test = example(one)(test)
        settings(
            max_examples=self.short if number is None else number,
            derandomize=number is None,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.generate, *((Phase.shrink,) if number else ())),
        )(test)()
        return tried

    def soak(self, name: str) -> None:
        """Try :data:`FULL` generated cases, and print their number."""
        started = time.monotonic()
        tried = self.run(FULL)
        print(
            f"{name}: {tried.cases:,} cases, {tried.refused:,} of them refused with a message, "
            f"{time.monotonic() - started:.0f} s"
        )


def few_and_thousands(
    harnesses: Mapping[str, Harness],
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return two tests for each harness: with a few cases, and with thousands, for soak tests."""

    def few(name: str) -> None:
        harnesses[name].run()

    def thousands(name: str) -> None:
        harnesses[name].soak(name)

    each = pytest.mark.parametrize("name", harnesses)
    return each(few), pytest.mark.soak(each(thousands))


def scratch_folder() -> Path:
    """Return a new folder, removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="faircil-fuzz-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@contextmanager
def ended() -> Iterator[None]:
    """Raise a HangError in a case that takes too much CPU or wall time."""

    def stop(*_: object) -> None:
        raise HangError(f"a case took more than {LONGEST} s, or hung for {STUCK} s")

    # On a machine that is busy or sleeps, only the wall time of a case is long.
    limits = (
        (signal.SIGPROF, signal.ITIMER_PROF, LONGEST),
        (signal.SIGALRM, signal.ITIMER_REAL, STUCK),
    )
    before = [signal.signal(name, stop) for name, _, _ in limits]
    for _, timer, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (name, timer, _), handler in zip(limits, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(name, handler)


@contextmanager
def refused(*also: type[Exception]) -> Iterator[None]:
    """Accept errors of faircil, and of other documented types, that have a message."""
    try:
        yield
    except (FaircilError, *also) as error:
        if not str(error).strip():
            raise AssertionError(f"{type(error).__name__} without a message") from error
        REFUSALS.number += 1


# Look up packages that add commands once, as this takes longer than most command lines.
COMMANDS = cache(cli.all_commands)


@contextmanager
def silent() -> Iterator[StringIO]:
    """Capture the output of a command, which must not contain a traceback."""
    printed = StringIO()
    added = mock.patch.object(cli, "all_commands", COMMANDS)
    with added, redirect_stdout(printed), redirect_stderr(printed):
        yield printed
    assert "Traceback" not in printed.getvalue()


# Realistic texts that break programs: other scripts, marks, control characters, numbers, paths.
PLAIN_WORDS = ["a", "b", "yes", "no", "f", "m", "1", "01", "-1", "1.0", "nan", "None", "", " "]
ODD_WORDS = [
    "é",
    "e\u0301",
    "\u202eabc",
    "😀",
    "a,b",
    'a"b',
    "a\nb",
    "a\tb",
    "\0",
    "../x",
    "$x$",
    "<b>",
]
WORDS = st.one_of(
    st.sampled_from([*PLAIN_WORDS, *ODD_WORDS, "％", "1e999"]),
    st.text(max_size=6),
)
SMALL = st.integers(-2, 5)
HUGE = st.sampled_from([2**31, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64, 10**30, -(10**30)])
FLOATS = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-308, 1e308, -1e308, 1e19, -0.0]),
    st.floats(allow_nan=True, allow_infinity=True),
)
ODD = st.one_of(
    st.none(),
    st.booleans(),
    HUGE,
    FLOATS,
    st.sampled_from(
        [b"x", (1, 2), ("a",), pd.NA, pd.NaT, np.float32("nan"), np.datetime64("2020")]
    ),
    st.sampled_from([[1], {}, {1}, 1j, pd.Timestamp("2020-01-01")]),
)


def labels(n: int) -> st.SearchStrategy[list[Any]]:
    """Draw n labels: plain in most cases, else any mixture."""
    plain = [st.integers(0, 2), st.sampled_from("abc"), SMALL, WORDS, st.booleans()]
    mixed = [HUGE, FLOATS, st.one_of(SMALL, WORDS), st.one_of(SMALL, ODD), st.one_of(WORDS, ODD)]
    one = usually(st.sampled_from(plain[:2]), st.sampled_from([*plain, *mixed]), 4)
    return one.flatmap(lambda values: st.lists(values, min_size=n, max_size=n))


def _series(values: list[Any]) -> Any:
    return pd.Series(values, dtype=object)


def _as(make: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Convert to a container if its library can; otherwise keep the list."""

    def made(values: list[Any]) -> Any:
        try:
            return make(values)
        except (ValueError, TypeError, OverflowError, RuntimeError, RuntimeWarning):
            return values

    return made


CONTAINERS: tuple[Callable[[list[Any]], Any], ...] = (
    list,
    tuple,
    _as(np.array),
    _as(torch.tensor),
    _as(_series),
    _as(lambda values: pd.Series(values).convert_dtypes()),
    _as(lambda values: pd.Series(values, dtype="category")),
    _as(lambda values: np.array(values, dtype=object)),
    _as(lambda values: np.array(values, dtype=np.uint64)),
    _as(lambda values: np.array(values, dtype=np.float16)),
    _as(lambda values: np.array([values, values])),
    lambda values: values[:-1],
    lambda values: values[0] if values else values,
    lambda values: [values],
)


def columns(n: int) -> st.SearchStrategy[Any]:
    """Draw a column of n labels in any container, occasionally of another shape."""
    made = usually(st.sampled_from(CONTAINERS[:5]), st.sampled_from(CONTAINERS))
    return st.builds(lambda values, make: make(values), labels(n), made)


def usually(
    good: st.SearchStrategy[Any], other: st.SearchStrategy[Any], once_in: int = 12
) -> st.SearchStrategy[Any]:
    """Draw valid values most of the time: with many invalid parts, only the first is reported."""
    return st.integers(1, once_in).flatmap(lambda number: other if number == once_in else good)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw None in half of the cases."""
    return st.one_of(st.none(), strategy)


INPUTS = 3  # of a sample
# Settings of `moments`. A search for group weights takes longer than all else in a case with a few
# rows, so most cases are solved without it.
WAYS = st.sampled_from(
    [
        {},
        {"group_weights": "class", "ridge": 1.0},
        {"group_weights": "samples", "ridge": 0.1},
        {"classifier": "nearest-mean"},
        {"classifier": "lda", "ridge": 0.1},
    ]
).map(lambda chosen: {"width": 8, "arithmetic": "float64", **chosen})
NUMBERS = st.one_of(
    st.floats(-3, 3, width=32),
    st.sampled_from([0.0, 0.0, 1.0, 1e-30, 1e30, 1e38, float("nan"), float("inf")]),
)
PLAIN = st.floats(-3, 3, width=32)


def wish_for(settings: dict[str, Any]) -> Wish:
    """Return a request for a model of ``moments`` with these settings."""
    return Wish("moments", overrides=tuple(f"{name}={value}" for name, value in settings.items()))


@st.composite
def sample_sets(
    draw: st.DrawFn,
    classes: tuple[int, ...] = (0, 1, 2),
    most: int = 8,
    every: bool = False,
    attribute: bool | None = None,
) -> Any:
    """Draw samples, occasionally odd: no rows, huge inputs, negative classes and values.

    Whether they have attribute values is drawn as well, unless it is given.
    """
    n = draw(usually(st.integers(len(classes), most), st.integers(0, 2)))
    n = max(n, len(classes)) if every else n
    odd = not every and draw(st.integers(1, 12)) == 12
    x = draw(st.lists(NUMBERS if odd else PLAIN, min_size=n * INPUTS, max_size=n * INPUTS))
    labels = st.integers(-1, 4) if odd else st.sampled_from(classes)
    y = draw(st.lists(labels, min_size=n, max_size=n))
    y[: len(classes)] = classes[:n] if every else y[: len(classes)]
    values = st.lists(st.integers(-1 if odd else 0, 2), min_size=n, max_size=n)
    z = draw(maybe(values) if attribute is None else values if attribute else st.none())
    given = torch.tensor(x).reshape(n, INPUTS), torch.tensor(y, dtype=torch.int64)
    return Samples(*given, None if z is None else torch.tensor(z, dtype=torch.int64))
