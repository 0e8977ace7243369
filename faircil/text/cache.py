"""Embeddings kept on disk by content: whoever embeds a text again finds it there.

What decides an embedding is a *recipe* (encoder, pooling, …) and the text. Each recipe has a folder
of shards to which rows are only ever added. There is no index on the disk that could disagree with
the shards: the keys of 250,000 texts are 4 MB, read and sorted in a fraction of a second.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from platformdirs import user_cache_path

from faircil.errors import StorageError
from faircil.paths import expanded
from faircil.text.shards import (
    KEY,
    PARTIAL,
    SHARD,
    DamagedShardError,
    Keys,
    Rows,
    Shard,
    cannot_write,
    open_shard,
    write_shard,
)

logger = logging.getLogger(__name__)

Index = NDArray[np.intp]


def cache_folder() -> Path:
    """Return the folder of all embeddings: ``FAIRCIL_CACHE``, else the platform's cache.

    Not ``FAIRCIL_DATA``: data is read, often from a place that many share and nobody may write.
    """
    chosen = os.environ.get("FAIRCIL_CACHE")
    folder = expanded(chosen, "FAIRCIL_CACHE") if chosen else user_cache_path("faircil")
    return folder.absolute() / "embeddings"


@dataclass(frozen=True)
class Recipe:
    """What decides an embedding beside the text.

    Parameters
    ----------
    encoder : str
        Digest of the encoder's weights and tokenizer.
    pooling : str
    max_tokens : int
        Longer texts are cut.
    precision : str
        Number format of the forward pass: half precision gives other values.
    token_budget : int
        Shapes of the products inside of the encoder, and so the last bits, depend on it.
    width : int
        Of an embedding.
    version : int
        Of the code between a text and its embedding; raised by hand when that changes.
    """

    encoder: str
    pooling: str
    max_tokens: int
    precision: str
    token_budget: int
    width: int
    version: int = 2

    @property
    def digest(self) -> bytes:
        """32 bytes that no other recipe has."""
        text = json.dumps(asdict(self), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=32).digest()

    def keys(self, texts: Iterable[str]) -> Keys:
        """Return the keys of texts, shape (n,), 16 bytes each."""
        secret = self.digest

        def key(text: str) -> bytes:
            content = text.encode("utf-8", "surrogatepass")  # a lone surrogate is a text, too
            return hashlib.blake2b(content, digest_size=KEY.itemsize, key=secret).digest()

        return np.frombuffer(b"".join(map(key, texts)), dtype=KEY)


@dataclass(frozen=True)
class EmbeddingStore:
    """The embeddings of one recipe on the disk.

    Parameters
    ----------
    folder : Path
        Made when the first embedding is kept.
    width : int
        Of an embedding.
    report : callable
        Takes one sentence, of a damaged shard.
    """

    folder: Path
    width: int
    report: Callable[[str], None]

    def read(self, keys: Keys, out: Rows, rows: Index) -> NDArray[np.bool_]:
        """Put what is stored for ``keys[i]`` into ``out[rows[i]]``; return for which i it is.

        Memory beyond ``out`` is that of the keys and one shard.
        """
        found = np.zeros(len(keys), dtype=bool)
        shards = self._shards()
        if not shards:
            return found
        stored = np.concatenate([shard.keys for shard in shards])
        starts = np.cumsum([0, *(len(shard.keys) for shard in shards[:-1])])
        order = np.argsort(stored, kind="stable")
        ordered = stored[order]
        # A key beyond the last finds the last, which is another one.
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
        """Keep more rows, (n, width); they are safe when this returns. Inside :meth:`alone`."""
        if len(keys) > 0:
            write_shard(self.folder, keys, rows)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let one process at a time add embeddings, so that none are computed twice.

        The lock goes with the process that holds it, however it ends. So whoever gets it knows
        that what is half written belongs to a dead process, and removes it.
        """
        lock = FileLock(self.folder / ".lock")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                logger.warning(
                    "another process adds embeddings to %s; waiting until it is done", self.folder
                )
                lock.acquire()
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        try:
            for partial in self.folder.glob(f"{PARTIAL}*"):
                shutil.rmtree(partial, ignore_errors=True)
            yield
        finally:
            lock.release()

    def _shards(self) -> list[Shard]:
        shards = []
        for folder in sorted(self.folder.glob(f"{SHARD}*")):
            try:
                shards.append(open_shard(folder, self.width))
            except DamagedShardError as error:
                self._drop(folder, error)
            except OSError as error:
                raise StorageError(
                    f"{folder} cannot be read: {error.strerror or error}; check your rights there, "
                    "or set FAIRCIL_CACHE to another folder"
                ) from None
        return shards

    def _drop(self, folder: Path, error: Exception) -> None:
        self.report(f"{folder} is damaged ({error}); it is removed and its texts embedded anew")
        # Out of sight first: a process that is killed while it removes leaves no half shard.
        hidden = folder.with_name(f"{PARTIAL}{folder.name}")
        with suppress(OSError):
            folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)
