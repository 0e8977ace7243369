"""A long run in a process of its own: how much memory it takes after each task or epoch.

python long_run.py METHOD TASKS CLASSES EPOCHS    prints one JSON document
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from faircil.data.stream import Part, TaskStream, cut_into_tasks
from faircil.results.record import EpochRecord
from faircil.runs.config import resolve
from faircil.runs.experiment import evaluate_task, learn_task
from faircil.runs.state import start_run

INPUTS, ROWS, TESTS = 16, 12, 2  # of a class with one attribute value


def stream_of(tasks: int, classes: int) -> TaskStream:
    """Return clusters of two attribute values each, in tasks of equal size."""
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(classes, 2, INPUTS)) * 4

    def part(rows: int) -> Part:
        y, z, _ = (axis.ravel() for axis in np.indices((classes, 2, rows)))
        x = centres[y, z] + generator.normal(size=(len(y), INPUTS))
        return Part(y, z, x.astype(np.float32).__getitem__)

    numbers = np.array_split(np.arange(classes), tasks)
    return TaskStream(
        "clusters",
        cut_into_tasks(part(ROWS), part(TESTS), [tuple(some.tolist()) for some in numbers]),
        tuple(map(str, range(classes))),
        "side",
        ("left", "right"),
    )


def resident() -> int:
    """Return the bytes of this process that are in memory, without what is free but kept."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held(thing: Any, seen: set[int]) -> int:
    """Return the bytes of all that can be reached from a state: tensors, arrays, and records."""
    if id(thing) in seen:
        return 0
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        return sys.getsizeof(thing) + thing.untyped_storage().nbytes()
    if isinstance(thing, np.ndarray):
        return thing.nbytes
    parts: list[Any] = []
    if isinstance(thing, dict):
        parts = [*thing.keys(), *thing.values()]
    elif isinstance(thing, (list, tuple, set)):
        parts = [*thing]
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        parts = [vars(thing)]
    return sys.getsizeof(thing) + sum(held(part, seen) for part in parts)


def main(method: str, tasks: int, classes: int, epochs: int) -> None:
    """Run, and print resident and held bytes after each task, and after each epoch of the first."""
    stream = stream_of(tasks, classes)
    trained = method != "moments"
    overrides = [f"epochs={epochs}", "buffer_size=2"] if trained else ["width=60"]
    config = resolve(dataset="biased-digits", method=method, overrides=overrides)
    state = start_run(config, 0, stream, torch.device("cpu"))
    after: list[tuple[int, int]] = []
    by_epoch: list[int] = []

    def heard(event: object) -> None:
        if isinstance(event, EpochRecord) and len(after) == 0:
            by_epoch.append(resident())

    for number, task in enumerate(stream.tasks):
        learn_task(config, state, task.train, heard)
        evaluate_task(config, 0, state, stream.tests_after(number + 1))
        after.append((resident(), held(state, set())))
    print(json.dumps({"after": after, "by_epoch": by_epoch}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
