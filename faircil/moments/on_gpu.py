"""Rows from host memory on a GPU, and sums of their features there.

Rows are copied part by part, while the GPU processes the previous part. A plain copy of pageable
memory runs at a seventh of the bus speed. So threads of the host copy a piece of rows into one of
two page-locked buffers, from which the GPU copies it on a separate stream. A part of several pieces
is passed on when it is complete; the next is then under way. Any number of rows, also of a
memory-mapped file, takes the memory of a few parts on the GPU and two pieces on the host.

Since a GPU is controlled kernel by kernel, rows are multiplied in chunks as large as memory allows,
one cell after another. ``φᵀφ`` of a chunk is computed panel by panel of the upper triangle.

- On devices where float64 products are as fast as float32 ones (``FULL_RATE``: they have matrix
  units for them), the chunk is multiplied in float64. The sums are then float64 sums, rounded
  once per call to the type of the moments.
- On other devices, and if the user has allowed TF32 (``torch.backends.cuda.matmul``), the chunk is
  multiplied in float32. A product then has a relative error of about 1e-7, with TF32 of about 2e-5.
  Products are added in float64, so that errors of chunks average out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from faircil.compute import chunks_of, free_memory
from faircil.samples import Samples

if TYPE_CHECKING:
    from faircil.moments.group_moments import Panels

PIECE = 2**27  # bytes of a page-locked buffer
PART = 2**31  # bytes that are on the GPU together, at most
OF_FREE = 32  # and at most one in this many of its free bytes: up to three parts exist at a time
COPYING = min(8, os.cpu_count() or 1)  # threads: more gain little


def on_device(samples: Samples, device: torch.device) -> Iterator[Samples]:
    """Yield samples on a device, in order: unchanged if already there, else part by part.

    Parameters
    ----------
    samples : Samples
    device : torch.device
    """
    if samples.x.device.type == device.type:
        yield samples.to(device)
        return
    # Copy labels at once and first: a copy of pageable memory waits for all pending GPU work.
    y = samples.y.to(device)
    z = None if samples.z is None else samples.z.to(device)
    for rows, x in parts_on(samples.x, device):
        yield Samples(x, y[rows], None if z is None else z[rows])


def parts_on(x: Tensor, device: torch.device) -> Iterator[tuple[slice, Tensor]]:
    """Yield rows of a tensor, (n, ...), with their slices, part by part on another device."""
    size = max(1, x[:1].numel() * x.element_size())
    free = free_memory(device)
    most = PART if free is None else max(1, min(PART, free // OF_FREE))
    parts = chunks_of(len(x), max(1, most // size))
    if device.type != "cuda":
        yield from ((rows, x[rows].to(device)) for rows in parts)
        return
    copier = _Copier(x, device, max(1, PIECE // size))
    with ThreadPoolExecutor(1, "faircil-staging") as ahead, copier.threads:
        coming = [ahead.submit(copier.part, rows) for rows in parts[:1]]
        for rows, following in zip_longest(parts, parts[1:]):
            part, there = coming.pop().result()
            if following is not None:
                coming.append(ahead.submit(copier.part, following))
            stream = torch.cuda.current_stream(device)
            stream.wait_event(there)
            part.record_stream(stream)  # its memory was allocated on the stream of the copies
            yield rows, part


class _Copier:
    """Copies rows to a GPU through two page-locked buffers.

    Parameters
    ----------
    x : Tensor, shape (n, ...)
        On the host.
    device : torch.device
        A CUDA device.
    rows : int
        Rows that fit in a buffer.
    """

    def __init__(self, x: Tensor, device: torch.device, rows: int) -> None:
        self.x, self.device, self.rows = x, device, min(rows, max(len(x), 1))
        shape = (self.rows, *x.shape[1:])
        self.buffers = [torch.empty(shape, dtype=x.dtype, pin_memory=True) for _ in range(2)]
        self.emptied = [torch.cuda.Event() for _ in self.buffers]  # type: ignore[no-untyped-call]
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # The number of threads inside an operation is thread-local.
        self.threads = ThreadPoolExecutor(COPYING, "faircil-copying", torch.set_num_threads, (1,))
        self.pieces = 0

    def part(self, rows: slice) -> tuple[Tensor, torch.cuda.Event]:
        """Return rows on the GPU, and the event that marks their arrival."""
        there = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self.stream):
            whole = torch.empty(
                (rows.stop - rows.start, *self.x.shape[1:]), dtype=self.x.dtype, device=self.device
            )
            for place in chunks_of(len(whole), self.rows):
                self._piece(self.x[rows][place], whole[place])
            there.record(self.stream)
        return whole, there

    def _piece(self, source: Tensor, target: Tensor) -> None:
        number = self.pieces % len(self.buffers)
        self.pieces += 1
        buffer, emptied = self.buffers[number][: len(source)], self.emptied[number]
        emptied.synchronize()  # its previous content is on the GPU
        shares = chunks_of(len(source), -(-len(source) // COPYING))
        copies = [self.threads.submit(buffer[own].copy_, source[own]) for own in shares]
        for copy in copies:
            copy.result()
        target.copy_(buffer, non_blocking=True)
        emptied.record(self.stream)


ROWS = 4096  # per product, at least
NUMBERS = 2**26  # features of a chunk, at most, unless ``ROWS`` needs more
FULL_RATE = {(8, 0), (9, 0)}  # compute capabilities of A100, H100 and similar devices


def rows_at_once(width: int) -> int:
    """Return the number of rows of the given width that are multiplied together."""
    return max(ROWS, NUMBERS // width)


def tf32_allowed() -> bool:
    """Whether the user allows float32 products on a GPU to round their factors to ten bits."""
    settings = torch.backends.cuda.matmul
    precision = getattr(settings, "fp32_precision", None)  # since torch 2.9
    return precision == "tf32" if precision is not None else bool(settings.allow_tf32)


def multiplies_wide(device: torch.device) -> bool:
    """Whether float64 products cost no more than float32 ones on this device."""
    if device.type != "cuda" or tf32_allowed():
        return False
    return torch.cuda.get_device_capability(device) in FULL_RATE


class WideSum:
    """First and second moments of one cell after another, in float64.

    Parameters
    ----------
    panels : Panels
        Layout of second moments in a flat array.
    device : torch.device
    wide : bool
        Whether products are in float64; otherwise they are in the type of the features.
    """

    def __init__(self, panels: Panels, device: torch.device, *, wide: bool) -> None:
        self.panels, self.wide = panels, wide
        self.first = torch.empty(panels.width, dtype=torch.float64, device=device)
        self.second = torch.empty(panels.size, dtype=torch.float64, device=device)

    def clear(self) -> None:
        """Reset the sums to zero."""
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
        """Add ``sign`` times the sums to those of a cell, (d,) and flat, rounding each once."""
        first.add_(self.first, alpha=sign)
        second.add_(self.second, alpha=sign)
