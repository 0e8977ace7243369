"""The part of a page that says with which settings its runs were made, and how they were chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faircil.report import format_value
from faircil.reproduction.layout import Column, Line
from faircil.reproduction.page import Grid, Section
from faircil.reproduction.table import Table
from faircil.reproduction.targets import DATASET_NAMES
from faircil.tuning.request import Tuned, TuneRequest

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
