"""Rows of a table in parts as samples whose inputs lie in a file, mapped into memory.

A net passes over its rows many times and in any order. Inputs are encoded once and written to a
file of float32; the system keeps in memory what fits and reads the rest as it is needed. The file
has no name that others could open, and it is gone with the process.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from faircil.data.row_parts import RowReader
from faircil.errors import StorageError
from faircil.samples import Samples

FLOAT = 4  # bytes
MARGIN = 2**26  # bytes that stay free


@contextmanager
def mapped_samples(
    reader: RowReader, rows: int, *, held_out: bool = False, folder: Path | None = None
) -> Iterator[tuple[Samples, list[str]]]:
    """Encode the rows of a table, and map them into memory.

    Parameters
    ----------
    reader : RowReader
        With an encoder, and names.
    rows : int
        How many there are.
    held_out : bool
        Whether those that are held out are meant.
    folder : Path, optional
        Where the file is; by default that of temporary files.

    Yields
    ------
    samples : Samples
        Inputs are a view of the file; classes and attribute values are in memory.
    notes : list of str

    Raises
    ------
    StorageError
        If the folder has no room for the inputs.
    """
    assert reader.encoder is not None
    width = reader.encoder.width
    place = Path(tempfile.gettempdir()) if folder is None else folder
    needed, free = FLOAT * rows * width, shutil.disk_usage(place).free
    if needed + MARGIN > free:
        raise StorageError(
            f"the inputs of {rows:,} rows take {needed / 2**30:.3g} GiB, and {place} has "
            f"{free / 2**30:.3g} GiB left; free space, or name another folder in the variable "
            "TMPDIR"
        )
    with tempfile.TemporaryFile(dir=place) as file:  # for its owner alone, and without a name
        if hasattr(os, "posix_fallocate"):  # a full disk is told here, not by a signal later
            os.posix_fallocate(file.fileno(), 0, max(needed, FLOAT))
        x = np.memmap(file, dtype=np.float32, mode="r+", shape=(rows, width))
        y, z = torch.empty(rows, dtype=torch.int64), torch.empty(rows, dtype=torch.int64)
        notes: dict[str, str] = {}
        done = 0
        for part in reader.table.parts:
            for samples, told in reader.batches(part, held_out=held_out):
                stop = done + len(samples)
                x[done:stop] = samples.x.numpy()
                y[done:stop] = samples.y
                if samples.z is not None:
                    z[done:stop] = samples.z
                done = stop
                for note in told:
                    notes.setdefault(note.split(" has ")[0], note)
        attribute = z if reader.spec.sensitive else None
        yield Samples(torch.from_numpy(x), y, attribute), list(notes.values())
