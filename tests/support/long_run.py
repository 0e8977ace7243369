"""A long run in a separate process: its memory after each task or epoch.

python long_run.py METHOD TASKS CLASSES EPOCHS    prints one JSON document
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from faircil.data.stream import Part, TaskStream, cut_into_tasks
from faircil.results.record import EpochRecord
from faircil.runs.config import resolve
from faircil.runs.evaluation import evaluate_task
from faircil.runs.experiment import learn_task
from faircil.runs.state import RunState, start_run

INPUTS, ROWS, TESTS = 16, 12, 2  # of a class with one attribute value
# Shared objects that data refers to: classes, modules, code.
NO_DATA = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)


def stream_of(tasks: int, classes: int) -> TaskStream:
    """Return clusters with two attribute values each, in tasks of equal size."""
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
    """Return the resident memory of this process in bytes, without free memory that is cached."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def kept(state: RunState, beside: int) -> int:
    """Return the bytes of a run's data: net, buffer or moments, and its measurements.

    Anything else that a learner refers to counts as growth, as does unreferenced memory. A forked
    copy of this process does the counting: hundreds of thousands of numbers noted during the count
    would leave gaps between the run's data, which would be taken for its growth.

    Parameters
    ----------
    state : RunState
    beside : int
        Bytes of a tensor in addition to its numbers.
    """
    learner, measured = state.learner, (state.per_task, state.predictions, state.epochs)
    parts = (learner.net, getattr(learner, "moments", None), state.buffer, *measured)
    read, write = os.pipe()
    if os.fork() == 0:
        total = held([*parts, state.probabilities, state.seen, state.notes], set(), beside)
        os.write(write, str(total).encode())
        os._exit(0)
    os.close(write)
    with open(read, "rb") as answer:
        total = int(answer.read())
    os.wait()
    return total


def beside_numbers() -> int:
    """Return the bytes of a tensor in addition to its numbers and its Python object."""
    many = 50_000
    before = resident()
    tensors = [torch.empty(0) for _ in range(many)]
    return (resident() - before - sys.getsizeof(tensors)) // many - sys.getsizeof(tensors[0])


def held(thing: Any, seen: set[int], beside: int) -> int:
    """Return the bytes of all reachable tensors, arrays and Python objects."""
    if id(thing) in seen or isinstance(thing, NO_DATA):
        return 0
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        storage = thing.untyped_storage()
        new = storage.data_ptr() not in seen  # several tensors may be views of one storage
        seen.add(storage.data_ptr())
        return sys.getsizeof(thing) + beside + new * storage.nbytes()
    if isinstance(thing, np.ndarray):
        return sys.getsizeof(thing)
    # Not by `vars`, which would create a dictionary for each of some 100,000 records.
    parts = gc.get_referents(thing)
    own = -(-sys.getsizeof(thing) // 16) * 16  # Python allocates multiples of 16 bytes
    own += 8 * len(parts) * (type(thing).__dictoffset__ != 0)
    return own + sum(held(part, seen, beside) for part in parts)


def main(method: str, tasks: int, classes: int, epochs: int) -> None:
    """Run, and print resident and used bytes after each task, and after each epoch of the first."""
    stream = stream_of(tasks, classes)
    trained = method != "moments"
    overrides = [f"epochs={epochs}", "buffer_size=2"] if trained else ["width=60"]
    config = resolve(dataset="biased-digits", method=method, overrides=overrides)
    state = start_run(config, 0, stream, torch.device("cpu"))
    beside = beside_numbers()
    after: list[tuple[int, int]] = []
    by_epoch: list[int] = []

    def heard(event: object) -> None:
        if isinstance(event, EpochRecord) and len(after) == 0:
            by_epoch.append(resident())

    for number, task in enumerate(stream.tasks):
        learn_task(config, state, task.train, heard)
        evaluate_task(config, 0, state, stream.tests_after(number + 1))
        after.append((resident(), kept(state, beside)))
    print(json.dumps({"after": after, "by_epoch": by_epoch}))  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]))
