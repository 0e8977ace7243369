"""Tasks on a Dask cluster: one that runs already, or processes of this machine begun for it.

A worker that dies loses nothing: Dask computes its tasks again elsewhere, and what all workers
need is kept by the scheduler, not by one of them. Workers of ``local:N`` listen on this machine
alone, and talk to nobody without the key of this cluster, which never leaves memory: whoever can
talk to a worker can let it run code.
"""

from __future__ import annotations

import logging
import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

from faircil.beginning import DASK, TABLES, worker_context
from faircil.errors import FaircilError, UsageError, shortened
from faircil.sending import (
    AHEAD,
    Order,
    carry_out,
    described,
    one_thread_each,
    order_of,
    own_versions,
    packed,
    unpacked,
)
from faircil.stopping import check, ignore_terminal, waiting

Task = TypeVar("Task")
Result = TypeVar("Result")
DASK_SCHEME, LOCAL = "dask://", "local:"
ADDRESSES = (DASK_SCHEME, "tcp://", "tls://", "ws://", "wss://", "ucx://")
CONNECTING = 10  # seconds to wait for a scheduler
ANSWER = 60  # seconds to wait for an answer of it, or of workers that are to say something
PATIENCE = 5.0  # seconds between looks at workers while a task is computed
LONELY = 12  # looks at a cluster without workers, until it is given up
CLOSING = 10  # seconds to wait for processes that end; then they are killed
INSTALL = "pip install distributed cryptography"
# Of processes of this machine: nobody looks at their pages, so they have none.
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,  # it would look a hundred times a second
    # A worker that died has this long to be there again; after that nobody begins it any more. On
    # a busy machine, seconds are not enough.
    "distributed.deploy.lost-worker-timeout": "1h",
}
# Work is sent once, so that a message about its size would tell nobody anything.
ANY_SIZE = {"distributed.admin.large-graph-warning-threshold": "1TB"}


class WorkersDiedError(FaircilError):
    """Several workers died at the same task."""


