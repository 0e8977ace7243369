from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import given, settings, strategies as st

from faircil import cache
from faircil.cache import KEY, EmbeddingStore, Keys, Recipe, Rows, cache_folder
from faircil.errors import StorageError
from faircil.text.embeddings import TextRecipe

RECIPE = Recipe("encoder", 3)
OF_TEXTS = TextRecipe("encoder", 3, "mean", 128, "float32", 16384)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def store(tmp_path: Path, said: list[str]) -> EmbeddingStore:
    return EmbeddingStore(tmp_path / "store", 3, said.append)


def rows_of(numbers: list[int]) -> Rows:
    return np.array([[n, n + 0.5, -n] for n in numbers], dtype=np.float32).reshape(-1, 3)


def add(store: EmbeddingStore, *numbers: int) -> None:
    with store.alone():
        store.append(keys_of(numbers), rows_of(list(numbers)))


def keys_of(numbers: Any) -> Keys:
    return RECIPE.keys(str(n).encode() for n in numbers)


def stored(store: EmbeddingStore, *numbers: int) -> list[int]:
    """Return which of the numbers are stored, after a check that their rows are right."""
    out = np.full((len(numbers), 3), np.nan, dtype=np.float32)
    found = store.read(keys_of(numbers), out, np.arange(len(numbers)))
    kept = [n for n, there in zip(numbers, found, strict=True) if there]
    assert np.array_equal(out[found], rows_of(kept))
    assert np.isnan(out[~found]).all()
    return kept


def shard_folders(store: EmbeddingStore) -> list[Path]:
    return sorted(store.folder.glob("shard-*"))


def test_nothing_is_stored_at_first_and_reading_makes_no_folder(store: EmbeddingStore) -> None:
    assert stored(store, 1, 2) == []
    assert not store.folder.exists()


def test_rows_come_back_from_several_shards(store: EmbeddingStore) -> None:
    add(store, 5, 1)
    add(store, 9)
    add(store, 3, 2, 7)
    assert stored(store, 2, 4, 9, 2, 1, 8, 7, 5) == [2, 9, 2, 1, 7, 5]


def test_rows_go_where_they_are_wanted(store: EmbeddingStore) -> None:
    add(store, 1, 2)
    out = np.zeros((5, 3), dtype=np.float32)
    store.read(keys_of([2, 1]), out, np.array([4, 0]))
    assert np.array_equal(out, [[1, 1.5, -1], [0] * 3, [0] * 3, [0] * 3, [2, 2.5, -2]])


@given(st.lists(st.lists(st.integers(0, 20), max_size=6), max_size=4), st.lists(st.integers(0, 25)))
@settings(max_examples=25, deadline=None)
def test_reading_is_a_lookup_in_a_dict(
    tmp_path_factory: pytest.TempPathFactory, added: list[list[int]], asked: list[int]
) -> None:
    store = EmbeddingStore(tmp_path_factory.mktemp("store"), 3, pytest.fail)
    for numbers in added:
        add(store, *numbers)
    known = {n for numbers in added for n in numbers}
    assert stored(store, *asked) == [n for n in asked if n in known]


def test_keys_with_zero_bytes_are_told_apart(store: EmbeddingStore) -> None:
    """numpy takes zero bytes at the end of such values for padding."""
    keys = np.frombuffer(b"a" + bytes(15) + bytes(16) + b"a" * 15 + b"\0", dtype=KEY)
    with store.alone():
        store.append(keys, rows_of([1, 2, 3]))
    out = np.zeros((3, 3), dtype=np.float32)
    assert store.read(keys[::-1], out, np.arange(3)).all()
    assert np.array_equal(out, rows_of([3, 2, 1]))


def test_every_part_of_the_recipe_makes_other_keys() -> None:
    others = [
        replace(OF_TEXTS, encoder="other"),
        replace(OF_TEXTS, pooling="cls"),
        replace(OF_TEXTS, max_tokens=64),
        replace(OF_TEXTS, precision="bfloat16"),
        replace(OF_TEXTS, width=4),
    ]
    keys = {recipe.keys_of(["text"]).tobytes() for recipe in (OF_TEXTS, *others)}
    assert len(keys) == 6
    assert OF_TEXTS.keys_of(["text"]) == OF_TEXTS.keys_of(["text"])


