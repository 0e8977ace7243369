"""Sums of a cell on a GPU: products of many rows at once, added up in float64.

A GPU is told what to do kernel by kernel, so rows come in chunks as large as memory allows, one
cell after another. ``φᵀφ`` of a chunk is computed panel by panel of the upper triangle.

- Where products of float64 are as fast as those of float32 (``FULL_RATE``: there are matrix units
  for them), the chunk is multiplied in float64. Sums are then those of float64, rounded once for
  each call to the type in which moments are kept.
- Elsewhere, and where the user has allowed TF32 (``torch.backends.cuda.matmul``), the chunk is
  multiplied in float32. A product has an error of about 1e-7 of it then, with TF32 of about 2e-5,
  and products are added up in float64, so that errors of chunks average out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from faircil.moments.group_moments import Panels

ROWS = 4096  # per product, at least
NUMBERS = 2**26  # features of a chunk, at most where that is more rows
FULL_RATE = {(8, 0), (9, 0)}  # compute capabilities of A100 and H100, and what is built like them


def rows_at_once(width: int) -> int:
    """Return how many rows of so many features are multiplied together."""
    return max(ROWS, NUMBERS // width)


def tf32_allowed() -> bool:
    """Whether the user lets products of float32 on a GPU round their factors to ten bits."""
    settings = torch.backends.cuda.matmul
    precision = getattr(settings, "fp32_precision", None)  # what torch has from 2.9 on
    return precision == "tf32" if precision is not None else bool(settings.allow_tf32)


def multiplies_wide(device: torch.device) -> bool:
    """Whether products in float64 cost no more than those in float32 on this device."""
    if device.type != "cuda" or tf32_allowed():
        return False
    return torch.cuda.get_device_capability(device) in FULL_RATE


class WideSum:
    """First and second moments of one cell after another, in float64.

    Parameters
    ----------
    panels : Panels
        How second moments lie in a flat array.
    device : torch.device
    wide : bool
        Whether products are in float64, too; else they are in the type of the features.
    """

    def __init__(self, panels: Panels, device: torch.device, *, wide: bool) -> None:
        self.panels, self.wide = panels, wide
        self.first = torch.empty(panels.width, dtype=torch.float64, device=device)
        self.second = torch.empty(panels.size, dtype=torch.float64, device=device)

    def clear(self) -> None:
        """Begin with no row."""
        self.first.zero_()
        self.second.zero_()

    def add(self, phi: Tensor) -> None:
        """Add rows of features, (m, d)."""
        self.first += phi.sum(dim=0, dtype=torch.float64)
        phi = phi.double() if self.wide else phi
        for columns, panel in self.panels.of(self.second):
            left, right = phi[:, columns].T, phi[:, columns.start :]
            if self.wide:
                panel.addmm_(left, right)
            else:
                panel += left @ right

    def move(self, first: Tensor, second: Tensor, sign: int) -> None:
        """Add ``sign`` times the sums to those of a cell, (d,) and flat: one rounding for each."""
        first.add_(self.first, alpha=sign)
        second.add_(self.second, alpha=sign)
