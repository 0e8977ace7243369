"""Processes that carry out runs together: the first one leads, the others follow.

``torchrun``, Kubernetes and others start processes and pass each its number in environment
variables. The first one does everything that a command does: it reads data, decides, prints, locks,
saves and writes. The others do not access files. They wait for an order, receive the state of the
run and their shards of the data, train in step with the first one, and wait for the next order.

Orders are sent through the store of the rendezvous, where waiting costs nothing; numbers are sent
through the process group. A process that fails writes the reason to the store and ends. The others
notice that its connection is lost, and the first one tells the user.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import distributed

from faircil import sending
from faircil.compute import choose_device, enough_memory, exact_convolutions, same_bits
from faircil.data.stream import Task, TaskStream
from faircil.errors import FaircilError, UsageError
from faircil.learners import LEARNERS, learner_named
from faircil.packing import Packed, pack, told, unpack
from faircil.ranks import ALONE, LENGTH, RankError, Ranks, packed, unpacked
from faircil.runs.config import RunConfig
from faircil.runs.divided import check_ranks, cuts
from faircil.runs.experiment import learn_task, run
from faircil.runs.state import RunState
from faircil.samples import Samples
from faircil.sharding import ShardedSamples, sharded
from faircil.stopping import Stopped, check, in_step

NUMBER, SIZE, MEETING = "RANK", "WORLD_SIZE", ("MASTER_ADDR", "MASTER_PORT")
TIMEOUT = timedelta(minutes=30)  # within which a process must answer the others
MEET = timedelta(minutes=10)  # within which all processes must have joined
PATIENCE = 10.0  # seconds that a failed process waits to see whether all have failed
FAREWELL = 5.0  # seconds that the first process waits for the others to read its end
SOON, LATER = 0.02, 0.5  # seconds between two checks for an order


def started() -> Ranks:
    """Return this process among those that were started together, from the environment.

    They know of each other, but are not connected yet.
    """
    size = _whole(SIZE, 1)
    if size == 1 or not all(name in os.environ for name in (NUMBER, *MEETING)):
        return ALONE
    return Ranks(_whole(NUMBER, 0), size)


def _whole(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdecimal():
        raise UsageError(f"the variable {name} is '{text}', expected a whole number")
    return int(text)


@dataclass
class Team:
    """The processes that were started together, and their orders.

    Parameters
    ----------
    ranks : Ranks
    store : Store
        For orders.
    order : int
        Number of the next order.
    lost : bool
        Whether the processes have lost their connection.
    code : int
        Exit code of the command, once it has ended.
    """

    ranks: Ranks
    store: Any
    order: int = 0
    lost: bool = False
    code: int = 1

    def failed(self) -> str | None:
        """Return the errors of processes in the current order, one per line, or None."""
        keys = [f"failed/{self.order}/{rank}" for rank in range(self.ranks.size)]
        try:
            found = [self.store.get(key).decode() for key in keys if self.store.check([key])]
        except RuntimeError:  # the store is gone
            return None
        return "\n".join(found) or None


_TEAM: list[Team] = []  # of this process, if it is connected to others


def team_size() -> int:
    """Return the number of processes that carry out runs together; for the first process."""
    return _TEAM[-1].ranks.size if _TEAM else 1


def _meet(ranks: Ranks) -> Team:
    """Connect all processes that were started together."""
    try:
        meeting = distributed.rendezvous("env://", timeout=MEET)  # type: ignore[attr-defined]
        store, rank, size = next(meeting)
        backend, gpu = _backend()
        if gpu is not None:
            torch.cuda.set_device(gpu)
        distributed.init_process_group(
            backend,
            store=_prefixed("group", store),
            rank=rank,
            world_size=size,
            timeout=TIMEOUT,
        )
    except (RuntimeError, ValueError, OSError) as error:
        where = ":".join(os.environ[name] for name in MEETING)
        raise RankError(
            f"process {ranks.rank} of {ranks.size} could not meet the others at {where}: "
            f"{told(error)}; check that all were started and reach this address"
        ) from None
    return Team(Ranks.of(), _prefixed("orders", store))


def _prefixed(name: str, store: Any) -> Any:
    """Return a part of a store that nothing else writes to."""
    return distributed.PrefixStore(f"faircil-{name}", store)  # type: ignore[attr-defined]


def _backend() -> tuple[str, int | None]:
    """Return the backend of the process group, and the GPU of this process, if any."""
    if not torch.cuda.is_available():
        return "gloo", None
    here, gpus = _whole("LOCAL_WORLD_SIZE", 1), torch.cuda.device_count()
    gpu = _whole("LOCAL_RANK", 0) % gpus
    # NCCL requires a GPU per process; processes that share one communicate through the host.
    nccl = here <= gpus and distributed.is_nccl_available()
    return ("cpu:gloo,cuda:nccl" if nccl else "gloo"), gpu


@contextmanager
def leading(ranks: Ranks) -> Iterator[Team]:
    """Lead the other processes in the block, and end them afterwards.

    They end with the exit code of the first one: Kubernetes and others check each process
    separately and restart only those that failed. ``torchrun`` checks all of them and would report
    each one, so there they end successfully, unless the processes have lost their connection.
    """
    team = _meet(ranks)
    _TEAM.append(team)
    try:
        yield team
    finally:
        _TEAM.remove(team)
        with suppress(RuntimeError):  # the store may be gone, and with it its readers
            alone = not distributed.is_torchelastic_launched()
            code = team.code if alone else 0
            _order(team, {"do": "end", "code": int(team.lost) or code})
            end = time.monotonic() + (SOON if team.lost else FAREWELL)
            names = [f"left/{rank}" for rank in range(1, ranks.size)]
            # The store may be in this process: it must stay until the others have read it.
            while time.monotonic() < end and not team.store.check(names):
                time.sleep(SOON)


def follow(ranks: Ranks) -> int:
    """Follow the orders of the first process until it ends; return the exit code."""
    team = _meet(ranks)
    with in_step():
        while True:
            told = _next_order(team)
            if told["do"] == "end":
                team.store.set(f"left/{ranks.rank}", "")
                return int(told["code"])
            try:
                with enough_memory():
                    ORDERS[told["do"]](team)
            except Stopped:
                pass  # all were stopped: the first process decides how to proceed
            except (Exception, KeyboardInterrupt) as error:
                if not _all_failed(team, error):
                    return 1
            team.order += 1


def _all_failed(team: Team, error: BaseException) -> bool:
    """Report that this process failed; return whether all did, and the first one continues."""
    ranks, ended = team.ranks, f"ended/{team.order}"
    line = str(error) if isinstance(error, FaircilError) else f"{type(error).__name__}: {error}"
    with suppress(RuntimeError):  # the store may be gone
        if not isinstance(error, RankError):
            where = f"process {ranks.rank} of {ranks.size} on {socket.gethostname()}"
            team.store.set(f"failed/{team.order}/{ranks.rank}", f"{where}: {line}")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if team.store.check([ended]):
                return True
            time.sleep(SOON)
    return False


def _order(team: Team, document: dict[str, Any]) -> None:
    team.store.set(f"order/{team.order}", json.dumps(document))


def _next_order(team: Team) -> dict[str, Any]:
    """Wait for the next order, without a time limit."""
    key, pause = f"order/{team.order}", SOON
    try:
        while not team.store.check([key]):
            time.sleep(pause)
            pause = min(2 * pause, LATER)
        found: dict[str, Any] = json.loads(team.store.get(key))
    except RuntimeError:  # the process with the store is gone
        return {"do": "end", "code": 1}
    return found


@contextmanager
def led(
    config: RunConfig,
    seed: int,
    stream: TaskStream,
    state: RunState,
    device: torch.device,
) -> Iterator[tuple[TaskStream, Ranks]]:
    """Let the other processes, if any, carry out a run in step with the block.

    Yields the data of this process and the ranks, for :func:`faircil.runs.experiment.run`.
    """
    team = _team_for(config)
    if team is None:
        yield stream, ALONE
        return
    header = {"config": config.model_dump(mode="json"), "seed": seed, "device": device.type}
    with _ordered(team, "run", _beginning(header, state)):
        yield _hand_out(team.ranks, stream, config, device), team.ranks


@contextmanager
def led_lesson(
    config: RunConfig, state: RunState, samples: Samples, device: torch.device
) -> Iterator[tuple[Samples, Ranks]]:
    """Let the others learn a task of a model in step with the block; see :func:`led`."""
    shards = config.settings.training.shards
    if shards == 1:
        yield samples, ALONE
        return
    if LEARNERS[config.method].learner.keeps_inputs:
        raise UsageError(
            f"method '{config.method}' keeps all rows in the model, and `shards={shards}` divides "
            "them; leave it out, or choose another method"
        )
    team = _team_for(config)
    if team is None:
        yield sharded(samples, shards), ALONE
        return
    header = {"config": config.model_dump(mode="json"), "device": device.type}
    with _ordered(team, "lesson", _beginning(header, state)):
        yield _send(team.ranks, partial(sharded, samples, shards)), team.ranks


def _team_for(config: RunConfig) -> Team | None:
    """Return the processes that share a run; None for a single process."""
    if not _TEAM or config.settings.training.shards == 1:
        return None
    check_ranks(config, _TEAM[-1].ranks)
    return _TEAM[-1]


def _beginning(header: dict[str, Any], state: RunState) -> bytes:
    """Return the first message of an order for a run."""
    content = pack(state, learner_named)
    return packed({**header, "state": content.document}, content.tensors)


@contextmanager
def _ordered(team: Team, do: str, message: bytes) -> Iterator[None]:
    """Give an order with its first message; record in the store when it has ended."""
    try:
        with in_step():
            _order(team, {"do": do})
            team.ranks.told(message)
            yield
    except RankError as error:
        team.lost = True
        raise RankError(team.failed() or f"{error}; {GO_ON}") from None
    finally:
        with suppress(RuntimeError):  # the store may be gone
            team.store.set(f"ended/{team.order}", "")
        team.order += 1


GO_ON = "the same command continues from the last saved state, if there is one"


def _hand_out(
    ranks: Ranks, stream: TaskStream, config: RunConfig, device: torch.device
) -> TaskStream:
    """Send every rank its shards of a stream that this process has."""
    names = ("name", "class_names", "attribute", "attribute_values", "image")
    header: dict[str, Any] = {name: getattr(stream, name) for name in names}
    header["tasks"] = [[task.classes, task.renewed] for task in stream.tasks]
    ranks.told(packed(header, {}))
    tasks = []
    for task, cut in zip(stream.tasks, cuts(stream, config, device), strict=True):
        train, test = _send(ranks, partial(cut.train, task)), _send(ranks, partial(cut.test, task))
        tasks.append(replace(task, train=train, test=test))
    return replace(stream, tasks=tuple(tasks))


def _send(ranks: Ranks, cut: Callable[[Ranks], ShardedSamples]) -> ShardedSamples:
    """Send every rank its shards of samples that this process has."""
    mine = cut(ranks)
    tensors = {"y": mine.y, "row": mine.row, "shard": mine.shard}
    tensors |= {} if mine.z is None else {"z": mine.z}
    ranks.told(packed({"shards": mine.shards}, tensors))
    ranks.scattered([cut(Ranks(rank, ranks.size)).x for rank in range(ranks.size)])
    return mine


def _receive(ranks: Ranks) -> ShardedSamples:
    """Receive this rank's shards of samples that the first process has."""
    header, tensors = unpacked(ranks.told())
    return ShardedSamples(
        ranks.scattered(None),
        tensors["y"],
        tensors.get("z"),
        row=tensors["row"],
        shard=tensors["shard"],
        shards=header["shards"],
        ranks=ranks,
    )


