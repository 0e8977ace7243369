"""A benchmark of an encoder as a page."""

from __future__ import annotations

from collections.abc import Mapping

from faircil.bench.machine import described
from faircil.bench.text.epoch import BUDGET
from faircil.bench.text.record import TextResults
from faircil.bench.text.sentences import sentences
from faircil.bench.text.tables import text_tables
from faircil.bench.text.workload import ATTRIBUTES, BATCH, CLASSES, QUOTA, TASKS
from faircil.report import as_markdown
from faircil.weighting.weights import AUTO_BUDGET

PICTURE = "epoch"  # its name
HEAD = """# Time of a text encoder

Written by

```
{command}
```

on {machine}, device {device}.
"""
WHAT = """
An encoder of BERT's architecture with random weights: {w.layers} layers, {w.hidden} numbers per
token. A corpus of {w.rows:,} texts of {w.tokens} tokens each, which are drawn: {classes} classes,
{attributes} attribute values, {tasks} tasks. Median of {w.repeats} rounds (of memory the largest
peak), in which all parts take turns; one more round before warms up.
"""
EPOCH = """
The epoch is of the last task: {epoch.samples:,} texts, and up to {quota} of each earlier group in
the buffer, {epoch.buffer:,} in all. By `eo`, {epoch.groups} groups are compared; every text has a
weight. *One pass* is task and buffer through the encoder without gradients, *statistics beyond* all
else until the alignment of every text with every group is known, *LP* the linear program. These are
measured at full size. *Training* has batches of {batch} and as many replayed texts; {steps:,} steps
were timed in each round, and their speed tells the time of the {all_steps:,} of an epoch. The
texts are made and the net is hardly trained, so `alpha` is {times:g} times as large as `auto` would
have it, for the program to have a choice; how many texts it keeps says nothing about real ones.

![what an epoch's time goes to]({picture})
"""
EMBEDDINGS = """
Embedding goes through the corpus in shards, as a run does; the whole corpus is embedded once. If
memory is bounded, its peak is that of a part.
"""


def page(results: TextResults, pictures: Mapping[str, str]) -> str:
    """Write the page; ``pictures`` says where each picture is, seen from the page."""
    environment, workload = results.environment, results.workload
    text = HEAD.format(
        command=results.command, machine=described(environment), device=environment["device"]
    )
    text += "".join(f"\n{note}.\n" for note in results.notes)
    text += WHAT.format(w=workload, classes=CLASSES, attributes=ATTRIBUTES, tasks=TASKS)
    text += "\n" + "\n".join(f"- {sentence}" for sentence in sentences(results)) + "\n"
    if results.epochs:
        epoch = results.epochs[0]
        all_steps = -(-epoch.samples // BATCH)
        text += EPOCH.format(
            epoch=epoch,
            quota=QUOTA,
            times=BUDGET / AUTO_BUDGET,
            batch=BATCH,
            steps=min(workload.steps, all_steps),
            all_steps=all_steps,
            picture=pictures[PICTURE],
        )
    if results.embeddings:
        text += EMBEDDINGS
    for table in text_tables(results):
        text += f"\n## {table.title}\n\n{as_markdown(table)}"
    return text if results.complete else f"{text}\nThe benchmark was interrupted here.\n"
