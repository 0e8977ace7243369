from __future__ import annotations

from collections.abc import Iterator

import pytest
from tiny_files import TinyFiles, in_place_of_the_real_ones


@pytest.fixture(scope="module")
def tiny_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TinyFiles]:
    with in_place_of_the_real_ones(tmp_path_factory.mktemp("files")) as written:
        yield written