def _begin(team: Team) -> tuple[dict[str, Any], RunConfig, torch.device, RunState]:
    """Receive the first message of an order."""
    header, tensors = unpacked(team.ranks.told())
    device = choose_device(header["device"])
    state = unpack(Packed(header["state"], tensors), device=device, registered=learner_named)
    return header, RunConfig.model_validate(header["config"]), device, state


def _follow_run(team: Team) -> None:
    header, config, device, state = _begin(team)
    about, _ = unpacked(team.ranks.told())
    tasks = [
        Task(tuple(classes), _receive(team.ranks), _receive(team.ranks), tuple(renewed))
        for classes, renewed in about.pop("tasks")
    ]
    for name in ("class_names", "attribute_values", "image"):
        about[name] = None if about[name] is None else tuple(about[name])
    run(
        config,
        header["seed"],
        stream=TaskStream(tasks=tuple(tasks), **about),
        device=device,
        state=state,
        checkpoint=lambda _: check(),
        between_steps=lambda _: check(),
        ranks=team.ranks,
    )


def _follow_lesson(team: Team) -> None:
    _, config, device, state = _begin(team)
    samples = _receive(team.ranks).to(device)
    with threadpool_limits(1, user_api="blas"), exact_convolutions(), same_bits():
        learn_task(config, state, samples, ranks=team.ranks)


