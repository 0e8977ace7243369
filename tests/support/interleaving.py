"""Two writers on one folder whose steps are executed in a given order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faircil.files import check_checksums, read_checksums
from faircil.results import folder as results_folder
from faircil.results.folder import read_run
from faircil.sweep import processes, store
from faircil.sweep.processes import Place, make_here
from faircil.sweep.store import Store
from faircil.sweep.work import Outcome, Work
from sweeps import small_work

TURNS = 24  # approximate number that a writer needs for its two runs
SEEDS = (0, 1)
# The work of a writer in one turn ends before the next of these.
STEPS: tuple[tuple[Any, str], ...] = (
    (store, "claim"),
    (store, "restore_run"),
    (Store, "find"),
    (processes, "make_run"),
    (results_folder, "write_json"),
    (results_folder, "write_checksums"),
    (results_folder, "_put_in_place"),
    (results_folder, "_old"),
)


def orders(number: int) -> list[str]:
    """Draw orders of the turns of two writers, as ``ABBA…``; always the same ones."""
    draw = random.Random(0)
    return ["".join(draw.sample("AB" * (TURNS // 2), TURNS)) for _ in range(number)]


class Turns:
    """Lets threads proceed one at a time in a given order; afterwards, without an order."""

    def __init__(self, order: str) -> None:
        self._order, self._changed = list(order), threading.Condition()

    def take(self) -> None:
        """Wait for the turn of this thread; unknown threads do not wait."""
        me = threading.current_thread().name
        with self._changed:
            if me in self._order:
                self._changed.wait_for(lambda: not self._order or self._order[0] == me)
                del self._order[:1]
                self._changed.notify_all()

    def leave(self) -> None:
        """Give up all turns of this thread."""
        me = threading.current_thread().name
        with self._changed:
            self._order = [other for other in self._order if other != me]
            self._changed.notify_all()


@contextmanager
def _ordered(turns: Turns) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "PATIENCE", 0.001)
        for owner, name in STEPS:
            patch.setattr(owner, name, _waits(getattr(owner, name), turns))
        yield


def _waits(real: Callable[..., Any], turns: Turns) -> Callable[..., Any]:
    def step(*given: Any, **named: Any) -> Any:
        turns.take()
        return real(*given, **named)

    return step


def write_together(folder: Path, order: str, *, again: bool = False) -> dict[str, list[Outcome]]:
    """Let two writers fill a folder; return the runs that each of them reports.

    Parameters
    ----------
    folder : Path
    order : str
        Order of their turns.
    again : bool
        Whether writer B repeats existing runs.
    """
    turns, said, problems = (
        Turns(order),
        dict[str, list[Outcome]](A=[], B=[]),
        list[BaseException](),
    )
    works = [small_work(seed) for seed in SEEDS]

    def write(name: str, works: list[Work]) -> None:
        place = Place(Store(folder=folder), again=again and name == "B")

        def heard(outcome: Outcome) -> None:
            if not again:
                check(outcome)
            said[name].append(outcome)

        try:
            make_here(works, place, heard)
        except BaseException as error:
            problems.append(error)
        finally:
            turns.leave()

    with _ordered(turns):
        threads = [
            threading.Thread(target=write, args=(name, each), name=name)
            for name, each in (("A", works), ("B", works[::-1]))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]
    for outcome in said["A"] + said["B"]:
        check(outcome)
    return said


def check(outcome: Outcome) -> None:
    """Check that a run reported by a writer exists, with all of its files."""
    assert outcome.problem is None, outcome.problem
    assert outcome.run is not None
    place = Path(outcome.run.dir)
    assert read_run(place).metrics == outcome.run.metrics
    check_checksums(place, list(read_checksums(place)))
    assert {"predictions.csv", "metrics.jsonl", "summary.json"} <= read_checksums(place).keys()
