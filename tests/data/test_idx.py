from __future__ import annotations

import numpy as np
import pytest

from faircil.data.images import read_idx
from faircil.errors import DataError


def test_values_come_in_the_shape_of_the_header() -> None:
    header = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3])
    array = read_idx(header + bytes(range(6)))
    np.testing.assert_array_equal(array, [[0, 1, 2], [3, 4, 5]])
    assert array.dtype == np.uint8
    assert array.flags.writeable


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an idx file"),
        (b"\x1f\x8b\x08\x00 packed", "starts with '1f 8b 08 00'"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "not an idx file of bytes"),
        (bytes([0, 0, 8, 0, 7]), "not an idx file"),
        (bytes([0, 0, 8, 3, 0, 0]), "has 6 bytes, expected at least 16"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 2, 7]), r"holds 1 values, expected 2 for its shape \(2,\)"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 1, 7, 7]), "holds 2 values, expected 1"),
    ],
)
def test_anything_else_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_idx(content)
