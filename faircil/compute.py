"""Devices, random number generators, and parallel work on threads.

Within an operation, torch's threads meet at a barrier. A training step of a small net has dozens of
barriers, each around a fraction of a millisecond of work: two threads gain a little on an idle
machine and lose an order of magnitude on a busy one. So a step runs on one thread. A pass over many
samples distributes whole chunks to threads, which then never wait for each other. In both cases the
result does not depend on the number of threads.

Within an operation it would: threads add up parts of a sum, and the last bits depend on their
number. So in a run, see :func:`same_bits`, an operation uses one thread regardless of torch's
setting; large operations, such as a step of an encoder, use a fixed number of threads.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from faircil.errors import FaircilError, UsageError

Task = TypeVar("Task")
Result = TypeVar("Result")
CHUNK = 2048  # rows per forward pass: activations of this many rows stay in cache
LARGE_CHUNK = 65536  # on a GPU, which needs large batches
OWN = ("torch.nn.", "faircil.")  # modules known to be stateless between calls
MEMINFO, LIMIT = Path("/proc/meminfo"), Path("/sys/fs/cgroup/memory.max")  # of Linux
SEVERAL = min(4, os.cpu_count() or 1)  # threads within an operation that is large enough
_outside = ContextVar("outside", default=1)  # threads allowed outside one_thread
# Threads for chunks, if it differs from the number of threads within an operation.
_chunks: ContextVar[int | None] = ContextVar("chunks", default=None)
_busy = ContextVar("busy", default=False)  # whether the other threads have their own tasks


def choose_device(name: str) -> torch.device:
    """Turn ``auto``, ``cpu``, ``cuda`` or ``cuda:N`` into an available device."""
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
            f"device '{name}' is not available: torch sees {torch.cuda.device_count()} CUDA "
            "devices; use `device='cpu'`, or install a CUDA build of torch"
        )
    if device.type == "cuda":
        # The thread of the first backward pass has no CUDA context: it warns and creates one.
        warnings.filterwarnings("ignore", "Attempting to run cuBLAS, but there was no current CUDA")
    return device


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated on a device; None if this is unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    known = [_number(LIMIT, "max")]  # limit of a container
    if MEMINFO.is_file():
        found = re.search(r"^MemAvailable: +(\d+) kB", MEMINFO.read_text(), re.MULTILINE)
        known.append(None if found is None else 1024 * int(found[1]))
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min((size for size in known if size is not None), default=None)


def _number(path: Path, none: str) -> int | None:
    text = path.read_text().strip() if path.is_file() else none
    return None if text == none else int(text)


@contextmanager
def enough_memory() -> Iterator[None]:
    """Turn running out of memory, on any device, into an error for the user."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch has an exception class for GPUs only.
        gpu, cpu = isinstance(error, torch.OutOfMemoryError), "allocate memory" in str(error)
        if not (gpu or cpu or isinstance(error, MemoryError)):
            raise
        raise FaircilError(
            f"not enough memory: {error}; with `overrides`, choose fewer or narrower hidden "
            "layers, a smaller batch_size or, with an encoder of texts, a smaller token_budget; or "
            "choose another `device`"
        ) from None


@dataclass(frozen=True)
class Generators:
    """One random number stream per purpose, so that methods with the same seed share draws.

    Parameters
    ----------
    init_seed : int
        Seed of the net, whose layers draw from torch's global generator.
    shuffle, memory, buffer, weights : torch.Generator
        For the order of samples, memory batches, buffer selection and draws of a weighting.
    method : torch.Generator
        For all other draws of a method.
    """

    init_seed: int
    shuffle: torch.Generator
    memory: torch.Generator
    buffer: torch.Generator
    weights: torch.Generator
    method: torch.Generator

    @classmethod
    def from_seed(cls, seed: int) -> Generators:
        """Derive independent generators from the seed of the run."""
        init, *seeds = (
            np.random.SeedSequence([seed, 1]).generate_state(6, np.uint64) >> 1
        ).tolist()
        return cls(init, *(torch.Generator().manual_seed(s) for s in seeds))


