"""Tasks on a Dask cluster: an existing one, or local processes started for the purpose.

Nothing is lost if a worker dies: Dask recomputes its tasks elsewhere, and what all workers need is
kept by the scheduler, not by a worker. Workers of ``local:N`` listen on this machine only, and
communicate only with holders of this cluster's key, which never leaves memory: anyone who can
connect to a worker can make it run code.
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
ANSWER = 60  # seconds to wait for an answer of the scheduler, or of workers
PATIENCE = 5.0  # seconds between checks for workers while a task is computed
LONELY = 12  # checks without any worker after which a cluster is given up
CLOSING = 10  # seconds to wait for processes to end before they are killed
INSTALL = "pip install distributed cryptography"
# For local processes: nobody views their dashboards, so they have none.
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.worker.profile.enabled": False,  # it would sample a hundred times a second
    # A worker that died is restarted within this time or not at all. On a busy machine, a few
    # seconds are not enough.
    "distributed.deploy.lost-worker-timeout": "1h",
}
# Work is sent only once, so a warning about its size would be of no help.
ANY_SIZE = {"distributed.admin.large-graph-warning-threshold": "1TB"}


class WorkersDiedError(FaircilError):
    """Several workers died on the same task."""


class Dask:
    """Computes tasks on the workers of a Dask cluster; those of dead workers are recomputed.

    Use it in a ``with`` block, which ends the processes and connections that it started.

    Parameters
    ----------
    scheduler : str or distributed.Client
        ``dask://host:port`` of a running scheduler (or its address in Dask's format, such as
        ``tls://host:port``), or ``local:4`` for four local processes; or a client, which is left
        open.

    Raises
    ------
    FaircilError
        If there is no answer, or workers have other versions of anything that can affect results.
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
        """Start local processes with one thread each."""
        package("cryptography")  # for the key of this cluster
        folder = TemporaryDirectory(prefix="faircil-dask-", ignore_cleanup_errors=True)
        self._stack.enter_context(folder)
        security = package("distributed.security").Security
        begin = worker_context((*TABLES, *DASK)).get_start_method()
        own = {
            "distributed.worker.multiprocessing-method": begin,
            "temporary-directory": folder.name,
        }
        # For the lifetime of the cluster: workers that died are restarted at any time.
        self._stack.enter_context(self._config.set({**SETTINGS, **own}))
        cluster = self._dask.LocalCluster.__new__(self._dask.LocalCluster)
        self._stack.callback(_end_cluster, cluster)  # even if it does not start completely
        # An interrupt would leave unknown workers behind, so it is deferred until the end.
        with waiting():
            cluster.__init__(
                n_workers=int(scheduler.removeprefix(LOCAL)),
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
                security=security.temporary(),
                memory_limit=0,  # unlimited, as for any other process
                local_directory=folder.name,
                silence_logs=logging.CRITICAL,  # mainly of workers that die
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
        """Return a client that is closed at the end, or at once if it cannot connect."""
        # A client that is not closed closes itself on garbage collection, possibly while another
        # client holds the lock that it then waits for.
        client = self._dask.Client.__new__(self._dask.Client)
        self._stack.callback(_quietly, client.close, timeout=CLOSING)
        client.__init__(place, set_as_default=False, **given)
        return client

    def _check_versions(self) -> None:
        """Raise an error for workers whose results would differ."""
        wanted = own_versions()
        faults = []
        found = self._asked(self.client.run, own_versions, on_error="return")
        for address, there in found.items():
            if isinstance(there, ImportError):
                faults.append(f"{address} cannot import faircil ({there})")
            elif isinstance(there, dict) and there != wanted:  # else it has died in the meantime
                faults.append(f"{address} has {described(there, wanted)}")
        if faults:
            raise FaircilError(
                f"workers of {self._name} cannot be used: {shortened(faults)}; install the same "
                "versions there as here"
            )

    @property
    def workers(self) -> int:
        """Number of threads of all workers."""
        return max(1, sum(self._threads().values()))

    @property
    def addresses(self) -> list[str]:
        """Addresses of all workers."""
        return list(self._threads())

    def _threads(self) -> dict[str, int]:
        """Return the number of threads of each worker, by its address."""
        return dict(self._asked(self.client.nthreads))

    def map(self, work: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """Yield the results of all tasks, in order."""
        order = self.order(work)
        waiting: deque[Any] = deque()  # futures in order
        place: dict[Any, str] = {}  # the worker to which each future was assigned
        begun = 0
        try:
            while waiting or begun < len(tasks):
                threads = self._threads()
                most = AHEAD * max(1, sum(threads.values()))
                busy = Counter(place[future] for future in waiting if not future.done())
                load = {one: busy[one] / (number or 1) for one, number in threads.items()}
                while begun < len(tasks) and len(waiting) < most:
                    # Dask distributes tasks by estimates of their duration, which it cannot know.
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
        """Send work to the cluster; return the order for :meth:`begin`."""
        # A separate task that the scheduler can recompute: data scattered to a worker is lost with
        # it.
        with self._config.set(ANY_SIZE), self._present():
            return self.client.submit(_as_it_is, order_of(work), pure=False)

    def begin(self, order: Any, task: Any, at: str | None = None) -> Any:
        """Start a task and return its future.

        Parameters
        ----------
        order : object
            Returned by :meth:`order`.
        task : object
        at : str, optional
            Address of the preferred worker.
        """
        place = {} if at is None else {"workers": [at], "allow_other_workers": True}
        with self._present():
            return self.client.submit(carry_out_alone, order, packed(task), pure=False, **place)

    def wait(self, futures: Sequence[Any]) -> None:
        """Wait until one of the tasks is finished."""

        def look() -> None:
            with self.client.as_current():
                self._dask.wait(list(futures), timeout=PATIENCE, return_when="FIRST_COMPLETED")

        self._patiently(look)

    def _patiently(self, look: Callable[[], Result]) -> Result:
        """Return the result of ``look``, which may time out as long as the cluster has workers."""
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
        """Return the result of a finished task, or raise its error.

        Raises
        ------
        WorkersDiedError
            If every worker that received it died.
        """
        # The worker that holds it may die at this point; the task is then recomputed.
        return unpacked(self._patiently(lambda: future.result(timeout=PATIENCE)))

    def settle(self, futures: Sequence[Any], seconds: float) -> None:
        """Wait until all tasks are finished, up to a time limit."""
        if futures:
            with self.client.as_current():
                _quietly(self._dask.wait, list(futures), timeout=seconds)

    def everywhere(self, call: Callable[..., object], *given: Any) -> None:
        """Call a function on all current workers."""
        _quietly(self._asked, self.client.run, call, *given)

    def wait_for_workers(self) -> None:
        """Wait until there is at least one worker."""
        try:
            with self._present():
                self.client.wait_for_workers(1, timeout=LONELY * PATIENCE)
        except TimeoutError:
            raise self._lonely() from None

    def _asked(self, call: Callable[..., Any], *given: Any, **more: Any) -> Any:
        """Call a method of the client, waiting for at most :data:`ANSWER` seconds."""
        try:
            with self._present():
                return self.client.sync(call, *given, callback_timeout=ANSWER, **more)
        except OSError as error:  # of a connection, or a timeout
            raise self._scheduler_gone(error) from None

    def cancel(self, futures: Sequence[Any]) -> None:
        """Cancel tasks."""
        _quietly(self._asked, self.client.cancel, list(futures))  # the scheduler may be gone

    @contextmanager
    def _present(self) -> Iterator[None]:
        """Turn Dask's errors into messages: workers that keep dying, a lost scheduler."""
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
    """Run work on a worker, in one or several threads at a time."""
    one_thread_each()
    return carry_out(order, task)


def dask_setup(_: object) -> None:
    """Let a local worker leave signals of the terminal to the process that started it."""
    ignore_terminal()


def _end_cluster(cluster: Any) -> None:
    """End local processes; kill those that do not end in time."""
    nannies = list(getattr(cluster, "workers", {}).values())
    _quietly(cluster.close, timeout=CLOSING)
    cluster.shutdown_on_close = False  # it would wait once more at interpreter exit
    for number in [nanny.pid for nanny in nannies if nanny.pid is not None]:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def _quietly(end: Callable[..., object], *things: Any, **given: Any) -> None:
    """End something that may already have ended."""
    with suppress(Exception):
        end(*things, **given)


def package(name: str) -> Any:
    """Import Dask or a part of it; raise an error with installation advice if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"a scheduler needs the package {name.partition('.')[0]} ({error}): {INSTALL}, or use "
            "processes of this machine with `jobs`"
        ) from None
