"""A shard: a folder of stored embeddings that appears whole or not at all.

``keys.npy`` (n,), 16 bytes per text; ``rows.npy`` (n, width), float32; ``shard.json``, the
checksums of both. A shard is written under a hidden name, brought to the disk and renamed; after
that nobody changes it. Anything else that is found under its name is damage.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from faircil.errors import StorageError

Keys = NDArray[np.bytes_]
Rows = NDArray[np.float32]
KEY = np.dtype("S16")
SHARD, PARTIAL = "shard-", ".partial-"
KEY_FILE, ROW_FILE, CHECKSUM_FILE = "keys.npy", "rows.npy", "shard.json"


class DamagedShardError(Exception):
    """A shard that is not as it was written; the message says how it shows."""


@dataclass(frozen=True)
class Shard:
    """An open shard; its rows stay on the disk until they are asked for.

    Parameters
    ----------
    folder : Path
    keys : ndarray of 16 bytes, shape (n,)
    checksum : int
        That ``rows.npy`` should have.
    """

    folder: Path
    keys: Keys
    checksum: int

    def rows(self) -> Rows:
        """Return the rows, (n, width), mapped from the disk, their checksum compared."""
        content = np.memmap(self.folder / ROW_FILE, dtype=np.uint8, mode="r")
        if zlib.crc32(content.data) != self.checksum:
            raise DamagedShardError(f"the checksum of {ROW_FILE} is another one")
        rows: Rows = np.load(self.folder / ROW_FILE, mmap_mode="r", allow_pickle=False)
        return rows


def write_shard(parent: Path, keys: Keys, rows: Rows) -> None:
    """Add a shard to the folder ``parent``.

    Raises
    ------
    StorageError
        If it cannot be written, such as on a full disk. What was there before is untouched.
    """
    name = uuid4().hex
    partial = parent / f"{PARTIAL}{name}"
    try:
        partial.mkdir(parents=True)
        checksums = {
            file: _write(partial / file, _as_npy(array))
            for file, array in ((KEY_FILE, keys), (ROW_FILE, rows))
        }
        _write(partial / CHECKSUM_FILE, json.dumps({"crc32": checksums}).encode())
        _sync_folder(partial)
        partial.rename(parent / f"{SHARD}{name}")
        _sync_folder(parent)
    except OSError as error:
        raise cannot_write(parent, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def open_shard(folder: Path, width: int) -> Shard:
    """Open a shard and make sure of its keys; the rows are checked when they are read."""
    try:
        checksums = json.loads((folder / CHECKSUM_FILE).read_bytes())["crc32"]
        content = (folder / KEY_FILE).read_bytes()
        if zlib.crc32(content) != checksums[KEY_FILE]:
            raise DamagedShardError(f"the checksum of {KEY_FILE} is another one")
        keys: Keys = np.load(io.BytesIO(content), allow_pickle=False)
        rows = np.load(folder / ROW_FILE, mmap_mode="r", allow_pickle=False)
        checksum = int(checksums[ROW_FILE])
    except FileNotFoundError as error:
        raise DamagedShardError(f"{Path(error.filename).name} is missing") from None
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise DamagedShardError(f"{error}") from None
    if rows.shape != (len(keys), width) or rows.dtype != np.float32:
        raise DamagedShardError(
            f"{ROW_FILE} has shape {rows.shape} and type {rows.dtype}, expected "
            f"({len(keys)}, {width}) and float32"
        )
    return Shard(folder, keys, checksum)


def cannot_write(folder: Path, error: OSError) -> StorageError:
    """Return the error for embeddings that find no place."""
    return StorageError(
        f"cannot keep embeddings in {folder}: {error.strerror or error}; free space or check your "
        "rights there, or set FAIRCIL_CACHE to another folder. Those kept so far stay, and the "
        "next call goes on from them"
    )


def _as_npy(array: Keys | Rows) -> bytes:
    # Not straight into the file: numpy writes past Python there, and its error on a full disk
    # does not say that the disk is full.
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> int:
    """Write a file down to the disk and return its checksum."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return zlib.crc32(content)


def _sync_folder(folder: Path) -> None:
    """Bring names to the disk: a rename may otherwise be lost with the power."""
    if os.name == "posix":  # other systems cannot open a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