@contextmanager
def _threads_inside(number: int) -> Iterator[None]:
    """Set the number of threads within an operation in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _set(variable: ContextVar[Any], value: object) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextmanager
def same_bits() -> Iterator[None]:
    """Make results in the block bit-identical for any number of allowed threads.

    An operation uses one thread, unless :func:`several_threads` is active; chunks are shared by all
    allowed threads.
    """
    with _set(_chunks, _allowed()), _threads_inside(1):
        yield


def _allowed() -> int:
    """Return the number of threads that may share chunks."""
    chunks = _chunks.get()
    return torch.get_num_threads() if chunks is None else chunks


@contextmanager
def one_thread() -> Iterator[int]:
    """Restrict torch to one thread in the block; yield the number of threads before."""
    before = _allowed()
    chunks = None if _chunks.get() is None else 1
    with (
        _set(_outside, max(before, _outside.get())),
        _set(_chunks, chunks),
        _threads_inside(1),
    ):
        yield before


@contextmanager
def many_threads() -> Iterator[None]:
    """Restore in the block the number of threads for chunks allowed before :func:`one_thread`.

    Outside of :func:`same_bits`, it also applies within operations.
    """
    number = max(_allowed(), _outside.get())
    with _threads_inside(number) if _chunks.get() is None else _set(_chunks, number):
        yield


@contextmanager
def several_threads() -> Iterator[None]:
    """Let several threads compute an operation in the block; their number is fixed.

    For operations that are large enough. The number does not depend on the allowed threads, since
    the last bits of sums depend on it.
    """
    with _set(_chunks, _allowed()), nullcontext() if _busy.get() else _threads_inside(SEVERAL):
        yield


@contextmanager
def exact_convolutions() -> Iterator[None]:
    """Make convolutions on a GPU compute in float32, with reproducible results.

    By default they round their inputs to ten bits and sum gradients in any order; matrix products
    do neither.
    """
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        yield


def chunk_size(device: torch.device, on_cpu: int = CHUNK) -> int:
    """Return the number of rows per chunk."""
    return on_cpu if device.type == "cpu" else LARGE_CHUNK


def chunks_of(n: int, size: int) -> list[slice]:
    """Cut n rows into slices of ``size``; the last may be smaller."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def map_chunks(
    work: Callable[[slice], Result], n: int, size: int, *, threads: bool
) -> list[Result]:
    """Call ``work`` on slices of n rows, ``size`` at a time; see :func:`map_tasks`."""
    return map_tasks(work, chunks_of(n, size), threads=threads)


def map_tasks(
    work: Callable[[Task], Result], tasks: Sequence[Task], *, threads: bool
) -> list[Result]:
    """Run all tasks; return the results in order.

    Parameters
    ----------
    work : callable
        With several threads, it must not modify data that other tasks use.
    tasks : sequence
        Started in order.
    threads : bool
        Whether to distribute tasks over the threads that torch may use; for the CPU only.
    """
    if not threads:
        return [work(task) for task in tasks]
    results: list[Result | None] = [None] * len(tasks)
    numbers = iter(range(len(tasks)))  # each free thread takes the next
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()

    def take_tasks() -> None:
        # Gradient recording is a thread-local setting.
        with (
            torch.inference_mode(inference),
            torch.set_grad_enabled(grad and not inference),
            _set(_busy, True),
        ):
            for number in numbers:
                try:
                    results[number] = work(tasks[number])
                except BaseException:
                    deque(numbers, maxlen=0)  # the others stop as well
                    raise

    with one_thread() as allowed:
        helpers = min(allowed, len(tasks)) - 1
        if helpers > 0:
            _outside.set(1)  # all threads are in use; the enclosing block resets this
        waiting = [_pool(helpers).submit(take_tasks) for _ in range(helpers)]
        try:
            take_tasks()
        finally:  # also after an error, so that nothing keeps running in the background
            wait(waiting)
        for helper in waiting:
            helper.result()
    return results  # type: ignore[return-value]


def share_tasks(
    work: Callable[[Task], Result], tasks: Sequence[Task], *, threads: bool
) -> list[Result]:
    """Do as :func:`map_tasks`, with the threads that were allowed before :func:`one_thread`.

    For large passes between small operations that run on one thread.
    """
    with many_threads() if threads else nullcontext():
        return map_tasks(work, tasks, threads=threads)


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Cache the threads: each new thread would initialise its linear algebra libraries again."""
    # The number of threads within an operation is thread-local as well.
    return ThreadPoolExecutor(workers, "faircil", torch.set_num_threads, (1,))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def thread_safe(net: nn.Module) -> bool:
    """Whether threads may call the net concurrently: on a CPU and built of torch's own layers."""
    kinds = (f"{type(module).__module__}." for module in net.modules())
    on_cpu = all(parameter.device.type == "cpu" for parameter in net.parameters())
    return on_cpu and all(kind.startswith(OWN) for kind in kinds)
