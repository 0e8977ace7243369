"""Training steps recorded and replayed as CUDA graphs.

A step of a small net is some sixty kernels of a few microseconds each, one of a large encoder more
than a thousand: the GPU waits for the host to launch them. Recorded once, they are launched
together; only the batch is copied into the place where the recorded kernels look for it. The
kernels and so the results are the same.

A net that passes its inputs on in shapes of its own, such as an encoder of texts of all lengths,
has a :class:`faircil.nets.Recording`: its steps are recorded by layout, several of them.
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

WARM_UP = 3  # ordinary steps first: they allocate what the optimizer and the libraries keep
AGAIN = 1  # and before another layout is recorded: libraries choose kernels for its shapes
MOST = 8  # recordings of a net with layouts; they share their memory
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
        Where it looks for its batch.
    """

    graph: torch.cuda.CUDAGraph
    static: Arrays


class GraphedStep:
    """Makes the steps of one task: records what comes back, replays it.

    Of a plain net, the first batch shape that comes back is recorded; batches of another shape,
    such as the last of an epoch, take ordinary steps. Of a net with layouts, up to ``MOST`` of them
    are. A recording keeps the memory of a step; where there is not as much again, steps stay
    ordinary ones.

    Parameters
    ----------
    learner : Learner
        On a CUDA device, in the task that its current optimizer is for.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._recording = traits_of(learner.net).recording
        self._most = 1 if self._recording is None else MOST
        self._seen: Counter[Key] = Counter()
        self._recorded: dict[Key, Recorded] = {}

    @property
    def recorded(self) -> int:
        """Number of steps that are recorded."""
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
        """Return the layout of a net that has them; None if its step cannot be recorded."""
        if self._recording is None or not self._most:
            return None
        known = [layout for other, layout in self._recorded if other == shapes]
        return self._recording.layout(batch.x, known, len(self._recorded) < self._most)

    def _room(self, device: torch.device) -> bool:
        """Whether one more step may be recorded: by number, and by the memory that it keeps."""
        if self._recorded:
            return len(self._recorded) < self._most
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free = (free_memory(device) or 0) + unused
        return self._most > 0 and free >= torch.cuda.max_memory_allocated(device)

    def _aside(self, batch: Batch, layout: Any) -> None:
        """Take an ordinary step, on another stream as recording wants it."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        before = 0 if self._recording is None else self._recording.passes
        with torch.cuda.stream(stream), self._in(layout) as use:
            self._learner.step(batch)
        torch.cuda.current_stream().wait_stream(stream)
        if self._recording is not None:
            alone = self._recording.passes == before + 1 and (use is None or use.times == 1)
            # Else replays would draw otherwise than the passes of a step, or shapes are not fixed.
            self._most = self._most if alone else 0

    def _in(self, layout: Any) -> AbstractContextManager[LayoutUse | None]:
        if self._recording is None or layout is None:
            return nullcontext()
        return self._recording.in_layout(layout)

    def _record(self, arrays: Arrays, key: Key) -> bool:
        """Record a step, without taking it; return whether that was possible."""
        static = tuple(None if array is None else array.clone() for array in arrays)
        graph = torch.cuda.CUDAGraph()
        # One is replayed after another: what one leaves behind the next may overwrite.
        pool = next((one.graph.pool() for one in self._recorded.values()), None)
        try:
            with torch.cuda.graph(graph, pool=pool), self._in(key[1]):
                self._learner.step(_batch(static))
        except RuntimeError as error:  # such as a model that asks the GPU for a number
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
    """Return what a step reads."""
    memory = batch.memory
    old = (None, None, None) if memory is None else (memory.x, memory.y, memory.z)
    new = (batch.current.x, batch.current.y, batch.current.z)
    return (*new, batch.rows, batch.weight, *old, batch.memory_rows, batch.noise)


def _batch(arrays: Arrays) -> Batch:
    """Put a batch together again."""
    x, y, z, rows, weight, memory_x, memory_y, memory_z, memory_rows, noise = arrays
    assert x is not None
    assert y is not None
    assert rows is not None
    memory = None
    if memory_x is not None and memory_y is not None:
        memory = Samples(memory_x, memory_y, memory_z)
    return Batch(Samples(x, y, z), rows, weight, memory, memory_rows, noise)
