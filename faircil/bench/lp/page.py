"""A benchmark of solvers as tables and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from faircil.bench.lp.cases import REFERENCE
from faircil.bench.lp.published import SOURCE
from faircil.bench.lp.record import LpResults, Skipped
from faircil.bench.lp.summary import SolverAtSize, exponents, summarise
from faircil.bench.machine import described
from faircil.bench.timing import written
from faircil.report import Cell, Table, as_markdown

HEADER = (
    "solver",
    "programs",
    "time",
    f"times faster than {REFERENCE}",
    "worst gap",
    "passes",
    "fractional weights",
)
TEXT = """# Time to solve the weighting program

Written by

```
{command}
```

on {machine}.

![time against n]({picture})

{caption}

{tables}
- *Time* is that of a whole solve, proof of optimality included: median of {repeats} solves after a
  warm-up, solvers in turns in one process, geometric mean over the programs.
- *Worst gap* is (objective − bound) / (1 + |objective|), both computed anew from the weights and
  the dual that the solver returned; the bound is proven whatever the solver.
- *Passes* is how often all columns of the program were read, where the solver counts it; the
  largest over the programs, as is the number of *fractional weights*. A vertex has at most as many
  of these as the program has rows.
- Every floor is kept to within {violation:.0e}.
- {origin}
{notes}
## Programs

{program_table}"""
RESIZED = (
    "A program is brought to n columns by drawing columns with replacement, multiplying each entry "
    "by\n  1 + 2 % noise, and all of them by old size over new size."
)
CAPTION = (
    "Geometric mean over {programs} programs of the median time of one solve, {threads} for the "
    "linear algebra. Dashed: {source}."
)
WIDTH = 100
EXACT = 1e-16  # a gap below this is rounding of the two sums
UNCHANGED = "The programs have their own sizes."


def tables(rows: Sequence[SolverAtSize]) -> list[Table]:
    """Make a table per size with a row per solver, then one of exponents if there are sizes."""
    made = []
    for label in dict.fromkeys(row.label for row in rows):
        cells = [tuple(map(Cell, _texts(row))) for row in rows if row.label == label]
        made.append(Table(label, HEADER, tuple(cells)))
    if fits := exponents(rows):
        cells = [(Cell(solver), Cell(f"{value:.2f}")) for solver, value in fits.items()]
        made.append(Table("Growth", ("solver", "time grows as n to the"), tuple(cells)))
    return made


def not_measured(skipped: Sequence[Skipped]) -> list[str]:
    """Say what was not measured and why, once per size and solver."""
    parts: dict[tuple[int | None, str], list[Skipped]] = {}
    for item in skipped:
        parts.setdefault((item.size, item.solver), []).append(item)
    sentences = []
    for (size, solver), items in parts.items():
        where = "at the programs' own sizes" if size is None else f"at n = {size:,}"
        many = "" if items[0].program is None else f" on {len(items)} program(s)"
        sentences.append(f"{solver} {where}{many}: {items[0].why}")
    return sentences


def page(results: LpResults, picture: str) -> str:
    """Write the page; ``picture`` is where its picture is, seen from the page."""
    options, measurements = results.options, results.measurements
    caption = CAPTION.format(
        programs=len({item.program for item in measurements}),
        threads=f"{options.threads} thread{'s' * (options.threads > 1)}",
        source=SOURCE,
    )
    notes = [*results.notes, *(f"Not measured: {what}" for what in not_measured(results.skipped))]
    if not results.complete:
        notes.append("Not measured: the rest, since the benchmark was interrupted")
    return TEXT.format(
        command=results.command,
        machine=described(results.environment),
        picture=picture,
        caption=fill(caption, WIDTH),
        tables="\n".join(
            f"## {table.title}\n\n{as_markdown(table)}" for table in tables(summarise(results))
        ),
        repeats=options.repeats,
        violation=max(item.violation for item in measurements),
        origin=RESIZED if options.sizes else UNCHANGED,
        notes="".join(["\nNotes:\n\n", *(f"- {note}\n" for note in notes)] if notes else []),
        program_table=as_markdown(_program_table(results)),
    )


def _texts(row: SolverAtSize) -> tuple[str, ...]:
    return (
        row.solver,
        str(row.programs),
        written(row.seconds),
        "–" if row.ratio is None else _times(row.ratio),
        f"{row.gap:.0e}" if abs(row.gap) > EXACT else "0",
        "–" if row.passes is None else str(row.passes),
        str(row.fractional),
    )


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _program_table(results: LpResults) -> Table:
    shapes = {item.program: (item.gap_rows, item.floor_rows) for item in results.measurements}
    header = ("program", "gap rows", "floor rows")
    cells = [(Cell(name), Cell(str(k)), Cell(str(m))) for name, (k, m) in shapes.items()]
    return Table("Programs", header, tuple(cells))
