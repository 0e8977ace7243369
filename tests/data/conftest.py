from __future__ import annotations

from collections.abc import Iterator

import pytest

from tiny_bios import in_place_of_the_sample, write_splits
from tiny_files import TinyFiles, in_place_of_the_real_ones


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyFiles]:
    folder = tmp_path_factory.mktemp("files")
    write_splits(folder)
    with in_place_of_the_real_ones(folder) as written, in_place_of_the_sample(folder):
        yield written
