"""A benchmark of sweeps as a page."""

from __future__ import annotations

from collections.abc import Mapping

from faircil.bench.machine import described
from faircil.bench.sweep.record import SweepResults
from faircil.bench.sweep.sentences import sentences
from faircil.bench.sweep.summary import summarise_sweeps
from faircil.bench.sweep.tables import sweep_tables
from faircil.report import as_markdown

PICTURE = "time"  # its name
HEAD = """# Time of a sweep

Written by

```
{command}
```

on {machine}.
"""
FOUND = """
The same {runs} runs, on validation data, with each number of processes, in turns, in a new folder
each time; median of {repeats}.

{sentences}

![what the time of a process goes to, per run]({picture})

Bars of the same length mean that twice as many processes make twice as many runs. *Cores per
process* is what the processor gave a process while it worked: less than 1 where others were in its
way, or where it waited for a GPU.
"""
PARTS = """
*Start* is all until a process is ready for its first run: Python, imports, what torch loads when
it is first used, the context of a GPU. One process on the CPU is that of the command, which has
most of this behind it. *Load data* counts what is not in memory yet; a process keeps the data of
its last runs and rather takes runs on it. *Weights* are the statistics of the groups and the linear
program. *Write* is the files of the runs, *idle at the end* the time from the last run of a process
to the end of the sweep, *all else* nets, buffers, locks and waiting for the next piece of work.
"""


def page(results: SweepResults, pictures: Mapping[str, str]) -> str:
    """Write the page; ``pictures`` says where each picture is, seen from the page."""
    rows = summarise_sweeps(results.costs)
    text = HEAD.format(command=results.command, machine=described(results.environment))
    text += "".join(f"\n{note}.\n" for note in results.notes)
    text += FOUND.format(
        runs=len(results.works),
        repeats=max(row.repeats for row in rows),
        sentences="\n".join(f"- {sentence}" for sentence in sentences(rows)),
        picture=pictures[PICTURE],
    )
    for table in sweep_tables(rows):
        text += f"\n## {table.title}\n\n{as_markdown(table)}"
    text += PARTS
    return text if results.complete else f"{text}\nThe benchmark was interrupted here.\n"
