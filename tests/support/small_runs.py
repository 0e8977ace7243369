"""A stream that trains quickly, and runs on it: those used by the public checks."""

from __future__ import annotations

from dataclasses import replace

from faircil.data.stream import Task, TaskStream
from faircil.samples import Samples
from faircil.testing.learners import (
    ABSENT as ABSENT,
    FEW as FEW,
    PER_GROUP as PER_GROUP,
    TASKS as TASKS,
    small_config as small_config,
    small_stream as small_stream,
)


def image_stream(image: tuple[int, int, int], grid: tuple[int, int, int]) -> TaskStream:
    """Return the small stream as images; each of its six inputs is a field of a grid.

    Parameters
    ----------
    image : tuple of int
        Channels, height and width.
    grid : tuple of int
        Number of fields in each of these directions.
    """
    stream = small_stream(attribute=True)

    def drawn(samples: Samples) -> Samples:
        fields = samples.x.view(-1, *grid)
        for dim, (size, number) in enumerate(zip(image, grid, strict=True), start=1):
            fields = fields.repeat_interleave(size // number, dim=dim)
        return replace(samples, x=fields.flatten(1))

    tasks = tuple(Task(t.classes, drawn(t.train), drawn(t.test)) for t in stream.tasks)
    return replace(stream, tasks=tasks, image=image)
