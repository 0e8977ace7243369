"""Try settings on held-out training data and write ``docs/chosen-settings.md``.

A tenth of each group's training data stands for the test data, which is not looked at. The score is
the accuracy averaged over groups, after each task. Finished trials are reused.

    python benchmarks/choose.py [--jobs N] [--only METHOD ...] [--datasets NAME ...] [--page]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean

from rows import DEAR_DATASETS, DEAR_METHODS, MEASURES, ROOT, TITLES, in_processes

from faircil.errors import FaircilError
from faircil.report import format_value

TRIALS = ROOT / "runs" / "trials"
PAGE = ROOT / "docs" / "chosen-settings.md"
TEMPLATE = Path(__file__).parent / "choose.md"
SEEDS = (10, 11)  # none of those that the tables show
RATES = ("lr=0.001", "lr=0.01", "lr=0.1")
TAUS = ("tau=1", "tau=5", "tau=10")
# Settings to combine: the grids that the methods were published or compared with.
GRIDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "icarl": (RATES,),
    "wa": (RATES,),
    "bic": (RATES,),
    "clad": (RATES, ("eta=0.1", "eta=1", "eta=2", "eta=4")),
    "gss": (RATES[:2], TAUS),
    "ocs": (RATES[:2], TAUS),
    "fairl": (("feature_lr=0.00002", "feature_lr=0.0001", "feature_lr=0.001"),),
    "agem": (RATES,),
    "er-ace": (RATES, TAUS),
    "logit-adjustment": (RATES, TAUS),
    "group-dro": (RATES,),
    "fairbatch": (RATES,),
}

Trial = tuple[str, str, tuple[str, ...], int]  # dataset, method, settings, seed


def main() -> None:
    """Make the trials that are missing, then write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time, one thread each")
    parser.add_argument("--only", nargs="+", choices=GRIDS, default=list(GRIDS))
    datasets = ("mnist", "fashion-mnist", "biased-mnist", "drug")
    parser.add_argument("--datasets", nargs="+", choices=datasets, default=list(datasets))
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--page", action="store_true", help="only write the page, try nothing")
    arguments = parser.parse_args()
    # Only by name: these take hours on it.
    too_long = {"biased-mnist": ("gss", "ocs")} if len(arguments.datasets) > 1 else {}
    trials = [
        (dataset, method, settings, seed)
        for dataset in arguments.datasets
        for method in arguments.only
        if method not in too_long.get(dataset, ())
        for settings in product(*GRIDS[method])
        for seed in SEEDS
    ]
    if not arguments.page:
        make, longest_first = partial(make_trial, arguments.device), sorted(trials, key=cost)[::-1]
        in_processes(make, longest_first, arguments.jobs)
    PAGE.write_text(page(), encoding="utf-8")


def cost(trial: Trial) -> tuple[bool, bool]:
    """Tell how long a trial takes, roughly, to begin with the longest."""
    return trial[1] in DEAR_METHODS, trial[0] in DEAR_DATASETS


def folder(dataset: str, method: str) -> Path:
    """Return where the trials of a method are."""
    return TRIALS / dataset / method


def make_trial(device: str, trial: Trial) -> None:
    """Run a trial and keep its score: null where it diverged."""
    from faircil.data.splits import validation_stream
    from faircil.runs.config import resolve
    from faircil.runs.experiment import run
    from faircil.runs.loading import load_stream

    dataset, method, settings, seed = trial
    path = folder(dataset, method) / f"{'_'.join(settings)}_seed-{seed}.json"
    if path.exists():
        return
    measure = MEASURES.get(dataset, "eo")
    config = resolve(dataset=dataset, method=method, measure=measure, overrides=settings)
    stream = validation_stream(load_stream(config, seed), seed)
    score: float | None = None
    try:
        result = run(config, seed, stream=stream, device=device)
        score = mean(
            mean(part.accuracy for part in (task.groups or task.classes))
            for task in result.per_task
        )
    except FaircilError as error:
        print(f"{dataset} {method} {settings}: {error}")  # noqa: T201
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"settings": settings, "seed": seed, "score": score}) + "\n")


def page() -> str:
    """Write all trials, the best of each method first."""
    parts = [TEMPLATE.read_text(encoding="utf-8")]
    for dataset, title in TITLES.items():
        lines = ["| method | settings, best first |", "|---|---|"]
        for method in GRIDS:
            if folder(dataset, method).is_dir():
                ranked = sorted(scores(dataset, method), reverse=True)
                best = ", ".join(f"{text} **{format_value(score)}**" for score, text in ranked[:1])
                rest = (f"{text} {format_value(score or None)}" for score, text in ranked[1:])
                lines.append(f"| {method} | {'; '.join([best, *rest])} |")
        if len(lines) > 2:
            parts.append(f"## {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def scores(dataset: str, method: str) -> Sequence[tuple[float, str]]:
    """Return the mean score of each setting; 0 where a trial diverged."""
    found: dict[str, list[float]] = {}
    for path in sorted(folder(dataset, method).glob("*.json")):
        trial = json.loads(path.read_text())
        found.setdefault(" ".join(trial["settings"]), []).append(trial["score"] or 0.0)
    return [(mean(values) if min(values) else 0.0, text) for text, values in found.items()]


if __name__ == "__main__":
    main()
