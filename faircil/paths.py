"""Paths as users write them."""

from __future__ import annotations

from pathlib import Path

from faircil.errors import UsageError


def expanded(path: str | Path, what: str) -> Path:
    """Return a path with the home folder in place of ``~``.

    Parameters
    ----------
    path : str or Path
    what : str
        What it is, for the message if there is no such home folder.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UsageError(
            f"{what} is '{path}', and there is no such home folder; write the whole path"
        ) from None
