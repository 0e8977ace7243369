"""Sweeps on the command line: options, progress and final messages."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from faircil.cli.common_options import add_scheduler_argument, check_workers
from faircil.cli.console import duration, make_console, say
from faircil.errors import FaircilError, UsageError

if TYPE_CHECKING:
    from faircil.sweep.sweep import SweepOptions
    from faircil.sweep.work import Outcome, Work

MOST_PROBLEMS = 10
EVERY = 10.0  # seconds between progress lines in a log


def add_sweep_arguments(parser: argparse.ArgumentParser, *, quiet: bool = True) -> None:
    """Declare the options of commands that execute many runs; ``--quiet`` may already exist."""
    how = parser.add_argument_group("running and storing")
    how.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="parallel runs on the CPU (default: 1)"
    )
    add_scheduler_argument(how)
    how.add_argument(
        "--gpu-jobs",
        type=int,
        default=0,
        metavar="N",
        help="parallel runs that share the GPU, in addition to those on the CPU (default: 0)",
    )
    how.add_argument(
        "--runs",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="folder of runs (default: runs)",
    )
    how.add_argument(
        "--any-code",
        action="store_true",
        help="reuse finished runs of other code versions; reports say so",
    )
    if quiet:
        how.add_argument("--quiet", action="store_true", help="print neither progress nor notes")


def sweep_options(
    arguments: argparse.Namespace, mistakes: list[str], *, run_missing: bool = True
) -> SweepOptions:
    """Read the options; append errors to ``mistakes``."""
    from faircil.sweep.sweep import SweepOptions

    check_workers(arguments, mistakes)
    if arguments.scheduler is not None and arguments.gpu_jobs:
        mistakes.append("--gpu-jobs and --scheduler are given; give one of them")
    if arguments.gpu_jobs < 0:
        mistakes.append(f"--gpu-jobs is {arguments.gpu_jobs}, expected 0 or more")
    mistakes += missing_gpu() if arguments.gpu_jobs > 0 else []
    return SweepOptions(
        arguments.runs,
        arguments.jobs,
        arguments.gpu_jobs,
        arguments.any_code,
        run_missing,
        scheduler=arguments.scheduler,
    )


def missing_gpu() -> list[str]:
    """Return a message if there is no GPU for ``--gpu-jobs``."""
    from faircil.compute import choose_device

    try:
        choose_device("cuda")
    except UsageError:
        return [
            "--gpu-jobs needs a GPU, and torch sees none; leave it out, or install a CUDA build of "
            "torch"
        ]
    return []


def finish_shown(works: Sequence[Work], options: SweepOptions, quiet: bool) -> list[Outcome]:
    """Execute all missing runs, show progress, and report problems."""
    from faircil.sweep.sweep import finish

    with tallying(works, quiet) as tally:
        try:
            outcomes = finish(
                works, options, tally.ended, tally.found, waiting=tally.waiting, tell=tally.say
            )
        except FaircilError:
            say(f"{tally.standing} in {options.root}; the same command continues with the others")
            raise
        except KeyboardInterrupt as stop:
            stop.add_note(f"{tally.standing} in {options.root}, and what was started is saved")
            stop.add_note("the same command continues from there")
            raise
    if not quiet:
        _say_problems(outcomes)
    return outcomes


class Tally:
    """Counts runs, and estimates the remaining time."""

    def __init__(self, works: Sequence[Work], progress: Progress | Console | None) -> None:
        from faircil.sweep.sweep import effort

        self._efforts = {work.key: effort(work) for work in works}
        self._left = sum(self._efforts.values())
        self._done = 0.0
        self._progress, self._bar = progress, TaskID(0)
        self._start, self._last_line = time.monotonic(), -EVERY
        self.total, self.finished, self.failed, self.reused = len(self._efforts), 0, 0, 0
        if isinstance(progress, Progress):
            self._bar = progress.add_task("", total=self.total, detail="looking for finished runs")

    @property
    def standing(self) -> str:
        """The state of the sweep if it ended now."""
        return f"{self.finished} of {self.total} runs are finished and kept"

    def found(self, outcome: Outcome) -> None:
        """Count an existing run."""
        self.reused += 1
        self._count(outcome)

    def ended(self, outcome: Outcome) -> None:
        """Count a run that was executed or has failed; only the time of executed ones counts."""
        if outcome.run is not None:
            self._done += self._efforts[outcome.work.key]
        if outcome.replaced is not None:
            self.say(f"regenerated {outcome.work.name}: {outcome.replaced}")
        self._count(outcome)

    def waiting(self, work: Work) -> None:
        """Report that another process is executing a run."""
        self.say(f"another process is running {work.name}; waiting for it")

    def say(self, message: str) -> None:
        """Print a line, above the progress bar if there is one."""
        if self._progress is not None:
            shown = self._progress
            console = shown.console if isinstance(shown, Progress) else shown
            console.print(Text(message), soft_wrap=True)

    def _count(self, outcome: Outcome) -> None:
        self._left -= self._efforts[outcome.work.key]
        self.finished += outcome.run is not None
        self.failed += outcome.run is None
        text = f"{self.finished} of {self.total} runs"
        text += f", {self.reused} of them reused" * bool(self.reused)
        text += f", {self.failed} failed" * bool(self.failed)
        if isinstance(self._progress, Progress):
            about = f"{text}, {self._time_left()}"
            self._progress.update(self._bar, completed=self.finished + self.failed, detail=about)
        elif self._progress is not None and self._done and self._is_time():
            self._progress.print(Text(f"{text}, {self._time_left()}"), soft_wrap=True)

    def _is_time(self) -> bool:
        """Whether to print a line: at the start, at the end, and every few seconds."""
        now = time.monotonic()
        if now - self._last_line < EVERY and self.finished + self.failed < self.total:
            return False
        self._last_line = now
        return True

    def _time_left(self) -> str:
        if not self._done or self._left <= 0:
            return "nothing left" if self._left <= 0 else "time left unknown"
        seconds = (time.monotonic() - self._start) * self._left / self._done
        return f"about {duration(seconds)} left"


@contextmanager
def tallying(works: Sequence[Work], quiet: bool) -> Iterator[Tally]:
    """Show how many runs are finished."""
    with _progress(quiet) as progress:
        yield Tally(works, progress)


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress | Console | None]:
    """Yield a bar on a terminal, a console elsewhere, None if quiet."""
    console = make_console(stderr=True)
    if quiet or not console.is_terminal:
        yield None if quiet else console
        return
    columns = (
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
    )
    with Progress(*columns, console=console) as progress:
        yield progress


def _say_problems(outcomes: Sequence[Outcome]) -> None:
    """Report each kind of problem once, with the number of affected runs."""
    runs: dict[str, list[str]] = {}
    for outcome in {outcome.work.key: outcome for outcome in outcomes}.values():
        if outcome.problem is not None:
            runs.setdefault(outcome.problem, []).append(outcome.work.name)
    for problem, names in list(runs.items())[:MOST_PROBLEMS]:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        say(f"not finished: {names[0]}{more}: {problem}")
    if len(runs) > MOST_PROBLEMS:
        say(f"not finished: {len(runs) - MOST_PROBLEMS} more kinds of problems")
