"""Functions that are called in several processes at the same time, connected by gloo."""

from __future__ import annotations

import os
import pickle
import random
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import distributed

from faircil.ranks import ALONE, Ranks
from faircil.runs import together as module
from faircil.runs.divided import DividedStep
from processes import CONTEXT, Command, Prepare

Result = TypeVar("Result")
TIMEOUT = timedelta(seconds=60)


def _work(
    pipe: Connection, place: Path, rank: int, size: int, function: Callable[..., Any], args: Any
) -> None:
    torch.set_num_threads(1)
    try:
        distributed.init_process_group(
            "gloo", init_method=f"file://{place}", rank=rank, world_size=size, timeout=TIMEOUT
        )
        # Not `send`, which shares tensors by handles that are lost with this process.
        pipe.send_bytes(pickle.dumps((True, function(Ranks.of(), *args))))
        distributed.barrier()
        distributed.destroy_process_group()
    except BaseException:
        pipe.send_bytes(pickle.dumps((False, traceback.format_exc())))


def in_ranks(
    folder: Path, size: int, function: Callable[..., Result], *args: object
) -> list[Result]:
    """Call a function with the ranks and these arguments in several processes, or in this one.

    Parameters
    ----------
    folder : Path
        Empty; for the file through which the processes meet.
    size : int
    function : callable
        Defined in a module, so that other processes find it.
    """
    if size == 1:
        return [function(ALONE, *args)]
    place = folder / f"meeting-{size}-{function.__name__}-{len(list(folder.iterdir()))}"
    started = []
    for rank in range(size):
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=_work, args=(theirs, place, rank, size, function, args))
        process.start()
        theirs.close()
        started.append((process, ours))
    answers = []
    for process, pipe in started:
        if pipe.poll(TIMEOUT.total_seconds()):
            try:
                answers.append(pickle.loads(pipe.recv_bytes()))
            except EOFError:
                answers.append((False, f"process ended with {process.exitcode}"))
        else:
            answers.append((False, "silence"))
    for process, _ in started:
        process.join(5)
        if process.is_alive():
            process.kill()
    problems = [str(answer) for good, answer in answers if not good]
    assert not problems, "\n".join(problems)
    return [answer for _, answer in answers]


def free_port() -> int:
    """Return a free port outside of the range that systems assign automatically.

    Within that range, another connection could take it before a process listens there.
    """
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as place, suppress(OSError):
            place.bind(("127.0.0.1", port))
            return port


def as_rank(rank: int, size: int, port: int, then: Prepare | None) -> None:
    """Make a process one of several, as a launcher starts them."""
    torch.set_num_threads(1)
    module.PATIENCE = 1.0
    told = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size}
    os.environ |= {name: str(value) for name, value in told.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    if then is not None:
        then()


def start_ranks(
    folder: Path, size: int, *words: str, then: dict[int, Prepare] | None = None
) -> list[Command]:
    """Start a command in several processes; ``then`` is called in some of them before."""
    port, then = free_port(), then or {}
    return [
        Command(folder, *words, prepare=partial(as_rank, rank, size, port, then.get(rank)))
        for rank in range(size)
    ]


def at_step(number: int, act: Prepare) -> None:
    """Call a function at one of the steps of a process."""
    step, calls = DividedStep.__call__, count(1)

    def acting(self: DividedStep, *given: Any) -> None:
        if next(calls) == number:
            act()
        step(self, *given)

    DividedStep.__call__ = acting  # type: ignore[method-assign]


def run_out_of_memory() -> None:
    raise MemoryError("no more of it")


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def be_torchrun() -> None:
    os.environ["TORCHELASTIC_RUN_ID"] = "one"


def be_stopped() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
