"""Cholesky factors and inverses of symmetric matrices, on several threads or on a GPU."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from faircil.compute import chunks_of, share_tasks
from faircil.errors import DataError

BLOCK = 128  # rows and columns of a triangle that are inverted together
# On a GPU: rows from which products are faster than the library's solver, rows that are left to the
# solver, and parts of the whole that are multiplied as full matrices.
MANY, LEFT, PARTS = 4096, 1024, 16


def cholesky(matrix: Tensor) -> Tensor:
    """Return the lower Cholesky factor; raise a DataError if there is none."""
    factor: Tensor
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        wide, failed = torch.linalg.cholesky_ex(matrix.double())
        factor = wide.to(matrix.dtype)
    if int(failed):
        raise DataError(
            "the moments are singular: features are too collinear for this penalty; choose a "
            "larger `ridge`, such as .01, or fewer features with `width`"
        )
    return factor


def inverse_of(factor: Tensor, *, threads: bool) -> Tensor:
    """Return ``(L Lᵀ)⁻¹`` for a lower Cholesky factor L, (d, d).

    With X = L⁻¹, it is XᵀX. Blocks of columns of X are independent of each other, and so are blocks
    of rows of XᵀX: threads share them without waiting, and their number does not affect the result.
    """
    if factor.device.type != "cpu" and len(factor) >= MANY:
        return inverse_by_products(factor)
    if not threads:
        return torch.cholesky_inverse(factor)
    blocks = chunks_of(len(factor), BLOCK)
    eye = torch.eye(BLOCK, dtype=factor.dtype)
    diagonal = [
        torch.linalg.solve_triangular(
            factor[k, k], eye[: k.stop - k.start, : k.stop - k.start], upper=False
        )
        for k in blocks
    ]
    lower, found = (factor.new_zeros(factor.shape) for _ in range(2))

    def invert(number: int) -> None:
        # X_ij = −X_ii Σ_k L_ik X_kj over j ≤ k < i: each k adds its contribution to all rows below.
        column = lower[:, blocks[number]]
        column[blocks[number]] = diagonal[number]
        for k, i in pairwise(range(number, len(blocks))):
            rows, below = blocks[k], blocks[i]
            column[below.start :].addmm_(factor[below.start :, rows], column[rows], alpha=-1)
            column[below] = diagonal[i] @ column[below]

    def multiply(number: int) -> None:
        own = blocks[number]
        panel = found[own, own.start :]
        for rows in blocks[number:]:
            here = lower[rows, own.start : rows.stop]
            panel[:, : rows.stop - own.start].addmm_(here[:, : own.stop - own.start].T, here)
        found[own.stop :, own] = panel[:, own.stop - own.start :].T

    share_tasks(invert, range(len(blocks)), threads=True)
    share_tasks(multiply, range(len(blocks)), threads=True)
    return found


def inverse_by_products(factor: Tensor) -> Tensor:
    """Return ``(L Lᵀ)⁻¹`` for a lower Cholesky factor L, (d, d), by large products.

    With X = L⁻¹, it is XᵀX. By halves, ``X₂₁ = −X₂₂ (L₂₁ X₁₁)``. Zero blocks of triangles are
    skipped, so it takes a third of the operations of solving for all columns of the identity.
    """
    size = max(BLOCK, len(factor) // PARTS)
    lower = torch.zeros_like(factor)
    _invert(factor, lower, size)
    found = torch.empty_like(factor)
    for own in chunks_of(len(factor), size):
        found[: own.stop, own] = lower[own.start :, : own.stop].T @ lower[own.start :, own]
        found[own, : own.start] = found[: own.start, own].T
    return found


def _invert(factor: Tensor, lower: Tensor, size: int) -> None:
    """Write L⁻¹ of a lower triangle L, (m, m), into zeros of the same shape."""
    if len(factor) <= LEFT:
        eye = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
        lower.copy_(torch.linalg.solve_triangular(factor, eye, upper=False))
        return
    middle = len(factor) // 2
    first, second = slice(0, middle), slice(middle, None)
    right, left = lower[first, first], lower[second, second]
    _invert(factor[first, first], right, size)
    _invert(factor[second, second], left, size)
    below, target = factor[second, first], lower[second, first]
    product = torch.empty_like(below)
    for part in chunks_of(len(right), size):
        product[:, part] = below[:, part.start :] @ right[part.start :, part]
    for part in chunks_of(len(left), size):
        target[part] = (left[part, : part.stop] @ product[: part.stop]).neg_()
