"""Rows of tokens in chunks of bounded size: alike in length together, so that little is padding.

A chunk costs its rows times its longest row. Rows are taken from the longest to the shortest, so
the first row of a chunk tells how many fit, and the chunk that needs the most memory comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

STEP = 16  # tokens: widths of steady chunks are multiples of it


@dataclass(frozen=True)
class Chunk:
    """Rows that go through an encoder together.

    Parameters
    ----------
    rows : Tensor of int64, shape (r,)
    width : int
        Length of the longest, or more: columns beyond hold nothing but padding.
    spare : int
        Rows that are added, whatever they hold, for the chunk to have a certain shape.
    """

    rows: Tensor
    width: int
    spare: int = 0


def row_lengths(ids: Tensor, pad_id: int) -> Tensor:
    """Return the number of tokens of each row of ids, (n, L), up to the last that is no padding.

    A row of padding counts as one token: an encoder has to look at something.

    Returns
    -------
    Tensor of int32, shape (n,)
    """
    place = torch.arange(1, ids.shape[1] + 1, dtype=torch.int32, device=ids.device)
    return torch.where(ids != pad_id, place, 1).amax(dim=1)


def cut(lengths: Tensor, token_budget: int) -> list[Chunk]:
    """Share all rows among chunks of at most ``token_budget`` tokens, padding included.

    A row that is longer than the budget has a chunk of its own.

    Parameters
    ----------
    lengths : Tensor of int, shape (n,)
        On the CPU; at least 1.
    token_budget : int
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    widths = lengths[order].tolist()
    chunks, start = [], 0
    while start < len(widths):
        end = start + max(1, token_budget // widths[start])
        chunks.append(Chunk(order[start:end], widths[start]))
        start = end
    return chunks


def cut_steady(lengths: Tensor, token_budget: int, longest: int) -> list[Chunk]:
    """Share rows among chunks such that what becomes of a row depends on no other row.

    How a product of matrices is rounded depends on their shapes. Here the shape of a row's chunk is
    told by the length of the row: the next multiple of ``STEP``, and as many rows as that allows.

    Parameters
    ----------
    lengths : Tensor of int, shape (n,)
        On the CPU; at least 1.
    token_budget : int
    longest : int
        Widest chunk: the length that no row of any call exceeds.
    """
    widths = (-(-lengths // STEP) * STEP).clamp(max=longest)
    order = torch.argsort(widths, descending=True, stable=True)
    found, counts = torch.unique_consecutive(widths[order], return_counts=True)
    chunks = []
    for width, rows in zip(found.tolist(), torch.split(order, counts.tolist()), strict=True):
        size = max(1, token_budget // width)
        parts = torch.split(rows, size)
        chunks += [Chunk(part, width, size - len(part)) for part in parts]
    return chunks


def in_order(parts: Sequence[Tensor], chunks: Sequence[Chunk]) -> Tensor:
    """Join what was made of each chunk, (r, ...), in the order of the rows, (n, ...)."""
    place = torch.argsort(torch.cat([chunk.rows for chunk in chunks]))
    joined = torch.cat(list(parts))
    return joined.index_select(0, place.to(joined.device))
