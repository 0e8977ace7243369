"""``faircil show``: what a model has learned, from which groups, and how fair it was."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from faircil.cli.console import duration, print_json, say, say_notes, show_columns
from faircil.cli.models import add_model, measured_values, revealing_notes

if TYPE_CHECKING:
    from faircil.model.history import GroupRows
    from faircil.model.model import Model

EPILOG = """examples:
  faircil show model
  faircil show runs/people/moments-eo-HASH-CODE/seed-0/model

Fairness is shown as it was on the rows that the model was last measured on.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_model(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def command(arguments: argparse.Namespace) -> None:
    """Show a model."""
    from faircil.cli.progress import first_metrics
    from faircil.model.card import summary_of, unmeasured
    from faircil.model.saved import card_notes, load_model, size_of

    model = load_model(arguments.model)
    size = size_of(arguments.model)
    cards = card_notes(arguments.model)
    if arguments.json:
        print_json({**summary_of(model), "bytes": size, "cards": cards})
        return
    rows = [
        (
            _minute(one.at),
            f"{one.rows:,}",
            ", ".join(one.new_classes) or "–",
            duration(one.seconds),
        )
        for one in model.lessons
    ]
    show_columns("What it learned, and when", ("at (UTC)", "rows", "new classes", "took"), rows)
    attribute = " × ".join(model.config.own.sensitive) if model.config.own else ""
    _show_groups(model, attribute or "group")
    if model.measured:
        names = first_metrics(model.config)
        show_columns(
            "How fair it was when measured",
            ("at (UTC)", "on", "rows", *names),
            [
                (_minute(one.at), one.on, f"{one.rows:,}", *measured_values(model, one))
                for one in model.measured
            ],
        )
        say("accuracy: mean over classes; `faircil list metrics` explains the others")
    say_notes([*model.notes, *revealing_notes(model)])
    say_notes(cards)
    for sentence in unmeasured(model):
        say(sentence)
    say(
        f"method {model.config.label}, measure {model.config.measure}; {size / 1e6:.1f} MB; "
        f"stored rows of people: {model.rows_kept}{_noise(model)}"
    )


def _noise(model: Model) -> str:
    """Describe the noise in the sums of a model, if any."""
    noise = getattr(model.learner, "noise", None)
    return "" if noise is None else f"; noise for ε = {noise.epsilon:g}, δ = {noise.delta:g}"


def _minute(time: str) -> str:
    """Format a time of a model for display."""
    return time.replace("T", " ")[:16]


def _show_groups(model: Model, attribute: str) -> None:
    """Show the rows learned of each group, and its accuracy in the last measurement."""
    from faircil.report import format_value

    measured = next((one for one in reversed(model.measured) if one.groups), None)
    found = {(one.label, one.attribute): one for one in measured.groups} if measured else {}

    def cells(group: GroupRows) -> tuple[str, ...]:
        name = (group.label, group.value or ("unknown" if model.values else "all"))
        learned = (*name, f"{group.rows:,}")
        if measured is None:
            return learned
        one = found.get((group.label, group.value))
        return (*learned, *((f"{one.n:,}", format_value(one.accuracy)) if one else ("–", "–")))

    header = ("class", attribute, "rows") + ("measured on", "accuracy") * (measured is not None)
    show_columns("From whom", header, [cells(group) for group in model.seen])
