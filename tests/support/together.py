"""Functions that several processes call at the same time, connected by gloo."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import distributed

from faircil.ranks import ALONE, Ranks
from processes import CONTEXT

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
        # Not `send`, which shares tensors by handles that end with this process.
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
        Empty, for the file by which the processes meet.
    size : int
    function : callable
        Of a module, so that other processes find it.
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
