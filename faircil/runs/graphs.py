"""Training steps recorded and replayed as CUDA graphs.

A step of a small net is some sixty kernels of a few microseconds each: the GPU waits for the host
to launch them. Recorded once, they are launched together; only the batch is copied into the place
where the recorded kernels look for it. The kernels and so the results are the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

from faircil.learners.base import Batch, Learner
from faircil.samples import Samples

WARM_UP = 3  # ordinary steps first: they allocate what the optimizer and the libraries keep
Arrays = tuple[Tensor | None, ...]
Shapes = tuple[tuple[int, ...] | None, ...]


class GraphedStep:
    """Makes the steps of one task: records the first batch shape that comes back, replays it.

    Batches of another shape, such as the last of an epoch, take ordinary steps.

    Parameters
    ----------
    learner : Learner
        On a CUDA device, in the task that its current optimizer is for.
    """

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._seen: dict[Shapes, int] = {}
        self._recorded: Shapes | None = None
        self._graph = torch.cuda.CUDAGraph()
        self._static: Arrays = ()

    def __call__(self, batch: Batch) -> None:
        """Update the net once."""
        batch = self._learner.prepared(batch)
        arrays = _arrays(batch)
        shapes = tuple(None if array is None else tuple(array.shape) for array in arrays)
        if shapes == self._recorded:
            self._replay(arrays)
            return
        times = self._seen[shapes] = self._seen.get(shapes, 0) + 1
        if self._recorded is None and times > WARM_UP:
            self._record(arrays, shapes)
            self._replay(arrays)
        else:
            self._aside(batch)

    def _aside(self, batch: Batch) -> None:
        """Take an ordinary step, on another stream as recording wants it."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._learner.step(batch)
        torch.cuda.current_stream().wait_stream(stream)

    def _record(self, arrays: Arrays, shapes: Shapes) -> None:
        self._static = tuple(None if array is None else array.clone() for array in arrays)
        batch = _batch(self._static)
        with torch.cuda.graph(self._graph):
            self._learner.step(batch)
        self._recorded = shapes

    def _replay(self, arrays: Arrays) -> None:
        for place, array in zip(self._static, arrays, strict=True):
            if place is not None and array is not None:
                place.copy_(array)
        self._graph.replay()


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
