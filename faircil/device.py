"""Where to compute."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from faircil.errors import FaircilError, UsageError


def choose_device(name: str) -> torch.device:
    """Turn ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` into a device that is there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"unknown device '{name}'; use auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device '{name}' is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device '{name}' is not there: torch sees {torch.cuda.device_count()} CUDA devices; "
            "use --device cpu, or install a CUDA build of torch"
        )
    if device.type == "cuda":
        # The thread of the first backward pass finds no context, says so, and makes one.
        warnings.filterwarnings("ignore", "Attempting to run cuBLAS, but there was no current CUDA")
    return device


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turn running out of memory, on any device, into an error for the user."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch has a class for the GPU only.
        gpu, cpu = isinstance(error, torch.OutOfMemoryError), "allocate memory" in str(error)
        if not (gpu or cpu or isinstance(error, MemoryError)):
            raise
        raise FaircilError(
            f"not enough memory: {error}; use fewer or narrower hidden layers, a smaller "
            "batch_size, with an encoder of texts a smaller token_budget, or another --device"
        ) from None
