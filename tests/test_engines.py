"""Engines: the same results in the same order, whoever computes them and whoever dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.multiprocessing import spawn

from engine_tasks import (
    SQUARES,
    TASKS,
    DieOnce,
    break_down,
    die,
    in_order,
    inner_function,
    kill_one,
    knows,
    nothing,
    process_of,
    refuse,
    square,
)
from faircil.cluster import Dask
from faircil.data import parts as parts_module
from faircil.data.part_files import parted_table
from faircil.engines import DEATHS, Engine, Here, Processes, RankEngine, engine_for
from faircil.errors import DataError, FaircilError, UsageError
from faircil.metrics import METRICS, Metric
from faircil.model.in_parts import fit_parts
from faircil.model.model import Model
from faircil.sending import AHEAD
from rank_tasks import SMALL, WISH, be_a_rank
from tables_in_parts import people, roles, stored
from tensors import assert_same_bits, digest_of

pytest.importorskip("pyarrow")
SENT = ["processes", "dask"]  # engines that send work to others


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, Engine]]:
    pytest.importorskip("distributed")
    with Processes(2) as processes, Dask("local:2") as dask:
        yield {"here": Here(), "processes": processes, "dask": dask}


@pytest.fixture(params=["here", *SENT])
def engine(request: pytest.FixtureRequest, engines: dict[str, Engine]) -> Engine:
    return engines[request.param]


@pytest.fixture(params=SENT)
def sending(request: pytest.FixtureRequest, engines: dict[str, Engine]) -> Engine:
    return engines[request.param]


def test_results_come_in_the_order_of_tasks(engine: Engine) -> None:
    assert in_order(engine, square) == SQUARES
    assert in_order(engine, square, []) == []


def test_an_error_for_the_user_arrives_as_it_is(engine: Engine) -> None:
    with pytest.raises(DataError) as caught:
        in_order(engine, refuse)
    assert caught.value.args == ("three is refused", "and so is this")
    assert in_order(engine, square) == SQUARES


def test_a_defect_keeps_its_kind(engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError):
        in_order(engine, break_down)


def test_results_that_nobody_wants_are_let_go(engine: Engine) -> None:
    found = iter(engine.map(square, TASKS))
    assert next(found) == 0
    del found
    assert in_order(engine, square) == SQUARES


def test_two_processes_compute(sending: Engine) -> None:
    assert sending.workers == 2
    assert len(set(in_order(sending, process_of))) == 2


@pytest.mark.parametrize("how", ["kill", "exit"])
def test_what_a_dead_process_had_is_done_again(sending: Engine, how: str, tmp_path: Path) -> None:
    flag = tmp_path / "died"
    assert in_order(sending, DieOnce(str(flag), how)) == SQUARES
    assert flag.exists()


def test_a_task_that_always_kills_its_process_is_given_up(sending: Engine) -> None:
    with pytest.raises(FaircilError, match=rf"died [{DEATHS}{DEATHS + 1}] times at the same part"):
        in_order(sending, die)
    assert in_order(sending, square) == SQUARES


def test_what_cannot_be_sent_is_told(sending: Engine) -> None:
    with pytest.raises(UsageError, match="cannot be sent to another process"):
        in_order(sending, lambda number: number)
    with pytest.raises(UsageError, match="cannot be sent to another process"):
        in_order(sending, inner_function)


def test_registered_pieces_are_known_there(sending: Engine) -> None:
    def inside(_: object) -> float:
        return 0.0

    with METRICS.temporarily("own", Metric(nothing, "none", "Never anything")):
        assert in_order(sending, knows, ["own"]) == [True]
    with (
        METRICS.temporarily("mine", Metric(inside, "none", "Never anything")),
        pytest.raises(UsageError, match="metric 'mine' is defined inside a function"),
    ):
        in_order(sending, knows, ["mine"])


def is_there(process: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def within(seconds: float, done: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not done() and time.monotonic() < until:
        time.sleep(0.05)
    return done()


@pytest.mark.usefixtures("hears_signals")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("number", ["SIGINT", "SIGHUP", "SIGTERM", "SIGKILL"])
def test_processes_end_at_once_with_the_one_that_began_them(number: str, tmp_path: Path) -> None:
    """Ctrl-C and a terminal that closes reach all, SIGTERM and SIGKILL the first alone."""
    begun = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import engine_tasks as e; e.stop_in_the_middle({str(tmp_path)!r})",
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert within(60, lambda: len(list(tmp_path.iterdir())) == 2)
        workers = [int(path.name) for path in tmp_path.iterdir()]
        send = os.killpg if number in ("SIGINT", "SIGHUP") else os.kill
        send(begun.pid, getattr(signal, number))
        out, err = begun.communicate(timeout=20)
        assert out == ("" if number == "SIGKILL" else f"stopped by {number}\n")
        assert "Traceback" not in err
        assert within(20, lambda: not any(map(is_there, workers)))
        assert len(list(tmp_path.iterdir())) == 2  # no others were begun
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(begun.pid, signal.SIGKILL)


def fitted(path: Path, engine: Engine, *, killing: bool = False) -> Model:
    """Fit a folder of Parquet; a process may be killed when a third of the rows is summed."""
    table = parted_table(path)
    assert table is not None
    killed: list[int] = []

    def progress(done: int, rows: int) -> None:
        if killing and not killed and done > rows / 3:
            killed.append(done)
            kill_one(engine)

    model = fit_parts(table, roles(path), WISH, engine=engine, hold_out=0.2, progress=progress)
    assert bool(killed) == killing
    return model


def test_a_model_has_the_same_bits_wherever_it_is_made_and_whoever_dies(
    engines: dict[str, Engine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "PART_ROWS", 100)
    path = stored(people(3000), tmp_path / "people")
    here = fitted(path, engines["here"])
    for name in SENT:
        other = fitted(path, engines[name], killing=True)
        assert_same_bits(here, other)
        assert other.measured[-1].metrics == here.measured[-1].metrics


def test_ranks_find_the_same_as_one_process(tmp_path: Path) -> None:
    path = stored(people(), tmp_path / "people")
    spawn(be_a_rank, (2, str(tmp_path)), nprocs=2)
    one, two = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1))
    assert one == two
    assert one["workers"] == 2
    assert one["squares"] == SQUARES
    assert one["again"] == [0]
    assert one["refused"] == ["DataError", "three is refused", "and so is this"]
    assert one["broken"] == ["FaircilError", "rank 0 failed: ZeroDivisionError: 0"]
    assert one[f"model {RankEngine.__name__}"] == one["model Here"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts_module, "PART_ROWS", SMALL)
        table = parted_table(path)
    assert table is not None
    assert digest_of(fit_parts(table, roles(path), WISH)) == one["model Here"]


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    made: list[Any] = []

    class Seen(distributed.Client):  # type: ignore[misc, name-defined]
        def __init__(self, *given: Any, **more: Any) -> None:
            made.append(self)
            super().__init__(*given, **more)

    monkeypatch.setattr(distributed, "Client", Seen)
    monkeypatch.setattr("faircil.cluster.CONNECTING", 0.5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"dask://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(FaircilError, match=f"no Dask scheduler answers at {address}"):
            Dask(address)
    # Else it would close itself when it is collected, at a time when that may wait for ever.
    assert [client.status for client in made] == ["closed"]


def test_workers_that_do_not_answer_are_not_waited_for(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    dask = engines["dask"]
    assert isinstance(dask, Dask)
    monkeypatch.setattr("faircil.cluster.ANSWER", 0.2)
    start = time.monotonic()
    dask.everywhere(time.sleep, 2)
    assert time.monotonic() - start < 1.5
    with pytest.raises(FaircilError, match="does not answer"):
        Dask(dask.client)  # which asks for versions
    time.sleep(2)


def test_every_worker_has_its_own_next_tasks(
    engines: dict[str, Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    dask, places = engines["dask"], []
    assert isinstance(dask, Dask)
    begin = dask.begin

    def noted(order: Any, task: Any, at: str | None = None) -> Any:
        places.append(at)
        return begin(order, task, at)

    monkeypatch.setattr(dask, "begin", noted)
    # As many as are begun at once: which ones come later depends on how busy the workers are.
    in_order(dask, square, range(AHEAD * dask.workers))
    assert Counter(places) == dict.fromkeys(dask.addresses, AHEAD)


def test_mistakes_in_the_choice_of_an_engine() -> None:
    with pytest.raises(UsageError) as caught, engine_for(0, "somewhere"):
        pass
    assert len(caught.value.args) == 2
    for wrong in ("local:", "local:0", "local:two", "local:²", "dask://", "host:8786"):
        with pytest.raises(UsageError, match="expected dask://HOST:PORT"), engine_for(1, wrong):
            pass
    with pytest.raises(UsageError, match="`jobs` and `scheduler`"), engine_for(2, "local:2"):
        pass
    with engine_for() as engine:
        assert isinstance(engine, Here)
    with engine_for(3) as engine:
        assert isinstance(engine, Processes)
        assert engine.workers == 3
