"""Rows of a table in parts as samples with inputs in a memory-mapped file.

A net passes over its rows many times and in any order. Inputs are encoded once and written to a
float32 file; the system keeps in memory what fits and reads the rest on demand. The file is
readable by its owner only, has no name by which others could open it, and is deleted with the
samples.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from faircil.data.features import NewValues
from faircil.data.own import OwnData, load_own
from faircil.data.part_files import parted_table
from faircil.data.parts import IN_PARTS, PartedTable, changed_table
from faircil.data.row_parts import HeldOut, RowReader, count_rows, decided, gap_notes
from faircil.data.stream import Task, TaskStream, named_tasks, task_mistakes
from faircil.engines import HERE
from faircil.errors import StorageError, raise_all, shortened
from faircil.samples import Samples

FLOAT = 4  # bytes
MARGIN = 2**26  # bytes to leave free


def mapped_samples(
    reader: RowReader,
    sizes: Sequence[int],
    task_of: Tensor | None = None,
    *,
    held_out: bool = False,
) -> tuple[list[Samples], list[str]]:
    """Encode the rows of a table and map them into memory.

    Parameters
    ----------
    reader : RowReader
        Has an encoder, and the names.
    sizes : sequence of int
        Number of rows of each task.
    task_of : Tensor of int64, shape (classes,), optional
        Task of each class, −1 if it is in none; by default there is a single task.
    held_out : bool
        Whether to read the held-out rows instead of the others.

    Returns
    -------
    samples : list of Samples
        Samples of each task. Inputs are a view of the file; classes and attribute values are in
        memory.
    notes : list of str

    Raises
    ------
    StorageError
        If the temporary folder has no room for the inputs.
    DataError
        If other rows are read than were counted.
    """
    assert reader.encoder is not None
    rows, width = sum(sizes), reader.encoder.width
    x = _mapped(rows, width)
    y, z = torch.empty(rows, dtype=torch.int64), torch.empty(rows, dtype=torch.int64)
    ends = list(accumulate(sizes))
    place = [end - size for end, size in zip(ends, sizes, strict=True)]
    found = NewValues()
    for part in reader.table.parts:
        for samples, new in reader.batches(part, held_out=held_out):
            task = torch.zeros_like(samples.y) if task_of is None else task_of[samples.y]
            for number in range(len(sizes)):
                chosen = samples if task_of is None else samples.take(task == number)
                own = slice(place[number], place[number] + len(chosen))
                if own.stop > ends[number]:  # beyond the rows of the task
                    raise part.changed()
                x[own], y[own] = chosen.x.numpy(), chosen.y
                if chosen.z is not None:
                    z[own] = chosen.z
                place[number] = own.stop
            found.update(new)
    if place != ends:  # the remaining rows would be uninitialised
        raise changed_table(reader.table.path)
    whole = Samples(torch.from_numpy(x), y, z if reader.spec.sensitive else None)
    starts = [0, *ends[:-1]]
    tasks = [whole.take(slice(a, b)) for a, b in zip(starts, ends, strict=True)]
    return tasks, reader.encoder.notes_on(found)


def _mapped(rows: int, width: int) -> np.memmap[tuple[int, int], np.dtype[np.float32]]:
    """Return an array (rows, width) in a file that is deleted along with it."""
    place = Path(tempfile.gettempdir())
    needed, free = FLOAT * rows * width, shutil.disk_usage(place).free
    if needed + MARGIN > free:
        raise StorageError(
            f"the inputs of {rows:,} rows take {needed / 2**30:.3g} GiB, and {place} has "
            f"{free / 2**30:.3g} GiB left; free space, or name another folder in the variable "
            "TMPDIR"
        )
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            if hasattr(os, "posix_fallocate"):  # a full disk then fails here, not by a later signal
                os.posix_fallocate(file.fileno(), 0, max(needed, FLOAT))
            return np.memmap(file, dtype=np.float32, mode="r+", shape=(rows, width))
    except OSError as error:  # filled in the meantime by others, or beyond a quota
        raise StorageError(
            f"the inputs of {rows:,} rows take {needed / 2**30:.3g} GiB, which {place} cannot "
            f"hold ({error.strerror or error}); free space, or name another folder in the variable "
            "TMPDIR"
        ) from None


def load_table(spec: OwnData, seed: int) -> TaskStream:
    """Read, validate, split and encode a user's data; a table with very many rows is mapped.

    Parameters
    ----------
    spec : OwnData
        The table and the roles of its columns.
    seed : int
        Seed of the test split.

    Returns
    -------
    TaskStream
        See :func:`faircil.data.own.load_own`. In a mapped table, test rows are drawn by row number
        rather than from each group, and columns are fitted on a sample.
    """
    table = None if spec.items is not None else parted_table(Path(spec.path))
    if table is None or table.rows < IN_PARTS:
        return load_own(spec, seed)
    return _mapped_stream(table, spec, seed)


def _mapped_stream(table: PartedTable, spec: OwnData, seed: int) -> TaskStream:
    reader = RowReader(table, spec, HeldOut(spec.test_column, spec.test_share, seed))
    counts = count_rows(reader, HERE)
    raise_all(task_mistakes(spec.tasks, counts.labels) if spec.tasks is not None else [])
    tasks = named_tasks(spec.tasks, counts.labels, spec.classes_per_task)
    names = tuple(sorted({name for task in tasks for name in task}))
    numbers = [tuple(names.index(name) for name in task) for task in tasks]
    counts.refuse_untested(names)
    left_out = [label for label in counts.labels if label not in names]
    reader, (sample, *_) = decided(reader, HERE, tasks[0])
    # Classes in no task get the number after the last one.
    labels, values = (*names, *left_out), tuple(counts.attribute_values)
    reader = RowReader(table, spec, reader.held_out, reader.encoder, labels, values)
    task_of = torch.full((len(labels),), -1)
    for number, task in enumerate(numbers):
        task_of[list(task)] = number
    parts = []
    for held_out, counter in ((False, counts.learned), (True, counts.held_out)):
        sizes = [sum(n for (label, _), n in counter.items() if label in task) for task in tasks]
        parts.append(mapped_samples(reader, sizes, task_of, held_out=held_out))
    (train, notes), (test, _) = parts
    assert reader.encoder is not None
    told = [f"classes in no task, left out: {shortened(left_out)}"] if left_out else []
    told.append(
        f"{table.rows:,} rows: inputs are mapped from a file, columns are by a sample of "
        f"{len(sample):,} rows, and test rows are drawn by their number"
    )
    return TaskStream(
        name=spec.name,
        tasks=tuple(map(Task, numbers, train, test)),
        class_names=names,
        attribute=" × ".join(spec.sensitive) or None,
        attribute_values=values if spec.sensitive else (),
        notes=(*told, *gap_notes(spec, counts), *notes, *reader.encoder.notes),
        encoder=reader.encoder,
    )
