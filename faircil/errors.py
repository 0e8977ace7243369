"""Errors for the user: what was given, what was expected, and what to do.

Everything the user can cause is a :class:`FaircilError`; the command line prints its
message without a traceback. Anything else that escapes is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral

MOST_NAMES = 30  # that a message lists


class FaircilError(Exception):
    """An error caused by input or environment, which the message explains. Exit code 1.

    Messages name parameters in backticks, such as `folder` or `jobs=2`; the command line writes
    its own options instead.

    Parameters
    ----------
    *sentences : object
        One for each mistake; several are shown as a list.
    """

    def __str__(self) -> str:
        """Return the only sentence, or the list of all."""
        if len(self.args) < 2:
            return super().__str__()
        return "\n".join(f"- {sentence}" for sentence in self.args)


class UsageError(FaircilError):
    """The call itself is wrong: an unknown name, a bad setting. Exit code 2."""


class DataError(FaircilError):
    """Data that is missing, damaged, or not what it says it is."""


class SolverError(FaircilError):
    """A linear program that could not be solved."""


class DivergedError(FaircilError):
    """A training that has gone to infinity: with the same settings it always will."""


class StorageError(FaircilError):
    """A file that cannot be written: no run can be kept until that is put right."""


class SweepError(FaircilError):
    """A sweep that had to stop before its end; what was finished is kept."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence for a name that is not in a table.

    Examples
    --------
    >>> unknown_name("measure", "eoo", ["eer", "eo", "dp"])
    "unknown measure 'eoo': did you mean 'eo'? Known: dp, eer, eo"
    """
    names = sorted(known)
    close = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" did you mean '{close[0]}'?" if close else ""
    return f"unknown {kind} '{name}':{hint} Known: {shortened(names, MOST_NAMES)}"


def shortened(names: Sequence[str], most: int = 5) -> str:
    """List ``names`` for a sentence, at most ``most`` of them.

    Examples
    --------
    >>> shortened(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@contextmanager
def collecting(mistakes: list[str]) -> Iterator[None]:
    """Note mistakes in how a command is used and go on, so that the user sees all at once."""
    try:
        yield
    except UsageError as error:
        mistakes += map(str, error.args)


def whole_mistakes(**numbers: object) -> list[str]:
    """Find what is no whole number from 0 on, as seeds and numbers of epochs are, by name.

    Examples
    --------
    >>> whole_mistakes(seed=-1, epoch=3)
    ['`seed` is -1, expected a whole number of at least 0']
    """
    return [
        f"`{name}` is {number!r}, expected a whole number of at least 0"
        for name, number in numbers.items()
        if not isinstance(number, Integral) or int(number) < 0
    ]


def raise_all(mistakes: Sequence[str], error: type[FaircilError] = UsageError) -> None:
    """Raise one error that lists every mistake; do nothing if there is none."""
    if mistakes:
        raise error(*mistakes)
