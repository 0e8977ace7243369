"""Fuzzing: cases drawn for a public function, what must hold for each, and how many to try.

A harness is a row of data. Its check calls the function and compares with the obvious way; an error
of faircil with a message is as good as a right result, and any other exception is a finding.
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
LONGEST = 60  # seconds of computing of a case; more is a hang
STUCK = 600  # seconds by the clock, of a case that waits


class HangError(Exception):
    """A case that did not end."""


@dataclass
class Tried:
    """Cases that were tried without a finding, and those among them that ended in a message."""

    cases: int = 0
    refused: int = 0


@dataclass
class Refusals:
    """Messages so far."""

    number: int = 0


REFUSALS = Refusals()


@dataclass(frozen=True)
class Harness:
    """What is drawn, and what must hold.

    Parameters
    ----------
    cases : strategy
        Draws the argument of ``check``.
    check : callable
        Raises what is wrong.
    kept : tuple
        Cases that once failed; they are tried first.
    short : int
        Cases in every test run, fewer where one is slow.
    """

    cases: st.SearchStrategy[Any]
    check: Callable[[Any], None]
    kept: tuple[Any, ...] = ()
    short: int = SHORT

    def run(self, number: int | None = None) -> Tried:
        """Try the kept cases and drawn ones; without a number, few and always the same."""
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
        """Try :data:`FULL` drawn cases, and print how many there were."""
        started = time.monotonic()
        tried = self.run(FULL)
        print(
            f"{name}: {tried.cases:,} cases, {tried.refused:,} of them refused with a message, "
            f"{time.monotonic() - started:.0f} s"
        )


def few_and_thousands(
    harnesses: Mapping[str, Harness],
) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return two tests of each harness: with a few cases, and with thousands, for soaking."""

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
    """Raise HangError in a case that takes too long, of the processor or by the clock."""

    def stop(*_: object) -> None:
        raise HangError(f"a case took more than {LONGEST} s, or hung for {STUCK} s")

    # A machine that is busy with others, or sleeps, makes a case long by the clock alone.
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
    """Accept an error of faircil, and of documented other kinds, if it says something."""
    try:
        yield
    except (FaircilError, *also) as error:
        if not str(error).strip():
            raise AssertionError(f"{type(error).__name__} without a message") from error
        REFUSALS.number += 1


# Packages that add commands are looked up once: that takes longer than most lines.
COMMANDS = cache(cli.all_commands)


@contextmanager
def silent() -> Iterator[StringIO]:
    """Keep what a command prints; no traceback may be in it."""
    printed = StringIO()
    added = mock.patch.object(cli, "all_commands", COMMANDS)
    with added, redirect_stdout(printed), redirect_stderr(printed):
        yield printed
    assert "Traceback" not in printed.getvalue()


# Texts that people have, and that break programs: other scripts, marks, controls, numbers, paths.
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
    """Make a container where its library can; else leave the list."""

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
    """Draw a column of n labels in any container, now and then of another shape."""
    made = usually(st.sampled_from(CONTAINERS[:5]), st.sampled_from(CONTAINERS))
    return st.builds(lambda values, make: make(values), labels(n), made)


def usually(
    good: st.SearchStrategy[Any], other: st.SearchStrategy[Any], once_in: int = 12
) -> st.SearchStrategy[Any]:
    """Draw what is right but now and then: a case with many odd parts is refused for the first."""
    return st.integers(1, once_in).flatmap(lambda number: other if number == once_in else good)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw None in half of the cases."""
    return st.one_of(st.none(), strategy)


INPUTS = 3  # of a sample
# Settings of `moments`. A search for weights of groups takes longer than all else of a case with a
# few rows, so that most are solved without.
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
    """Return the wish for a model of ``moments`` with these settings."""
    return Wish("moments", overrides=tuple(f"{name}={value}" for name, value in settings.items()))


@st.composite
def sample_sets(
    draw: st.DrawFn,
    classes: tuple[int, ...] = (0, 1, 2),
    most: int = 8,
    every: bool = False,
    attribute: bool | None = None,
) -> Any:
    """Draw samples, now and then odd: no rows, huge inputs, negative classes and values.

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
