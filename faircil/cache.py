"""A disk cache of embeddings of texts and image files, keyed by recipe and content.

An embedding is determined by a *recipe* (encoder, pooling, …) and a text or an image. Each recipe
has an append-only folder of shards. There is no index on disk that could disagree with the shards:
the keys of 250,000 texts take 4 MB, which are read and sorted in a fraction of a second.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from faircil.errors import StorageError
from faircil.files import expanded, locked, make_private, open_private

Keys = NDArray[np.bytes_]
Rows = NDArray[np.float32]
KEY = np.dtype("S16")
SHARD, PARTIAL = "shard-", ".partial-"
KEY_FILE, ROW_FILE, CHECKSUM_FILE = "keys.npy", "rows.npy", "shard.json"
logger = logging.getLogger(__name__)
Index = NDArray[np.intp]


class DamagedShardError(Exception):
    """A damaged shard; the message describes the damage."""


@dataclass(frozen=True)
class Shard:
    """An open shard; its rows are read on demand.

    Parameters
    ----------
    folder : Path
    keys : ndarray of 16 bytes, shape (n,)
    checksum : int
        Expected checksum of ``rows.npy``.
    """

    folder: Path
    keys: Keys
    checksum: int

    def rows(self) -> Rows:
        """Return the rows, (n, width), memory-mapped, after checking their checksum."""
        content = np.memmap(self.folder / ROW_FILE, dtype=np.uint8, mode="r")
        if zlib.crc32(content.data) != self.checksum:
            raise DamagedShardError(f"the checksum of {ROW_FILE} does not match")
        rows: Rows = np.load(self.folder / ROW_FILE, mmap_mode="r", allow_pickle=False)
        return rows


def write_shard(parent: Path, keys: Keys, rows: Rows) -> None:
    """Add a shard to the folder ``parent``.

    Raises
    ------
    StorageError
        If it cannot be written, for example on a full disk. Existing shards are unchanged.
    """
    name = uuid4().hex
    partial = parent / f"{PARTIAL}{name}"
    try:
        make_private(partial)
        checksums = {
            file: _write(partial / file, _as_npy(array))
            for file, array in ((KEY_FILE, keys), (ROW_FILE, rows))
        }
        _write(partial / CHECKSUM_FILE, _as_checksums(checksums))
        _sync_folder(partial)
        partial.rename(parent / f"{SHARD}{name}")
        _sync_folder(parent)
    except OSError as error:
        raise cannot_write(parent, error) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def open_shard(folder: Path, width: int) -> Shard:
    """Open a shard and check its keys; the rows are checked when they are read."""
    try:
        told = (folder / CHECKSUM_FILE).read_bytes()
        checksums = json.loads(told)["crc32"]
        if told != _as_checksums(checksums):
            raise DamagedShardError(f"{CHECKSUM_FILE} was altered")
        content = (folder / KEY_FILE).read_bytes()
        if zlib.crc32(content) != checksums[KEY_FILE]:
            raise DamagedShardError(f"the checksum of {KEY_FILE} does not match")
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
    """Return the error for embeddings that cannot be stored."""
    return StorageError(
        f"cannot store embeddings in {folder}: {error.strerror or error}; free space or check "
        "your permissions there, or set FAIRCIL_CACHE to another folder. Stored ones remain, and "
        "the next call continues from them"
    )


def _as_checksums(checksums: object) -> bytes:
    return json.dumps({"crc32": checksums}).encode()


def _as_npy(array: Keys | Rows) -> bytes:
    # Not directly into the file: numpy's own error on a full disk does not state the cause.
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _write(path: Path, content: bytes) -> int:
    """Write a file, flush it to disk, and return its checksum."""
    with open_private(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return zlib.crc32(content)


def _sync_folder(folder: Path) -> None:
    """Flush directory entries: a rename may otherwise be lost in a power failure."""
    if os.name == "posix":  # other systems cannot open folders
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def cache_folder() -> Path:
    """Return the folder of all embeddings: ``FAIRCIL_CACHE``, or the platform's cache.

    Not ``FAIRCIL_DATA``, which is often shared and read-only.
    """
    chosen = os.environ.get("FAIRCIL_CACHE")
    folder = expanded(chosen, "FAIRCIL_CACHE") if chosen else user_cache_path("faircil")
    return folder.absolute() / "embeddings"


@dataclass(frozen=True)
class Recipe:
    """Everything except the content that determines an embedding.

    Fields of subclasses are part of it as well.

    Parameters
    ----------
    encoder : str
        Digest of the encoder's files.
    width : int
        Dimension of an embedding.
    """

    encoder: str
    width: int

    @property
    def digest(self) -> bytes:
        """Digest of the recipe, 32 bytes."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=32).digest()

    def keys(self, contents: Iterable[bytes]) -> Keys:
        """Return the keys of contents, shape (n,), 16 bytes each."""
        secret = self.digest

        def key(content: bytes) -> bytes:
            return hashlib.blake2b(content, digest_size=KEY.itemsize, key=secret).digest()

        return np.frombuffer(b"".join(map(key, contents)), dtype=KEY)


@dataclass(frozen=True)
class EmbeddingProgress:
    """Progress of embedding new texts or images.

    Parameters
    ----------
    rows, total : int
        Numbers embedded so far and in total, without cached and repeated ones.
    tokens : int or None
        Tokens of texts processed so far, without padding; None for images.
    seconds : float
    """

    rows: int
    total: int
    tokens: int | None
    seconds: float

    @property
    def speed(self) -> str:
        """The speed, for display."""
        if self.tokens is None:
            return f"{self.rows / self.seconds:,.1f} images/s"
        return f"{self.tokens / self.seconds:,.0f} tokens/s"