class Dask:
    """Computes tasks on the workers of a Dask cluster; what a dead one had is done again.

    To be used in a ``with`` block, which ends the processes and connections that it has begun.

    Parameters
    ----------
    scheduler : str or distributed.Client
        ``dask://host:port`` of a scheduler that runs (or its address as Dask writes it, such as
        ``tls://host:port``), or ``local:4`` for four processes of this machine; or a client, which
        stays as it is.

    Raises
    ------
    FaircilError
        If nobody answers there, or workers have other versions of what can change a result.
    """

    asked = True

    def __init__(self, scheduler: Any) -> None:
        self._dask, self._config = package("distributed"), package("dask.config")
        comm = package("distributed.comm.core")
        client = self._dask.client
        self._gone = (client.CancelledError, client.ClosedClientError, comm.CommClosedError)
        self._stack = ExitStack()
        try:
            if not isinstance(scheduler, str):
                self.client, self._name = scheduler, "Dask"
            elif scheduler.startswith(LOCAL):
                self.client, self._name = self._local(scheduler), scheduler
            else:
                self.client, self._name = self._connected(scheduler), scheduler
            self._check_versions()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _local(self, scheduler: str) -> Any:
        """Begin processes of this machine, one thread each."""
        package("cryptography")  # of the key of this cluster
        folder = TemporaryDirectory(prefix="faircil-dask-", ignore_cleanup_errors=True)
        self._stack.enter_context(folder)
        security = package("distributed.security").Security
        begin = worker_context((*TABLES, *DASK)).get_start_method()
        own = {
            "distributed.worker.multiprocessing-method": begin,
            "temporary-directory": folder.name,
        }
        # As long as the cluster lasts: workers that died are begun again at any time.
        self._stack.enter_context(self._config.set({**SETTINGS, **own}))
        cluster = self._dask.LocalCluster.__new__(self._dask.LocalCluster)
        self._stack.callback(_end_cluster, cluster)  # also of one that is not begun to its end
        # A stop in the middle would leave workers that nobody knows: it waits for the end.
        with waiting():
            cluster.__init__(
                n_workers=int(scheduler.removeprefix(LOCAL)),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                security=security.temporary(),
                memory_limit=0,  # as for any other process
                local_directory=folder.name,
                silence_logs=logging.CRITICAL,  # of workers that die, above all
                preload=[__name__],
            )
            client = self._client(cluster)
        check()
        return client

    def _connected(self, scheduler: str) -> Any:
        place = scheduler.removeprefix(DASK_SCHEME)
        address = place if "://" in place else f"tcp://{place}"
        try:
            return self._client(address, timeout=CONNECTING)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise FaircilError(
                f"no Dask scheduler answers at {scheduler} ({str(error) or 'timed out'}); start "
                "one with `dask scheduler`, and workers with `dask worker ADDRESS`"
            ) from None

    def _client(self, place: Any, **given: Any) -> Any:
        """Return a client that is closed at the end, and at once if it cannot connect."""
        # One that is neither closes itself when it is collected: perhaps while another one holds
        # the lock that it waits for then.
        client = self._dask.Client.__new__(self._dask.Client)
        self._stack.callback(_quietly, client.close, timeout=CLOSING)
        client.__init__(place, set_as_default=False, **given)
        return client

    def _check_versions(self) -> None:
        """Refuse workers with which results would differ."""
        wanted = own_versions()
        faults = []
        found = self._asked(self.client.run, own_versions, on_error="return")
        for address, there in found.items():
            if isinstance(there, ImportError):
                faults.append(f"{address} cannot import faircil ({there})")
            elif isinstance(there, dict) and there != wanted:  # else it has died meanwhile
                faults.append(f"{address} has {described(there, wanted)}")
        if faults:
            raise FaircilError(
                f"workers of {self._name} cannot be used: {shortened(faults)}; install the same "
                "versions there as here"
            )

    @property
    def workers(self) -> int:
        """Threads of all workers."""
        return max(1, sum(self._threads().values()))

    @property
    def addresses(self) -> list[str]:
        """Of all workers."""
        return list(self._threads())

    def _threads(self) -> dict[str, int]:
        """Return the number of threads of each worker, by its address."""
        return dict(self._asked(self.client.nthreads))

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in their order."""
        order = self.order(work)
        waiting: deque[Any] = deque()  # futures, the next first
        place: dict[Any, str] = {}  # by future: at which worker it is begun
        begun = 0
        try:
            while waiting or begun < len(tasks):
                threads = self._threads()
                most = AHEAD * max(1, sum(threads.values()))
                busy = Counter(place[future] for future in waiting if not future.done())
                load = {one: busy[one] / (number or 1) for one, number in threads.items()}
                while begun < len(tasks) and len(waiting) < most:
                    # Dask spreads tasks by what it guesses that they take, which it cannot know.
                    at = min(load, key=load.__getitem__, default=None)
                    waiting.append(self.begin(order, tasks[begun], at))
                    place[waiting[-1]] = at or ""
                    if at is not None:
                        load[at] += 1 / (threads[at] or 1)
                    begun += 1
                if waiting[0].done():
                    place.pop(waiting[0])
                    yield self.result(waiting.popleft())
                else:
                    first, *others = waiting
                    self.wait([first, *(future for future in others if not future.done())])
        finally:
            self.cancel([*waiting, order])

    def order(self, work: Callable[[Any], Any]) -> Any:
        """Send work to the cluster; return what :meth:`begin` takes."""
        # A task of its own, which the scheduler can do again: data that is given to a worker is
        # lost with it.
        with self._config.set(ANY_SIZE), self._present():
            return self.client.submit(_as_it_is, order_of(work), pure=False)

    def begin(self, order: Any, task: Any, at: str | None = None) -> Any:
        """Begin a task and return its future.

        Parameters
        ----------
        order : object
            From :meth:`order`.
        task : object
        at : str, optional
            Address of the worker that does it if it can.
        """
        place = {} if at is None else {"workers": [at], "allow_other_workers": True}
        with self._present():
            return self.client.submit(carry_out_alone, order, packed(task), pure=False, **place)

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait until one of the tasks is done."""

        def look() -> None:
            with self.client.as_current():
                self._dask.wait(list(futures), timeout=PATIENCE, return_when="FIRST_COMPLETED")

        self._patiently(look)

    def _patiently(self, look: Callable[[], Result]) -> Result:
        """Return what ``look`` finds; it may time out, as long as the cluster has workers."""
        lonely = 0
        while lonely < LONELY:
            with suppress(TimeoutError), self._present():
                return look()
            lonely = 0 if self.addresses else lonely + 1
        raise self._lonely()

    def _lonely(self) -> FaircilError:
        return FaircilError(
            f"{self._name} has had no workers for {LONELY * PATIENCE:.0f} seconds; start some with "
            "`dask worker ADDRESS`, then run the same command again"
        )

    def result(self, future: Any) -> Any:
        """Return the result of a task that is done, or raise its error.

        Raises
        ------
        WorkersDiedError
            If every worker died that it was given to.
        """
        # The worker that has it may die now: then the task is done again.
        return unpacked(self._patiently(lambda: future.result(timeout=PATIENCE)))

    def settle(self, futures: Sequence[Any], seconds: float) -> None:
        """Wait until all tasks are done, but no longer."""
        if futures:
            with self.client.as_current():
                _quietly(self._dask.wait, list(futures), timeout=seconds)

    def everywhere(self, call: Callable[..., object], *given: Any) -> None:
        """Call something on all workers that are there."""
        _quietly(self._asked, self.client.run, call, *given)

    def wait_for_workers(self) -> None:
        """Wait until there is a worker."""
        try:
            with self._present():
                self.client.wait_for_workers(1, timeout=LONELY * PATIENCE)
        except TimeoutError:
            raise self._lonely() from None

    def _asked(self, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Call a method of the client, but wait no longer than :data:`ANSWER` seconds."""
        try:
            with self._present():
                return self.client.sync(call, *given, callback_timeout=ANSWER, **more)
        except OSError as error:  # of a connection, or that it is too late
            raise self._scheduler_gone(error) from None

    def cancel(self, futures: Sequence[Any]) -> None:
        """Let go of tasks."""
        _quietly(self._asked, self.client.cancel, list(futures))  # the scheduler may be gone

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Turn errors of Dask into messages: workers die again and again, the scheduler is gone."""
        try:
            yield
        except self._dask.scheduler.KilledWorker as error:
            raise WorkersDiedError(
                f"workers of {self._name} died {error.allowed_failures + 1} times at the same part "
                "of the work; usually because memory ran out: use fewer workers on a machine, "
                "or fewer features"
            ) from None
        except self._gone as error:
            raise self._scheduler_gone(error) from None

    def _scheduler_gone(self, error: Exception) -> FaircilError:
        return FaircilError(
            f"the scheduler of {self._name} is gone, or does not answer ({type(error).__name__}); "
            "start it, then run the same command again"
        )


def _as_it_is(order: Order) -> Order:
    return order


def carry_out_alone(order: Order, task: bytes) -> bytes:
    """Do work on a worker, of which several threads may do that at a time."""
    one_thread_each()
    return carry_out(order, task)


def dask_setup(_: object) -> None:
    """Let a worker of this machine leave signals of the terminal to the process that began it."""
    ignore_terminal()


def _end_cluster(cluster: Any) -> None:
    """End the processes of this machine: those that do not end in time are killed."""
    nannies = list(getattr(cluster, "workers", {}).values())
    _quietly(cluster.close, timeout=CLOSING)
    cluster.shutdown_on_close = False  # it would wait once more when Python ends
    for number in [nanny.pid for nanny in nannies if nanny.pid is not None]:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _quietly(end: Callable[..., object], *things: Any, **given: Any) -> None:
    """End something that may have ended already."""
    with suppress(Exception):
        end(*things, **given)


def package(name: str) -> Any:
    """Import Dask, or a part of it; say how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"a scheduler needs the package {name.partition('.')[0]} ({error}): {INSTALL}, or use "
            "processes of this machine with `jobs`"
        ) from None
