"""Processes of this machine: what they are copies of, and how they end."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine_tasks import SQUARES, in_order, parent_of, process_of, sleep, square
from faircil import beginning, engines as module
from faircil.engines import Processes, Worker
from faircil.errors import FaircilError, UsageError

SUPPORT = Path(__file__).parent / "support"
KNOW_COPIES = {"jemalloc_bg_thd"}  # threads of libraries that prepare for copies: Arrow's memory


# In a process of its own: in this one, the server may be what other tests began for their copies.
WORKERS = """
import json, os
from pathlib import Path
from engine_tasks import count_frozen, in_order, parent_of
from faircil.engines import Processes

with Processes(2) as engine:
    (server,) = {*in_order(engine, parent_of)}
    found = in_order(engine, count_frozen)
tasks = [task for task in Path(f"/proc/{server}/task").iterdir() if task.name != str(server)]
print(json.dumps({
    "begun by us": f"PPid:\\t{os.getpid()}" in Path(f"/proc/{server}/status").read_text(),
    "threads": [(task / "comm").read_text().strip() for task in tasks],
    "looking": [looking for looking, _ in found],
    "frozen": [frozen for _, frozen in found],
}))
"""


@pytest.mark.skipif(not beginning.HAS_SERVER, reason="every process imports for itself there")
def test_workers_are_copies_of_a_process_that_only_imports() -> None:
    path = os.pathsep.join(filter(None, [str(SUPPORT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", WORKERS],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["begun by us"]
    # Copies of a process with others could wait for ever for what those hold.
    assert {*told["threads"]} <= KNOW_COPIES
    # Workers look for cycles, but not among what the server has imported.
    assert all(told["looking"])
    assert min(told["frozen"]) > 10_000


def test_cycles_are_looked_for_again_after_imports() -> None:
    beginning.import_early(["this_module_is_absent", "faircil.errors"])
    assert gc.isenabled()


def test_where_no_copies_are_made_every_process_begins_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beginning, "HAS_SERVER", False)
    with Processes(1) as engine:
        assert in_order(engine, parent_of, [0]) == [os.getpid()]
        assert in_order(engine, square) == SQUARES


@pytest.mark.usefixtures("hears_signals")
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
def test_an_interrupt_ends_processes_whatever_they_do() -> None:
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt), Processes(2) as engine:  # noqa: PT012
        at_work = {*in_order(engine, process_of, range(4))}
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        in_order(engine, sleep, [100, 100, 100])
    assert time.monotonic() - start < 60
    for number in at_work:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)


def test_a_process_ends_when_the_one_that_began_it_is_gone() -> None:
    worker = Worker.begin()
    worker.pipe.close()  # as the end of this process would
    worker.process.join(60)
    assert worker.process.exitcode == 0


def test_processes_are_begun_by_a_block() -> None:
    with pytest.raises(UsageError, match="by a with statement"):
        in_order(Processes(2), square)


def test_a_process_that_cannot_begin_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    kind = type(module.worker_context().Process())  # type: ignore[attr-defined]
    monkeypatch.setattr(kind, "start", refuse)
    with (
        pytest.raises(FaircilError, match=r"cannot be started \(.*unavailable\); use fewer `jobs`"),
        Processes(1) as engine,
    ):
        in_order(engine, square)
