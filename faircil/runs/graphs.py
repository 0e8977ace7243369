"""Training steps recorded and replayed as CUDA graphs.

A step of a small net consists of some sixty kernels of a few microseconds each, that of a large
encoder of more than a thousand: the GPU waits for the host to launch them. Once recorded, they are
launched together; only the batch is copied to the memory that the recorded kernels read. The
kernels, and so the results, are the same.

A net that changes the shapes of its inputs, such as an encoder of texts of any length, has a
:class:`faircil.nets.Recording`: its steps are recorded by layout, for several layouts.
"""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from faircil.compute import free_memory
from faircil.learners.base import Batch, Learner
from faircil.nets import LayoutUse, traits_of
from faircil.samples import Samples

WARM_UP = 3  # ordinary steps first, which allocate the state of the optimizer and the libraries
AGAIN = 1  # and before another layout is recorded, as libraries choose kernels for its shapes
MOST = 8  # recordings of a net with layouts; they share memory
Arrays = tuple[Tensor | None, ...]
Shapes = tuple[tuple[int, ...] | None, ...]
Key = tuple[Shapes, Any]


@dataclass(frozen=True)
class Recorded:
    """A recorded step.

    Parameters
    ----------
    graph : torch.cuda.CUDAGraph
    static : tuple of Tensor or None
        The memory from which it reads its batch.
    """

    graph: torch.cuda.CUDAGraph
    static: Arrays


class GraphedStep:
    """Performs the steps of one task, recording and replaying those that recur.

    For a plain net, the first recurring batch shape is recorded; batches of other shapes, such as
    the last one of an epoch, take ordinary steps. For a net with layouts, up to ``MOST`` layouts
    are recorded. A recording needs as much memory as a step; if this is not available, steps are
    not recorded.

    Parameters
    ----------
    learner : Learner
        On a CUDA device, in the task for which its current optimizer was created.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._recording = traits_of(learner.net).recording
        self._most = 1 if self._recording is None else MOST
        self._seen: Counter[Key] = Counter()
        self._recorded: dict[Key, Recorded] = {}

    @property
    def recorded(self) -> int:
        """Number of recorded steps."""
        return len(self._recorded)

    def __call__(self, batch: Batch) -> None:
        """Update the net once."""
        batch = self._learner.prepared(batch)
        arrays = _arrays(batch)
        shapes = tuple(None if array is None else tuple(array.shape) for array in arrays)
        layout = self._layout(batch, shapes)
        if self._recording is not None and layout is None:
            self._learner.step(batch)
            return
        key = (shapes, layout)
        if key not in self._recorded:
            self._seen[key] += 1
            warm = AGAIN if self._recorded else WARM_UP
            if self._seen[key] <= warm or not self._room(batch.rows.device):
                self._aside(batch, layout)
                return
            if not self._record(arrays, key):
                self._aside(batch, layout)
                return
        self._replay(self._recorded[key], arrays)

    def _layout(self, batch: Batch, shapes: Shapes) -> Any:
        """Return the batch's layout if the net has layouts; None if its step cannot be recorded."""
        if self._recording is None or not self._most:
            return None
        known = [layout for other, layout in self._recorded if other == shapes]
        return self._recording.layout(batch.x, known, len(self._recorded) < self._most)

    def _room(self, device: torch.device) -> bool:
        """Whether another step may be recorded, given the limit and the memory that it needs."""
        if self._recorded:
            return len(self._recorded) < self._most
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free = (free_memory(device) or 0) + unused
        return self._most > 0 and free >= torch.cuda.max_memory_allocated(device)

    def _aside(self, batch: Batch, layout: Any) -> None:
        """Take an ordinary step on another stream, as recording requires."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        before = 0 if self._recording is None else self._recording.passes
        with torch.cuda.stream(stream), self._in(layout) as use:
            self._learner.step(batch)
        torch.cuda.current_stream().wait_stream(stream)
        if self._recording is not None:
            alone = self._recording.passes == before + 1 and (use is None or use.times == 1)
            # Otherwise replays would draw other random numbers, or shapes are not fixed.
            self._most = self._most if alone else 0

    def _in(self, layout: Any) -> AbstractContextManager[LayoutUse | None]:
        if self._recording is None or layout is None:
            return nullcontext()
        return self._recording.in_layout(layout)

    def _record(self, arrays: Arrays, key: Key) -> bool:
        """Record a step without executing it; return whether this was possible."""
        static = tuple(None if array is None else array.clone() for array in arrays)
        graph = torch.cuda.CUDAGraph()
        # Steps are replayed one after another, so each may overwrite the memory of the previous
        # one.
        pool = next((one.graph.pool() for one in self._recorded.values()), None)
        try:
            with torch.cuda.graph(graph, pool=pool), self._in(key[1]):
                self._learner.step(_batch(static))
        except RuntimeError as error:  # such as a model that reads a number from the GPU
            self._most = 0
            warnings.warn(
                f"steps of this net cannot be recorded as a CUDA graph ({_first_line(error)}), and "
                "are launched kernel by kernel, which takes longer",
                stacklevel=3,
            )
            return False
        self._recorded[key] = Recorded(graph, static)
        return True

    def _replay(self, recorded: Recorded, arrays: Arrays) -> None:
        for place, array in zip(recorded.static, arrays, strict=True):
            if place is not None and array is not None:
                place.copy_(array)
        with nullcontext() if self._recording is None else self._recording.drawing():
            recorded.graph.replay()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _arrays(batch: Batch) -> Arrays:
    """Return the tensors that a step reads."""
    memory = batch.memory
    old = (None, None, None) if memory is None else (memory.x, memory.y, memory.z)
    new = (batch.current.x, batch.current.y, batch.current.z)
    return (*new, batch.rows, batch.weight, *old, batch.memory_rows, batch.noise)


def _batch(arrays: Arrays) -> Batch:
    """Reassemble a batch."""
    x, y, z, rows, weight, memory_x, memory_y, memory_z, memory_rows, noise = arrays
    assert x is not None
    assert y is not None
    assert rows is not None
    memory = None
    if memory_x is not None and memory_y is not None:
        memory = Samples(memory_x, memory_y, memory_z)
    return Batch(Samples(x, y, z), rows, weight, memory, memory_rows, noise)
