"""A table of the paper: what has to be chosen and run for it, and what came of each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faircil.config import RunConfig
from faircil.reproduction.availability import FILES_ABSENT, files_absent
from faircil.reproduction.contenders import config, request
from faircil.reproduction.exhibit import SEEDS, Results
from faircil.reproduction.layout import Column, Line, Pair, Row
from faircil.reproduction.published import published
from faircil.sweep.command import command_of
from faircil.sweep.work import Work
from faircil.tuning.request import Tuned, TuneRequest


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
