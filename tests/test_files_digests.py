from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from faircil import files
from faircil.files import file_digest, kept_digest


def test_the_hash_is_that_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    expected = hashlib.sha256(b"content").hexdigest()
    assert file_digest(path) == kept_digest(path) == expected


def test_a_file_is_read_once_as_long_as_it_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"one")
    first = kept_digest(path)
    with monkeypatch.context() as patched:
        patched.setattr(files, "file_digest", None)  # would fail if it were called
        assert kept_digest(path) == first
    path.write_bytes(b"two")
    os.utime(path, ns=(0, 0))
    assert kept_digest(path) == hashlib.sha256(b"two").hexdigest()
