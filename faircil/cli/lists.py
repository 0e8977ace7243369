"""``faircil list``: the available datasets, methods, measures, settings and so on."""

from __future__ import annotations

import argparse

from faircil.cli.console import show_columns

Listing = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header and rows
KINDS = (
    "datasets",
    "methods",
    "measures",
    "weightings",
    "settings",
    "metrics",
    "solvers",
    "losses",
    "buffers",
)
EPILOG = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("kind", nargs="?", choices=KINDS, metavar="kind", help=", ".join(KINDS))


def command(arguments: argparse.Namespace) -> None:
    """Print one table, or all tables."""
    for kind in [arguments.kind] if arguments.kind else KINDS:
        header, rows = _TABLES[kind]()
        show_columns(kind, header, rows)


def _datasets() -> Listing:
    from faircil.data.datasets import DATASETS

    return ("name", "inputs", "attribute", "files", "what"), [
        (
            name,
            "texts" if row.texts else "numbers",
            row.attribute or "–",
            row.folder or "embedded",
            row.summary,
        )
        for name, row in DATASETS.items()
    ]


def _methods() -> Listing:
    from faircil.learners import ALIASES, LEARNERS

    aliases = [
        (alias, f"{method} with weighting {weighting}", "Park et al. 2026", *_needs(method))
        for alias, (method, weighting) in ALIASES.items()
    ]
    return ("name", "what", "source", "needs", "weighting"), [
        *((name, row.summary, row.source, *_needs(name)) for name, row in LEARNERS.items()),
        *aliases,
    ]


def _needs(method: str) -> tuple[str, str]:
    """Return what a method needs, and whether its samples can be weighted."""
    from faircil.learners import LEARNERS

    row = LEARNERS[method]
    needs = ["buffer"] * row.replays + ["attribute if there is one"] * row.uses_attribute
    return ", ".join(needs) or "–", f"no: {row.no_weighting}" if row.no_weighting else "yes"


def _measures() -> Listing:
    from faircil.weighting.measures import MEASURES

    return ("name", "what"), [(name, row.summary) for name, row in MEASURES.items()]


def _weightings() -> Listing:
    from faircil.weighting.selection import WEIGHTINGS

    return ("name", "what"), [(name, row.summary) for name, row in WEIGHTINGS.items()]


def _settings() -> Listing:
    from faircil.learners import LEARNERS
    from faircil.options import Options
    from faircil.runs.settings import own_settings, setting_names, settings_of, unused_settings

    def methods_with(name: str) -> str:
        without = [
            method
            for method, learner in LEARNERS.items()
            if unused_settings(method, learner.options(), [name])
        ]
        return f"all but {', '.join(without)}" if without else "all"

    owners: dict[tuple[str, str, str], list[str]] = {}
    known = {**setting_names(Options, "text"), **setting_names(Options, "images")}
    for name, row in known.items():
        media = {"text": "all, with texts", "images": "all, with images"}
        who = media.get(row.part) or methods_with(name)
        owners[name, plain(row.field.default), _line(row.field.description)] = [who]
    for method in LEARNERS:
        for name in own_settings(method):
            field = settings_of(method)[name].field
            what = (name, plain(field.default), _line(field.description))
            owners.setdefault(what, []).append(method)
    return ("name", "default", "methods", "what"), [
        (name, default, ", ".join(methods), what)
        for (name, default, what), methods in owners.items()
    ]


def _metrics() -> Listing:
    from faircil.metrics import METRICS

    return ("name", "better", "attribute", "what"), [
        (
            name,
            "higher" if metric.higher_is_better else "lower",
            "needed" if metric.by_attribute else "–",
            metric.description,
        )
        for name, metric in METRICS.items()
    ]


def _solvers() -> Listing:
    from faircil.weighting.solver import DEFAULT, SOLVERS

    return ("name", "used by auto", "result", "what"), [
        (name, "yes" * (name == DEFAULT), "exact" if row.exact else "approximate", row.summary)
        for name, row in SOLVERS.items()
    ]


def _losses() -> Listing:
    from faircil.weighting.losses import LOSSES

    return ("name", "what"), [(name, row.summary) for name, row in LOSSES.items()]


def _buffers() -> Listing:
    from faircil.buffer import RULES

    return ("name", "what"), [(name, row.summary) for name, row in RULES.items()]


def plain(value: object) -> str:
    """Format a default as ``--set`` accepts it; a dash if there is none."""
    from faircil.sweep.command import written

    return "–" if value is None else written(value)


def _line(text: str | None) -> str:
    """Join the lines of a description."""
    return " ".join((text or "").split())


_TABLES = {
    "datasets": _datasets,
    "methods": _methods,
    "measures": _measures,
    "weightings": _weightings,
    "settings": _settings,
    "metrics": _metrics,
    "solvers": _solvers,
    "losses": _losses,
    "buffers": _buffers,
}
