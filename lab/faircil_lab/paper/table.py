"""The part of a page that says with which settings its runs were made, and how they were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faircil.report import format_value
from faircil.results.record import RunSummary
from faircil.runs.config import RunConfig
from faircil.sweep.command import command_of
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil_lab.paper.contenders import FILES_ABSENT, Contender, config, files_absent, request
from faircil_lab.paper.exhibit import SEEDS, Results
from faircil_lab.paper.metrics import DATASET_NAMES, Target
from faircil_lab.paper.page import Grid, Section
from faircil_lab.paper.published import published


@dataclass(frozen=True)
class Row:
    """A method in a table.

    Parameters
    ----------
    contender : Contender
    published : str or None
        Its name in the published data; None: the paper does not have it.
    measure : str or None
        What its weights are for; None: the measure of the column.
    settings_of : Contender or None
        Whose chosen settings it takes; None: its own.
    """

    contender: Contender
    published: str | None = None
    measure: str | None = None
    settings_of: Contender | None = None


@dataclass(frozen=True)
class Column:
    """A dataset and a measure with the metrics that are shown.

    ``besides`` are shown as well, but nothing is claimed of them; ``key`` is its name in the
    published data, the target's unless it is given; ``only`` the names of its rows, all unless they
    are given.
    """

    target: Target
    metrics: tuple[str, ...]
    besides: tuple[str, ...] = ()
    key: str | None = None
    only: tuple[str, ...] | None = None

    @property
    def published_key(self) -> str:
        """Its name in the published data."""
        return self.key or self.target.key

    @property
    def title(self) -> str:
        """Its name in plain words."""
        return DATASET_NAMES[self.target.dataset] if self.key else self.target.title


@dataclass(frozen=True)
class Pair:
    """Two rows, by name, whose difference is a claim of its own."""

    left: str
    right: str


@dataclass(frozen=True)
class Line:
    """A row in a column: its finished runs, how to get them, and why some are missing."""

    row: Row
    runs: tuple[RunSummary, ...]
    command: str
    problem: str | None = None
    tuned: Tuned | None = None


@dataclass(frozen=True)
class Table:
    """A table of the paper with rows of ours: what it needs, and what came of it.

    Parameters
    ----------
    title : str
        In plain words.
    topic : str
        Name of the published data, and of its page.
    rows, columns : tuple
    pairs : tuple of Pair
        What is told apart, or not, over common seeds.
    about : str
        What a reader should know, in Markdown.
    settings : str
        ``tuned``: chosen on validation data; ``shipped``: those of the table of settings.
    seeds : tuple of int
    held_out : int
        Samples of each group that are kept from training, for post-processing.
    """

    title: str
    topic: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    pairs: tuple[Pair, ...] = ()
    about: str = ""
    settings: Literal["tuned", "shipped"] = "shipped"
    seeds: tuple[int, ...] = SEEDS
    held_out: int = 0

    @property
    def paper(self) -> str:
        """Where it is in the paper."""
        return published(self.topic).paper

    def requests(self) -> Sequence[TuneRequest]:
        """Return the settings that have to be chosen first."""
        if not self._is_tuned:
            return ()
        return [self._request(row, column) for column in self.columns for row in self._rows(column)]

    def works(self, tuned: Mapping[TuneRequest, Tuned]) -> Sequence[Work]:
        """Return the runs it needs, with the settings that were chosen."""
        configs = (self._config(row, c, tuned) for c in self.columns for row in self._rows(c))
        return [Work(config, seed) for config in configs if config for seed in self.seeds]

    def lines(self, column: Column, results: Results) -> list[Line]:
        """Return what came of each row in a column."""
        return [self._line(row, column, results) for row in self._rows(column)]

    def _rows(self, column: Column) -> list[Row]:
        names = column.only
        return [row for row in self.rows if names is None or row.contender.name in names]

    def _line(self, row: Row, column: Column, results: Results) -> Line:
        target, found = column.target, self._config(row, column, results.tuned)
        absent = FILES_ABSENT if files_absent(target.dataset) else None
        if found is None:
            why = results.not_tuned.get(self._request(row, column), "no settings were chosen")
            shipped = config(row.contender, target.dataset, row.measure or target.measure, None)
            return Line(row, (), command_of(shipped, self.seeds), absent or why)
        runs = tuple(results.runs(found, self.seeds))
        problem = results.problem(found, self.seeds)
        tuned = results.tuned.get(self._request(row, column)) if self._is_tuned else None
        return Line(
            row, runs, command_of(found, self.seeds), problem and (absent or problem), tuned
        )

    @property
    def _is_tuned(self) -> bool:
        return self.settings == "tuned"

    def _request(self, row: Row, column: Column) -> TuneRequest:
        target = column.target
        return request(
            row.settings_of or row.contender, target.dataset, row.measure or target.measure
        )

    def _config(
        self, row: Row, column: Column, tuned: Mapping[TuneRequest, Tuned]
    ) -> RunConfig | None:
        """Return a row's configuration; None where that cannot be told."""
        target = column.target
        chosen = tuned.get(self._request(row, column)) if self._is_tuned else None
        if self._is_tuned and chosen is None:
            return None
        found = config(row.contender, target.dataset, row.measure or target.measure, chosen)
        return found.model_copy(update={"held_out": self.held_out})


SHIPPED = (
    "Those shipped with faircil (`faircil/settings.toml`): the paper's where it gives them, else "
    "chosen on held-out training data. None was chosen here."
)
SPLIT_BY_SEED = ("drug", "biasbios-sample")
ACROSS_SEEDS = (
    "{} is split by the seed: rows that were trained on and held out there are test rows under "
    "other seeds. Within a seed nothing leaks."
)
HEADER = ("on", "method", "chosen", "objective", "score", "tried")


def settings_section(table: Table, lines: Mapping[Column, Sequence[Line]]) -> Section:
    """Say which settings were used, and where they come from."""
    chosen = [
        (column, line, line.tuned)
        for column, some in lines.items()
        for line in some
        if line.tuned is not None
    ]
    if table.settings == "shipped":
        return Section("Settings", SHIPPED)
    if not chosen:
        return Section("Settings", "None were chosen yet.")
    rows = tuple(_row(column, line, tuned) for column, line, tuned in chosen)
    datasets = {column.target.dataset for column, _, _ in chosen}
    notes = [ACROSS_SEEDS.format(DATASET_NAMES[name]) for name in SPLIT_BY_SEED if name in datasets]
    text = " ".join([_how(chosen[0][2].request), *notes])
    return Section("Settings", text, Grid(HEADER, rows), on_terminal=False)


def _how(request: TuneRequest) -> str:
    seeds = ", ".join(map(str, request.seeds))
    data = (
        "a held-out part of the training data of the tasks seen so far; test data took no part"
        if request.select_on == "validation"
        else "**test data**, the way of the paper: too good a picture"
    )
    return (
        f"Chosen on {data}. Every method has the same budget: at most {request.budget} "
        f"configurations ({request.strategy}) on seed {seeds}, which no table shows. The best "
        "score wins."
    )


def _row(column: Column, line: Line, tuned: Tuned) -> tuple[str, ...]:
    scored = sum(trial.score is not None for trial in tuned.trials)
    failed = len(tuned.trials) - scored
    return (
        column.title,
        line.row.contender.name,
        f"`{' '.join(tuned.best.overrides) or 'shipped'}`",
        tuned.request.objective or f"accuracy - {tuned.request.measure}",
        format_value(tuned.best.score),
        f"{len(tuned.trials)}" + (f", {failed} without a result" if failed else ""),
    )
