"""Time and memory of a piece of work on a device."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

Result = TypeVar("Result")


@dataclass(frozen=True)
class Cost:
    """What a piece of work took.

    Parameters
    ----------
    seconds : float
    tokens : int
        That went through the encoder; padding does not count.
    memory : float or None
        Peak of the GPU in GiB, with all that was there before; None on a CPU.
    """

    seconds: float
    tokens: int
    memory: float | None

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def gauge(work: Callable[[], Result], device: torch.device, tokens: int = 0) -> tuple[Result, Cost]:
    """Do the work; return what it returns, and what it took until the device was done."""
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    start = time.perf_counter()
    result = work()
    if on_gpu:
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    memory = torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu else None
    return result, Cost(seconds, tokens, memory)
