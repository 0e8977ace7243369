"""Run every method with and without weighting and write ``docs/methods.md``.

Five seeds, shipped settings, targets, published rows beside ours. Finished runs are reused. Needs
the data files (``faircil data fetch mnist fashion-mnist drug``).

    python benchmarks/methods.py [--jobs N] [--only DATASET ...] [--page]
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rows import (
    MEASURES,
    ROOT,
    TITLES,
    Benchmark,
    Result,
    at_least,
    at_most,
    commands,
    results_of,
    target_table,
)

from faircil.cli.lists import plain
from faircil.files import read_json
from faircil.learners import ALIASES, LEARNERS
from faircil.report import COLUMNS, format_value
from faircil.results.record import RunSummary, over_seeds
from faircil.runs.settings import own_settings, settings_of

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "methods.md"
DATASETS = ("mnist", "fashion-mnist", "biased-mnist", "drug")
WEIGHTINGS = {
    "": "none",
    " --weighting fsw": "fsw",
    " --weighting fsw --set granularity=group": "fsw by group",
}
CONTROLS = {" --weighting random": "random", " --weighting balanced": "balanced"}
CONTROLLED = ("er", "der++")  # methods that have the controls beside them
# Other variants of a method: what the original does, or what explains a published row.
VARIANTS = {
    "icarl": " --set quota=total",
    "wa": " --set evaluate_before_alignment=true clip_nonneg=false",
    "gss": " --set quota=task",
    "ocs": " --set quota=total",
    "der++": " --set logits=stored",
}
# The least accuracy and the largest disparity on MNIST, Fashion-MNIST and Biased MNIST.
TARGETS: dict[str, tuple[tuple[float, float | None], ...]] = {
    "--method joint": ((0.97, 0.015), (0.90, 0.035), (0.94, 0.115)),
    "--method icarl --set quota=total": ((0.92, 0.05), (0.845, 0.06), (0.802, 0.365)),
    "--method clad": ((0.825, None), (0.772, None), (0.861, None)),
    "--method gss": ((0.879, None), (0.722, None), (0.799, None)),
    "--method ocs": ((0.89, None), (0.78, None), (0.81, None)),
    "--method fairl": ((0.75, None), (0.65, None), (0.70, None)),
    "--method der++": ((0.935, 0.034), (0.815, None), (0.912, None)),
    "--method der++ --weighting fsw": ((0.934, 0.032), (0.84, 0.045), (0.92, 0.117)),
    "--method der++ --weighting fsw --set granularity=group": (
        (0.946, 0.017),
        (0.852, 0.039),
        (0.926, 0.103),
    ),
}
# Seconds for one Biased MNIST run; 180 for all others.
MOST_SECONDS = {"gss": 560, "ocs": 270, "fairl": 580, "icarl": 120}


def row(dataset: str, options: str) -> Benchmark:
    """Make a row with its targets; options without the measure."""
    targets: dict[str, tuple[float, float]] = {}
    if options in TARGETS and dataset in DATASETS[:3]:
        accuracy, disparity = TARGETS[options][DATASETS.index(dataset)]
        targets["accuracy"] = at_least(accuracy)
        if disparity is not None:
            targets[disparity_of(dataset)] = at_most(disparity)
    return Benchmark(dataset, f"{options} --measure {MEASURES.get(dataset, 'eo')}", targets)


def disparity_of(dataset: str) -> str:
    """Return the metric that the paper prints for a dataset."""
    return "eer_task" if MEASURES.get(dataset) == "eer" else "eo_gap"


def options_of(method: str) -> list[str]:
    """Return all rows of a method, as options."""
    base, learner = f"--method {method}", LEARNERS[method]
    weightings = WEIGHTINGS | (CONTROLS if method in CONTROLLED else {})
    allowed = [w for w in weightings if not w or learner.no_weighting is None]
    variants = [base + VARIANTS[method]] if method in VARIANTS else []
    return [*(base + weighting for weighting in allowed), *variants]


BENCHMARKS = [
    row(dataset, options)
    for dataset in DATASETS
    for method in LEARNERS
    for options in options_of(method)
]
ALONE = [
    replace(row("biased-mnist", f"--method {method}"), seeds=range(1), targets={}, alone=True)
    for method in LEARNERS
]


def main() -> None:
    """Run what is missing, then write the page."""
    PAGE.write_text(page(results_of([*BENCHMARKS, *ALONE], __doc__)), encoding="utf-8")


def page(results: Sequence[Result]) -> str:
    """Write the page from the runs."""
    published = tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))
    alone = [result for result in results if result[0].alone]
    results = [result for result in results if not result[0].alone]
    parts = [(HERE / "methods.md").read_text(encoding="utf-8")]
    parts.append("## Methods\n\n" + methods_table())
    parts.append("## Targets\n\n" + target_table(results))
    parts.append("## Published rows beside ours\n\n" + published_table(results, published))
    if alone:
        parts.append("## Time\n\n" + time_table(alone, published))
    for dataset in DATASETS:
        rows = [result for result in results if result[0].dataset == dataset]
        if rows:
            parts.append(f"## {TITLES[dataset]}\n\n{dataset_table(rows)}\n{commands(rows)}")
    return "\n".join(parts)


def methods_table() -> str:
    """Say in a line each what the methods are."""
    lines = ["| method | what | source | weighting |", "|---|---|---|---|"]
    for name, learner in LEARNERS.items():
        weighting = f"no: {learner.no_weighting}" if learner.no_weighting else "yes"
        lines.append(f"| `{name}` | {learner.summary} | {learner.source} | {weighting} |")
    return "\n".join(lines) + "\n"


def dataset_table(rows: Sequence[Result]) -> str:
    """Write one row per configuration: all metrics, steps, seconds and settings."""
    statistics = [over_seeds(runs) for _, runs in rows]
    metrics = [m for m in COLUMNS if any(means[m] is not None for means, _ in statistics)]
    header = ("method", "weighting", *metrics, "steps", "seconds", "on", "settings")
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for (_, runs), (means, deviations) in zip(rows, statistics, strict=True):
        cells = [runs[0].config["method"], weighting_of(runs[0])]
        cells += [format_value(means[m], deviations[m]) for m in metrics]
        cells += [f"{means['steps']:,.0f}", f"{means['seconds']['total']:.0f}"]
        lines.append("| " + " | ".join([*cells, device_of(runs), settings_text(runs[0])]) + " |")
    return "\n".join(lines) + "\n"


def weighting_of(run: RunSummary) -> str:
    """Name the weighting of a run as people say it."""
    by_group = (
        run.config["weighting"] != "none" and run.config["settings"]["granularity"] == "group"
    )
    return str(run.config["weighting"]) + " by group" * by_group


def settings_text(run: RunSummary) -> str:
    """Write learning rate, epochs, τ, and what differs from the method's defaults."""
    settings: dict[str, Any] = run.config["settings"]
    method = run.config["method"]
    defaults = {name: field.default for name, field in settings_of(method).model_fields.items()}
    common = {"lr", "epochs", "tau"} | ({"batch_size"} if settings["batch_size"] != 64 else set())
    shown = common | {name for name in own_settings(method) if settings[name] != defaults[name]}
    values = {name: value for name, value in settings.items() if name in shown}
    return ", ".join(f"{name}={plain(value)}" for name, value in values.items())