def _follow_tasks(team: Team) -> None:
    """Compute tasks in rounds, one per round, until the first process sends no more."""
    order, tasks = sending.unpacked(team.ranks.told())
    while said := team.ranks.told():
        number = int.from_bytes(said, "little") + team.ranks.rank
        team.ranks.answers(sending.carry_out(order, tasks[number]) if number < len(tasks) else b"")


ORDERS = {"run": _follow_run, "lesson": _follow_lesson, "tasks": _follow_tasks}


class TeamEngine:
    """Computes independent tasks in all processes that were started together.

    In each round, every process computes one task of those that the first one sends. Results are in
    the order of the tasks.
    """

    asked = False  # torchrun may have started the processes for another method

    def __init__(self, team: Team) -> None:
        self._team, self.workers = team, team.ranks.size

    def map(self, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of all tasks, in order."""
        team, sent = self._team, [sending.packed(task) for task in tasks]
        order = sending.order_of(work)
        with _ordered(team, "tasks", sending.packed((order, sent))):
            try:
                for first in range(0, len(sent), self.workers):
                    team.ranks.told(first.to_bytes(LENGTH, "little"))
                    found = team.ranks.answers(sending.carry_out(order, sent[first]))
                    yield from map(sending.unpacked, found[: len(sent) - first])
            finally:
                if not team.lost:
                    team.ranks.told(b"")


def team_engine() -> TeamEngine | None:
    """Return an engine for the processes that were started together; None if there are none."""
    return TeamEngine(_TEAM[-1]) if _TEAM else None
