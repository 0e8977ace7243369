"""The idx format of MNIST: a small header, then the values."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from faircil.errors import DataError


def read_idx(content: bytes) -> NDArray[np.uint8]:
    """Return the array of an unpacked idx file of bytes.

    Parameters
    ----------
    content : bytes
        Two zero bytes, the type (8: unsigned bytes), the number of dimensions, each dimension as a
        big-endian 32-bit number, then the values.

    Returns
    -------
    ndarray of uint8
        With the shape that the header states, for MNIST (n, 28, 28) or (n,). It can be written to.

    Raises
    ------
    DataError
        If this is not such a file.

    Examples
    --------
    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    array([7, 9], dtype=uint8)
    """
    if len(content) < 4 or content[:3] != b"\x00\x00\x08" or content[3] == 0:
        raise DataError(
            f"not an idx file of bytes: it starts with '{content[:4].hex(' ')}', expected "
            "'00 00 08' and the number of dimensions; give an unpacked idx file"
        )
    header = 4 + 4 * content[3]
    if len(content) < header:
        raise DataError(
            f"an idx file that ends in its header: it has {len(content)} bytes, expected at least "
            f"{header}; get the file again"
        )
    shape = tuple(int(size) for size in np.frombuffer(content[4:header], dtype=">u4"))
    if len(content) - header != math.prod(shape):
        raise DataError(
            f"an idx file of the wrong length: it holds {len(content) - header} values, expected "
            f"{math.prod(shape)} for its shape {shape}; get the file again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape).copy()
