"""Errors for the user: what was given, what was expected, and what to do.

Every error that a user can cause is a :class:`FaircilError`; the command line prints its
message without a traceback. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral

MOST_NAMES = 30  # listed in a message


class FaircilError(Exception):
    """An error caused by input or environment, explained by its message. Exit code 1.

    Messages name parameters in backticks, such as `folder` or `jobs=2`; the command line replaces
    them by its own options.

    Parameters
    ----------
    *sentences : object
        One per mistake; several are shown as a list.
    """

    def __str__(self) -> str:
        """Return the only sentence, or a list of all sentences."""
        if len(self.args) < 2:
            return super().__str__()
        return "\n".join(f"- {sentence}" for sentence in self.args)


class UsageError(FaircilError):
    """The call itself is wrong, such as an unknown name or an invalid setting. Exit code 2."""


class DataError(FaircilError):
    """Data that is missing, damaged, or not of the expected format."""


class SolverError(FaircilError):
    """A linear program that could not be solved."""


class DivergedError(FaircilError):
    """Training that diverged; with the same settings it always will."""


class StorageError(FaircilError):
    """A file that cannot be written; no run can be stored until this is fixed."""


class SweepError(FaircilError):
    """A sweep that stopped early; completed runs are kept."""


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
    """Join ``names`` for a sentence, listing at most ``most`` of them.

    Examples
    --------
    >>> shortened(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


@contextmanager
def collecting(mistakes: list[str]) -> Iterator[None]:
    """Collect usage errors and continue, so that the user sees all of them at once."""
    try:
        yield
    except UsageError as error:
        mistakes += map(str, error.args)


def whole_mistakes(**numbers: object) -> list[str]:
    """Return a sentence for each argument that is not a whole number of at least 0.

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
    """Raise one error that lists all mistakes, if there are any."""
    if mistakes:
        raise error(*mistakes)
