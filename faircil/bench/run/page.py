"""A benchmark of runs as a page."""

from __future__ import annotations

from collections.abc import Mapping

from faircil.bench.machine import described
from faircil.bench.run.record import RunResults, Workload
from faircil.bench.run.tables import epoch_table, run_tables, scale_tables
from faircil.report import Table, as_markdown

SPLIT, GROWTH = "split", "growth"  # names of the pictures
HEAD = """# Time of a run

Written by

```
{command}
```

on {machine}; {threads} threads.
"""
RUNS = """
## Whole runs

Settings as shipped but for what the command sets, seed 0, each run in its own process, methods in
turns; median of {repeats}. *Gradient* is the statistics of the groups, *LP share* the part of the
linear program in the total. Peak memory is of the whole process.

![where the time goes]({picture})
"""
EPOCHS = """
## Statistics of an epoch

Group losses, group gradients and the alignment of all samples of a task, against one forward pass
without gradients over the same samples; medians, in turns; means over tasks, on a fresh net.

{table}"""
SCALE = """
## Growth, on generated data

The weights of one epoch, statistics and linear program, by sample, measure `eo`. The data is drawn
from normal clusters: {base.samples:,} samples of two new classes, {base.classes} classes in all,
{base.groups} groups per class, {base.features} features, and one of these varied at a time. The net
is an MLP 256-256 that was trained on the buffer for a moment.

![growth]({picture})
"""


def page(results: RunResults, pictures: Mapping[str, str]) -> str:
    """Write the page; ``pictures`` says where each picture is, seen from the page."""
    environment = results.environment
    text = HEAD.format(
        command=results.command,
        machine=described(environment),
        threads=environment["threads"],
    )
    text += "".join(f"\n{note}.\n" for note in results.notes)
    if results.runs:
        text += RUNS.format(repeats=results.repeats, picture=pictures[SPLIT])
        text += _sections(run_tables(results.runs))
    if results.epochs:
        text += EPOCHS.format(table=as_markdown(epoch_table(results.epochs)))
    if results.points:
        text += SCALE.format(base=Workload(), picture=pictures[GROWTH])
        text += _sections(scale_tables(results.points))
    return text if results.complete else f"{text}\nThe benchmark was interrupted here.\n"


def _sections(tables: list[Table]) -> str:
    return "".join(f"\n### {table.title}\n\n{as_markdown(table)}" for table in tables)