class Compute(Protocol):
    """Computes embeddings; calls ``keep(rows)`` whenever those of some rows are finished."""

    def __call__(self, missing: Index, out: Rows, keep: Callable[[Index], None], /) -> None:
        """Write the embeddings of rows ``missing`` to ``out[missing]``, in any order."""


def cached_rows(
    recipe: Recipe,
    keys: Keys,
    cache: Path | None,
    compute: Compute,
    report: Callable[[str], None] = lambda _: None,
) -> Rows:
    """Return an embedding for each key: those in the cache are read, the others are computed.

    Parameters
    ----------
    recipe : Recipe
    keys : ndarray of 16 bytes, shape (n,)
        From :meth:`Recipe.keys`. Repeated keys are computed once.
    cache : Path or None
        Folder of all embeddings, see :func:`cache_folder`; None: no cache.
    compute : callable
        Called at most once; rows that it keeps are stored immediately and durably.
    report : callable
        Receives messages about damaged parts of the cache.

    Returns
    -------
    ndarray of float32, shape (n, recipe.width)
    """
    _, first, same = np.unique(keys, return_index=True, return_inverse=True)
    wanted = np.sort(first)
    out = np.empty((len(keys), recipe.width), dtype=np.float32)
    if cache is None:
        compute(wanted, out, lambda _: None)
    else:
        store = EmbeddingStore(cache / recipe.digest.hex()[:32], recipe.width, report)
        missing = wanted[~store.read(keys[wanted], out, wanted)]
        if len(missing) > 0:
            with store.alone():
                # Another process may have embedded them in the meantime.
                missing = missing[~store.read(keys[missing], out, missing)]
                compute(missing, out, lambda rows: store.append(keys[rows], out[rows]))
    original = first[same]
    copies = np.flatnonzero(original != np.arange(len(keys)))
    out[copies] = out[original[copies]]
    return out


@dataclass(frozen=True)
class EmbeddingStore:
    """The stored embeddings of one recipe.

    Parameters
    ----------
    folder : Path
        Created when the first embedding is stored.
    width : int
        Dimension of an embedding.
    report : callable
        Receives a message about a damaged shard.
    """

    folder: Path
    width: int
    report: Callable[[str], None]

    def read(self, keys: Keys, out: Rows, rows: Index) -> NDArray[np.bool_]:
        """Copy the stored row of ``keys[i]`` to ``out[rows[i]]``; return which i were found.

        Takes additional memory for the keys and one shard only.
        """
        found = np.zeros(len(keys), dtype=bool)
        shards = self._shards()
        if not shards:
            return found
        stored = np.concatenate([shard.keys for shard in shards])
        starts = np.cumsum([0, *(len(shard.keys) for shard in shards[:-1])])
        order = np.argsort(stored, kind="stable")
        ordered = stored[order]
        # A key beyond the last one is compared with the last one and differs from it.
        near = np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)
        hits = np.flatnonzero(ordered[near] == keys)
        places = order[near[hits]]
        by_place = np.argsort(places, kind="stable")
        hits, places = hits[by_place], places[by_place]
        cuts = np.searchsorted(places, starts[1:])
        for shard, start, mine, at in zip(
            shards, starts, np.split(hits, cuts), np.split(places, cuts), strict=True
        ):
            if len(mine) == 0:
                continue
            try:
                out[rows[mine]] = shard.rows()[at - start]
            except (DamagedShardError, FileNotFoundError) as error:
                self._drop(shard.folder, error)
            else:
                found[mine] = True
        return found

    def append(self, keys: Keys, rows: Rows) -> None:
        """Store rows, (n, width), durably. Call it within :meth:`alone`."""
        if len(keys) > 0:
            write_shard(self.folder, keys, rows)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the store, so that one process at a time computes and adds embeddings.

        The lock is released when its process ends for any reason. Partial shards found under the
        lock are therefore left by dead processes and removed.
        """

        def waiting() -> None:
            logger.warning(
                "another process is adding embeddings to %s; waiting for it", self.folder
            )

        with ExitStack() as lock:
            try:
                lock.enter_context(locked(self.folder / ".lock", waiting))
            except OSError as error:
                raise cannot_write(self.folder, error) from None
            for partial in self.folder.glob(f"{PARTIAL}*"):
                shutil.rmtree(partial, ignore_errors=True)
            yield

    def _shards(self) -> list[Shard]:
        shards = []
        for folder in sorted(self.folder.glob(f"{SHARD}*")):
            try:
                shards.append(open_shard(folder, self.width))
            except DamagedShardError as error:
                self._drop(folder, error)
            except OSError as error:
                raise StorageError(
                    f"{folder} cannot be read: {error.strerror or error}; check your permissions "
                    "there, or set FAIRCIL_CACHE to another folder"
                ) from None
        return shards

    def _drop(self, folder: Path, error: Exception) -> None:
        self.report(f"{folder} is damaged ({error}); it is removed and computed again")
        # Rename first, so that a process killed during removal leaves no partial shard.
        hidden = folder.with_name(f"{PARTIAL}{folder.name}")
        with suppress(OSError):
            folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)
