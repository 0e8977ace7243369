"""``SHA256SUMS`` of a run folder: whether its files are still what the run has written.

The format is that of ``sha256sum``, so that ``sha256sum -c SHA256SUMS`` checks them as well.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from faircil.digests import file_digest
from faircil.errors import DataError

FILE = "SHA256SUMS"


def write_checksums(folder: Path) -> None:
    """Write the sums of all files in a folder."""
    lines = [f"{file_digest(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    (folder / FILE).write_text("".join(lines), encoding="utf-8")


def check_checksums(folder: Path, names: Collection[str]) -> None:
    """Raise if one of these files of a folder has changed, or is gone, since it was written."""
    try:
        lines = (folder / FILE).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        raise DataError(f"{folder} has no readable {FILE}, so it cannot be checked") from None
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    changed = [
        name
        for name in names
        if not (folder / name).is_file() or file_digest(folder / name) != sums.get(name)
    ]
    if changed:
        raise DataError(f"{folder} was altered after it was written: {', '.join(changed)}")
