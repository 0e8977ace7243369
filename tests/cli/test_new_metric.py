"""A new metric is one row: added at run time, it is everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from cli_outcome import Cli, run_words
from faircil.counts import Counts
from faircil.metrics import METRICS, Metric, evaluate
from faircil.report import group_runs
from faircil.report.plots import over_tasks
from faircil.results.folder import find_runs
from faircil.tuning.request import Objective, parse_objective

DOC = Path(__file__).parents[2] / "docs/metrics.md"
RUN = run_words("fsw", "toy-groups", "--seeds", "0-1", "--quiet", epochs=1)


def class_gap(counts: Counts) -> float:
    accuracies = counts.class_accuracies[counts.seen]
    return float(accuracies.max() - accuracies.min())


CLASS_GAP = Metric(class_gap, "gap between classes", "Best class minus worst", compares="class")


@pytest.fixture
def _added() -> Iterator[None]:
    with METRICS.temporarily("class_gap", CLASS_GAP):
        yield


@pytest.mark.usefixtures("_added")
def test_new_row_is_evaluated() -> None:
    assert evaluate([0, 0, 1], [0, 1, 1], task=[0, 0, 0]).class_gap == 0.5


@pytest.mark.usefixtures("_added")
def test_new_row_is_in_json_files_tables_figures_and_tuning(cli: Cli, tmp_path: Path) -> None:
    document = json.loads(cli(*RUN, "--out", "out", "--json").out)
    values = [run["class_gap"] for run in document["runs"]]
    assert document["mean"]["class_gap"] == pytest.approx(sum(values) / 2)
    assert [task.keys() for task in document["runs"][0]["per_task"]] == [METRICS.keys()] * 2
    rows = pd.read_json(tmp_path / "out/seed-0/metrics.jsonl", lines=True)
    assert len(rows[rows["metric"] == "class_gap"]) == 2
    assert "class_gap" in cli(*RUN, "--out", "out").out
    assert "class_gap" in cli("compare", "out").out
    runs = find_runs([tmp_path / "out"])
    (axes,) = over_tasks(group_runs(runs), ["class_gap"], "title").axes
    assert axes.get_title() == "gap between classes (0 = fair)"
    objective = parse_objective("accuracy - class_gap")
    assert objective == Objective("class_gap")
    assert objective.values(runs) == (
        document["mean"]["balanced_accuracy"],
        document["mean"]["class_gap"],
    )
    assert "Best class minus worst; 0 = fair." in cli("list", "metrics").out


def test_run_from_before_the_row_is_read(cli: Cli) -> None:
    cli(*RUN, "--out", "out")
    with METRICS.temporarily("class_gap", CLASS_GAP):
        outcome = cli("compare", "out")
    assert outcome.code == 0
    assert "class_gap" not in outcome.out


def test_table_of_the_documentation_is_the_definition() -> None:
    text = DOC.read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \| (\w+) \| (\S+) \| (.*) \|$", text, re.MULTILINE) == [
        (
            name,
            "higher" if metric.higher_is_better else "lower",
            "needed" if metric.by_attribute else "–",
            metric.description,
        )
        for name, metric in METRICS.items()
    ]
    definitions = text.partition("## Definitions")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", definitions, re.MULTILINE) == list(METRICS)
