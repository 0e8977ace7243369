from __future__ import annotations

from pathlib import Path

import pytest

from faircil.errors import UsageError
from faircil.files import expanded


def test_the_home_folder_takes_the_place_of_its_sign() -> None:
    assert expanded("~/x", "it") == Path.home() / "x"
    assert expanded("x", "it") == Path("x")


def test_a_home_folder_that_is_not_there_is_named_with_what_it_is_for() -> None:
    with pytest.raises(UsageError, match="FAIRCIL_CACHE is '~nobody-at-all/x', and there is no"):
        expanded("~nobody-at-all/x", "FAIRCIL_CACHE")
