"""Measure what FSW costs and write ``docs/speed.md``: ratios of medians, side by side in one run.

python benchmarks/speed.py [--repeats N]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from faircil.buffer import ReplayBuffer
from faircil.data.datasets import load_dataset
from faircil.nets import build_mlp
from faircil.weighting.gradients import CHUNK
from faircil.weighting.groups import find_groups
from faircil.weighting.measures import MEASURES
from faircil.weighting.statistics import group_statistics

PAGE = Path(__file__).resolve().parent.parent / "docs" / "speed.md"
STREAMS = (("mnist", "eer"), ("biased-mnist", "eo"))
TEXT = """# Speed

Written by `python benchmarks/speed.py`. Ratios are of medians measured side by side in one run, on
{threads} CPU threads ({machine}, torch {torch}).

## Statistics of an epoch

Group losses, group gradients and the alignment of all samples of the last task, against one forward
pass without gradients over the same data; median of 15, alternating.

| dataset | samples | groups | forward, ms | statistics, ms | ratio |
|---|---|---|---|---|---|
{statistics}
## Whole runs

MNIST, EER, shipped settings, seed 0, each run in its own process, alternating; median of {repeats}.
Peak memory is of the whole process.

{runs}"""
METHODS = ("er", "fsw", "fsw --set granularity=group")


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="of whole runs (default: 3)")
    repeats = parser.parse_args().repeats
    runs = _runs(repeats)  # first: a child's peak counts what its parent held when it forked
    text = TEXT.format(
        threads=torch.get_num_threads(),
        machine=platform.machine(),
        torch=torch.__version__,
        statistics="".join(_statistics_row(*stream) for stream in STREAMS),
        repeats=repeats,
        runs=runs,
    )
    PAGE.write_text(text, encoding="utf-8")


def _statistics_row(dataset: str, measure: str) -> str:
    stream = load_dataset(dataset, 0)
    *old, last = stream.tasks
    current, generator = last.train, torch.Generator().manual_seed(0)
    net = build_mlp(current.x.shape[1], stream.n_classes, (256, 256), 0)
    buffer = ReplayBuffer(32)
    for task in old:
        buffer = buffer.with_task(task.train, None, generator)
    by_attribute = MEASURES[measure].by_attribute

    def forward() -> None:
        with torch.no_grad():
            for start in range(0, len(current), CHUNK):
                net(current.x[start : start + CHUNK])

    def measure_groups() -> None:
        membership = find_groups(current, buffer.samples, by_attribute=by_attribute)
        group_statistics(net, current, buffer.samples, membership)

    plain, full = _medians(forward, measure_groups, repeats=15)
    groups = len(find_groups(current, buffer.samples, by_attribute=by_attribute).groups)
    return (
        f"| {dataset} | {len(current):,} | {groups} | {1000 * plain:.1f} | {1000 * full:.1f} "
        f"| {full / plain:.2f} |\n"
    )


def _medians(*functions: Callable[[], None], repeats: int) -> list[float]:
    """Time functions in turns, so that whatever else the machine does meets all of them."""
    times: list[list[float]] = [[] for _ in functions]
    for repeat in range(repeats + 2):
        for function, seconds in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            if repeat >= 2:
                seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in times]


def _runs(repeats: int) -> str:
    results: dict[str, list[dict[str, float]]] = {method: [] for method in METHODS}
    for _ in range(repeats):
        for method in METHODS:
            results[method].append(_run(method))
    medians = {
        method: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for method, runs in results.items()
    }
    keys = ("gradient", "lp", "train", "eval", "total")
    lines = [
        "| method | " + " | ".join(f"{key}, s" for key in keys) + " | against `er` | peak memory |",
        "|---" * (len(keys) + 3) + "|",
    ]
    for method, median in medians.items():
        lines.append(
            f"| {method} | "
            + " | ".join(f"{median[key]:.2f}" for key in keys)
            + f" | {median['total'] / medians['er']['total']:.2f} | {median['memory']:.2f} GiB |"
        )
    return "\n".join(lines) + "\n"


def _run(method: str) -> dict[str, float]:
    """Run MNIST once in its own process; return seconds and peak memory in GiB."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, "-m", "faircil", "run", "--dataset", "mnist", "--json"]
        command += ["--method", *method.split(), "--quiet", "--device", "cpu", "--out", folder]
        process = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(command)} failed")
        output.seek(0)
        seconds: dict[str, float] = json.load(output)["runs"][0]["seconds"]
        return seconds | {"memory": usage.ru_maxrss / 2**20}


if __name__ == "__main__":
    main()
