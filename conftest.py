"""Set-up of all tests.

The process that hands tests to the others (``-n``) reads this file too, and runs none of them:
imports that take seconds are inside the functions that need them.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from faircil.runs.state import RunState


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Do not look for garbage among what tests import: there is little, and looking takes long."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Draw the same examples each time and everywhere: what passes here passes elsewhere.

    With ``--hypothesis-profile default``, as in `make soak`, they are drawn at random.
    """
    config = collector.config
    if isinstance(collector, pytest.Session) and not config.getoption("--hypothesis-profile"):
        from hypothesis import settings
        from hypothesis.internal.conjecture import providers

        settings.register_profile("same examples", derandomize=True)
        settings.load_profile("same examples")
        # Else constants of modules are drawn, too, as far as they are imported: which ones are
        # depends on the tests before. Versions before 6.131 have no such constants.
        if hasattr(providers, "_get_local_constants"):
            nothing = providers.Constants()
            providers._get_local_constants = lambda: nothing


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the user say how many cases the tests draw that take minutes."""
    parser.addoption("--cases", type=int, default=40, help="random cases of a soak test")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Number the cases of a soak test."""
    if "case" in metafunc.fixturenames and metafunc.definition.get_closest_marker("soak"):
        metafunc.parametrize("case", range(metafunc.config.getoption("--cases")))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep small nets on one core: on a busy machine, threads that wait for each other crawl."""
    import torch

    from faircil import compute

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compute, "SEVERAL", 1)
        patch.setenv("OMP_NUM_THREADS", "1")  # of processes that tests start
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str | None]:
    """Hide the user's data and cache, so that tests pass or fail alike everywhere."""
    given = os.environ.get("FAIRCIL_DATA")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRCIL_DATA", str(tmp_path_factory.mktemp("no-data")))
        patch.setenv("FAIRCIL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield given


@pytest.fixture(autouse=True)
def _data(
    request: pytest.FixtureRequest, _own_folders: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Show the user's data to tests marked with the datasets that they need; skip without."""
    needed = request.node.get_closest_marker("data")
    if needed is None:
        return
    from faircil.data.datasets import DATASETS

    if _own_folders is None:
        monkeypatch.delenv("FAIRCIL_DATA")
    else:
        monkeypatch.setenv("FAIRCIL_DATA", _own_folders)
    for name in needed.args:
        if missing := DATASETS[name].missing_files():
            pytest.skip(
                f"needs {name}: `faircil data fetch {name}` fetches it or says how to get it; "
                f"or set FAIRCIL_DATA to the folder that has {missing[0].parent.name}/"
            )


@pytest.fixture
def hears_signals() -> Iterator[None]:
    """Hear Ctrl-C and the end of a terminal also in tests that run in the background.

    A shell starts those with SIGINT ignored, and ``nohup`` with SIGHUP; so would their processes.
    """
    heard = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    numbers = {getattr(signal, name): to for name, to in heard.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[RunState]:
    """Collect the states of all runs that a test makes, in order."""
    from faircil.runs import experiment

    collected: list[RunState] = []
    start = experiment.start_run

    def collecting(*arguments: Any) -> RunState:
        collected.append(start(*arguments))
        return collected[-1]

    monkeypatch.setattr(experiment, "start_run", collecting)
    return collected
