"""``faircil diagnose``: inspect data before training, or forecast which groups are hurt."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from faircil.cli.common_options import add_own_arguments, names_of, own_data
from faircil.cli.console import make_console, print_json, say_notes, show_columns
from faircil.errors import collecting, raise_all

if TYPE_CHECKING:
    from faircil.model.diagnosis import ModelForecast
    from faircil.runs.preflight import Preflight

EPILOG = """examples:
  faircil diagnose --data train.csv --label job --sensitive sex
  faircil diagnose --data train.csv --label job --sensitive sex race --tasks "nurse,judge|poet"
  faircil diagnose --dataset biased-digits --set buffer_size=8
  faircil diagnose model --data new.csv

Without a model: counts of classes, groups and tasks, an attribute that is constant or can be read
from the inputs, a buffer that is too small, and the smallest gap that can be detected. With a model
of a replay method: which groups would be hurt by learning the new rows. Nothing is changed.
"""
# Options that are determined by a model.
OF_DATA = (
    *("dataset", "method", "label", "text", "sensitive", "tasks", "classes_per_task", "ignore"),
    *("use_sensitive", "test_column", "test_share", "set", "seed", "device"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "model",
        nargs="?",
        type=Path,
        metavar="MODEL",
        help="folder of a model; --data then names the rows that it would learn next",
    )
    add_own_arguments(parser.add_argument_group("a table"))
    what = parser.add_argument_group("or a dataset, and settings of the planned run")
    what.add_argument("--dataset", metavar="NAME", help=names_of("dataset"))
    what.add_argument(
        "--method", metavar="NAME", help="method whose buffer is checked (default: er)"
    )
    what.add_argument("--set", nargs="+", action="extend", metavar="NAME=VALUE", help="settings")
    what.add_argument("--seed", type=int, metavar="N", help="seed of splits (default: 0)")
    what.add_argument("--device", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    parser.add_argument("--quiet", action="store_true", help="print neither progress nor notes")


def command(arguments: argparse.Namespace) -> None:
    """Inspect data, or make a forecast."""
    if arguments.model is not None:
        _forecast(arguments)
    else:
        _look(arguments)


def _look(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import embedding_lines
    from faircil.compute import choose_device
    from faircil.runs.config import resolve
    from faircil.runs.preflight import METHOD, preflight

    mistakes: list[str] = []
    own, device = own_data(arguments, mistakes), ""
    with collecting(mistakes):
        device = str(choose_device(arguments.device or "auto"))
    if own is None and arguments.dataset is None:
        mistakes.append(
            "nothing to inspect: give a table with --data FILE --label COLUMN, or a --dataset; for "
            "a forecast, a folder of a model and --data FILE"
        )
        raise_all(mistakes)
    with collecting(mistakes):
        config = resolve(
            dataset=arguments.dataset,
            own=own,
            method=arguments.method or METHOD,
            overrides=arguments.set or (),
        )
    raise_all(mistakes)
    lines = embedding_lines(arguments.quiet)
    found = preflight(config, arguments.seed or 0, device=device, progress=lines)
    if arguments.json:
        print_json(asdict(found))
        return
    _show_preflight(found)
    if not arguments.quiet:
        say_notes(found.notes)


def _show_preflight(found: Preflight) -> None:
    header = ("task", "class", found.attribute or "group", "train", "test", "smallest gap")
    rows = [
        (
            str(one.task),
            one.label,
            one.value or ("unknown" if found.attribute else "all"),
            f"{one.train:,}",
            f"{one.test:,}",
            "–" if one.gap is None else f"{one.gap:.2f}" if one.gap <= 1 else "none",
        )
        for one in found.groups
    ]
    show_columns(f"{found.data}: rows of each group", header, rows)
    if (plan := found.buffer) is not None:
        _print(
            f"buffer: {plan.per_group} rows of each of {plan.groups} groups, {plan.rows:,} in all"
        )
    _print_list(found.findings)


def _forecast(arguments: argparse.Namespace) -> None:
    from faircil.cli.progress import learning
    from faircil.model.diagnosis import forecast_table
    from faircil.model.saved import check_there, load_model
    from faircil.model.table_rows import Gaps

    given = [name for name in OF_DATA if getattr(arguments, name) is not None]
    mistakes = []
    if given:
        flags = ", ".join(f"`{name}`" for name in given)
        mistakes.append(
            f"{flags}: the model already defines this; leave it out, or leave the model out"
        )
    path = arguments.data or arguments.images
    if path is None:
        mistakes.append("a forecast needs the rows that the model would learn: give --data FILE")
    raise_all(mistakes)
    check_there(arguments.model)
    gaps = Gaps(bool(arguments.drop_missing), bool(arguments.unknown_group))
    with learning(str(path), arguments.quiet, "rehearsing") as watcher:
        found = forecast_table(load_model(arguments.model), Path(path), gaps, watcher=watcher)
    if arguments.json:
        print_json(asdict(found))
        return
    _show_forecast(found)
    if not arguments.quiet:
        say_notes(found.notes)


def _show_forecast(found: ModelForecast) -> None:
    header: tuple[str, ...] = ("class", "group", "rows", "loss now")
    header += ("fall", "crowding", "slope") * found.forgets
    rows: list[tuple[str, ...]] = []
    for one in found.groups:
        cells: tuple[str, ...] = (one.label, one.value or "all", f"{one.rows:,}", f"{one.loss:.3f}")
        if found.forgets:
            cells += tuple(map(_signed, (one.fall, one.crowding, one.slope)))
        rows.append(cells)
    new = f", new: {', '.join(found.new_classes)}" if found.new_classes else ""
    show_columns(f"{found.method} and {found.rows:,} new rows{new}", header, rows)
    _print_list(found.findings)


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"


def _print_list(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        _print(f"- {sentence}")


def _print(text: str) -> None:
    make_console().print(Text(text), soft_wrap=True)
