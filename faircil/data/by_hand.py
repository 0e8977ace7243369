"""Files of a dataset that nothing downloads: a user puts them in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faircil.data.sources import FileStatus


@dataclass(frozen=True)
class ByHand:
    """Where such files belong, and whether they are there.

    Parameters
    ----------
    folder : str
        Name of their folder, in the folder of all datasets.
    about : str
        Citation and licence.
    check : callable
        Returns the state of each file; where one is not in order, its message says what to do.
    """

    folder: str
    about: str
    check: Callable[[], list[FileStatus]]