def test_any_text_has_a_key() -> None:
    texts = ["", " ", "é", "e\u0301", "\ud800", "日本", "\0"]
    assert len(set(OF_TEXTS.keys_of(texts).tolist())) == len(texts)


@pytest.mark.parametrize("file", ["keys.npy", "rows.npy", "shard.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone"])
def test_damaged_shard_is_named_and_dropped(
    store: EmbeddingStore, said: list[str], file: str, damage: str
) -> None:
    add(store, 1, 2)
    (bad,) = shard_folders(store)
    add(store, 3)
    content = bytearray((bad / file).read_bytes())
    if damage == "flip":
        content[-5] ^= 1
    content = {"flip": content, "cut": content[:-3], "empty": b"", "gone": b""}[damage]
    (bad / file).unlink()
    if damage != "gone":
        (bad / file).write_bytes(content)
    assert stored(store, 1, 2, 3) == [3]
    assert len(said) == 1
    assert str(bad) in said[0]
    assert "computed again" in said[0]
    assert not bad.exists()
    add(store, 1, 2)
    assert stored(store, 1, 2, 3) == [1, 2, 3]
    assert len(said) == 1


def test_rows_of_another_width_are_damage(store: EmbeddingStore, said: list[str]) -> None:
    add(store, 1)
    wider = replace(store, width=4)
    out = np.zeros((1, 4), dtype=np.float32)
    assert not wider.read(keys_of([1]), out, np.arange(1)).any()
    assert "expected (1, 4) and float32" in said[0]


def test_half_written_shard_is_ignored_and_removed(store: EmbeddingStore) -> None:
    add(store, 1)
    half = store.folder / ".partial-x"
    shutil.copytree(shard_folders(store)[0], half)
    assert stored(store, 1) == [1]
    assert half.exists()  # somebody may be writing it
    add(store, 2)
    assert not half.exists()
    assert stored(store, 1, 2) == [1, 2]


@pytest.mark.parametrize("failing", ["fsync", "rename", "mkdir"])
def test_full_disk_loses_nothing(
    store: EmbeddingStore, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    add(store, 1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with store.alone(), monkeypatch.context() as patch:
        patch.setattr(cache.os if failing == "fsync" else Path, failing, full)
        with pytest.raises(StorageError, match=r"No space left.*free space.*FAIRCIL_CACHE"):
            store.append(keys_of([2]), rows_of([2]))
    assert not list(store.folder.glob(".partial-*"))
    assert stored(store, 1, 2) == [1]
    add(store, 2)
    assert stored(store, 1, 2) == [1, 2]


def test_folder_that_cannot_be_made_is_an_error_for_the_user(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = EmbeddingStore(tmp_path / "file" / "store", 3, pytest.fail)
    assert stored(store, 1) == []
    with pytest.raises(StorageError, match="cannot store embeddings"), store.alone():
        pass


def test_full_store_can_be_read_without_the_lock(store: EmbeddingStore) -> None:
    add(store, 1)
    with FileLock(store.folder / ".lock"):
        assert stored(store, 1) == [1]


ADDING = """
import sys
from pathlib import Path
import numpy as np
from faircil.cache import EmbeddingStore, Recipe

recipe = Recipe("encoder", 3)
store = EmbeddingStore(Path(sys.argv[1]), 3, lambda _: None)
for n in range(int(sys.argv[2]), int(sys.argv[2]) + 10):
    with store.alone():
        store.append(recipe.keys([str(n).encode()]), np.array([[n, n + 0.5, -n]], dtype=np.float32))
"""


def test_several_processes_add_at_once(store: EmbeddingStore, said: list[str]) -> None:
    command = [sys.executable, "-c", ADDING, str(store.folder)]
    processes = [subprocess.Popen([*command, first]) for first in ("0", "10", "20")]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert stored(store, *range(30)) == list(range(30))
    assert said == []


def test_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FAIRCIL_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "embeddings"
    monkeypatch.delenv("FAIRCIL_CACHE")
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    assert tmp_path not in cache_folder().parents


def test_who_waits_for_another_process_says_so_at_once(
    store: EmbeddingStore, said: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    store.folder.mkdir(parents=True, exist_ok=True)
    held = threading.Event()

    def hold() -> None:
        with FileLock(store.folder / ".lock"):
            held.set()
            while "waiting" not in caplog.text:
                time.sleep(0.01)

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    with store.alone():
        other.join()
    assert f"another process is adding embeddings to {store.folder}; waiting" in caplog.text
    assert said == []