def machine_of(run: RunSummary) -> dict[str, Any]:
    """Read on what machine a run was made."""
    return dict(read_json(Path(run.dir) / "environment.json"))


def device_of(runs: Sequence[RunSummary]) -> str:
    """Say where the runs were made."""
    names = {machine_of(run)["gpu"] or "CPU" for run in runs}
    return ", ".join(sorted(name.removeprefix("NVIDIA ") for name in names))


def published_table(results: Sequence[Result], published: dict[str, Any]) -> str:
    """Write published and own values of the paper's methods, and what separates them."""
    lines = ["| method | " + " | ".join(TITLES[d] for d in DATASETS) + " | why they differ |"]
    lines.append("|---" * (len(DATASETS) + 2) + "|")
    for method, values in published.items():
        name, weighting = ALIASES.get(method, (method, "none"))
        plain = f"--method {name}" + f" --weighting {weighting}" * (weighting != "none")
        for options, theirs in ((plain, True), (plain + VARIANTS.get(method, ""), False)):
            if not theirs and method not in VARIANTS:
                continue
            cells = [both(results, d, options, values[d] if theirs else None) for d in DATASETS]
            label = values["name"] if theirs else VARIANTS[method].removeprefix(" --set ")
            lines.append(f"| {label} | {' | '.join(cells)} | {values['why'] * theirs} |")
    return "\n".join(lines) + "\n"


def both(results: Sequence[Result], dataset: str, options: str, theirs: list[float] | None) -> str:
    """Write published → own accuracy and disparity of a configuration."""
    runs = next((r for b, r in results if (b.dataset, b.kind) == (dataset, options)), None)
    ours = "–"
    if runs:
        means, _ = over_seeds(runs)
        ours = " / ".join(format_value(means[m]) for m in ("accuracy", disparity_of(dataset)))
    return f"{' / '.join(map(format_value, theirs))} → {ours}" if theirs else ours


def time_table(results: Sequence[Result], published: dict[str, Any]) -> str:
    """Write seconds of one Biased MNIST run of each method, alone on the machine."""
    lines = ["| method | seconds | at most | paper, RTX A6000 |", "|---|---|---|---|"]
    for bench, runs in results:
        seconds = runs[0].seconds["total"]
        most = MOST_SECONDS.get(bench.method, 180)
        theirs = published.get(bench.method, {}).get("seconds", "–")
        mark = "" if seconds <= most else " **missed**"
        lines.append(f"| {bench.method} | {seconds:.0f}{mark} | {most} | {theirs} |")
    machine = machine_of(results[0][1][0])
    about = f"One run at a time on a CPU, {machine['threads']} threads ({machine['processor']})"
    return f"{about}: `python benchmarks/methods.py --alone`.\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
