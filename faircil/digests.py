"""SHA-256 of files."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


def file_digest(path: Path) -> str:
    """Return the hash of what is in a file now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kept_digest(path: Path) -> str:
    """Return the hash of a file, which may be large, and read it once as long as it is not written.

    To tell one input from another; whoever looks for damage takes :func:`file_digest`.
    """
    state = path.stat()
    return _kept(path.absolute(), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _kept(path: Path, written: int, size: int) -> str:
    del written, size
    return file_digest(path)
