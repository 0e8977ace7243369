"""What tables larger than memory cost: rows a second and memory, by one process and several.

A table of normal clusters is written as a folder of Parquet files. Whole commands learn it, in turn
by one process with all cores and with one thread, by several, and by workers of Dask, which have
one thread each. For comparison, the same random features of as many of its rows as fit in memory
are learned with pandas and scikit-learn.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from faircil.data.own import OwnData
from faircil.model.choosing import Wish
from faircil.model.merging import merge_models, plan_of, planned_for
from faircil.model.model import Model
from faircil.model.table_models import fit_table, update_table
from faircil.report import Table
from faircil_lab.bench.benchmark import Benchmark, sections, table_of
from faircil_lab.bench.measuring import Circumstances, in_processes
from faircil_lab.bench.whole_runs import outcome_of
from faircil_lab.wording import seconds_text

CLASSES, MINORITY = 4, 0.2
FILE_ROWS = 2_000_000  # of a file, at most
GROUP_ROWS = 262_144  # of a row group
SITES = 20
SITE_ROWS = 4000  # of all sites together
FEW = 100_000  # rows of a block of features of the rival
ALONE, ONE_THREAD = "one process", "one process, one thread"
RIVAL = "pandas and RidgeClassifier"


@dataclass(frozen=True)
class ScaleWork:
    """A table, and how it is learned.

    Parameters
    ----------
    rows, inputs : int
    width : int
        Features.
    workers : tuple of int
        Numbers of workers to compare, besides one process.
    rival : int
        Rows that the rival learns; 0: it is left out.
    """

    rows: int
    inputs: int
    width: int
    workers: tuple[int, ...]
    rival: int


@dataclass(frozen=True)
class ScaleCost:
    """What a way to learn a table took.

    Parameters
    ----------
    way : str
        In plain words.
    rows : int
    seconds : float
        Of the whole command, with Python's start.
    memory : float or None
        Peak of its first process in GiB, where the system reports it.
    tensors : str or None
        Name of the file of tensors, which has their hash; None: no model of ours.
    error : float or None
        Largest relative difference of a sum from the one it should be, of a merge.
    """

    way: str
    rows: int
    seconds: float
    memory: float | None = None
    tensors: str | None = None
    error: float | None = None


@dataclass(frozen=True)
class ScaleResults(Circumstances):
    """A benchmark of large tables.

    Parameters
    ----------
    outcomes : tuple of ScaleCost
    work : ScaleWork
    """

    outcomes: tuple[ScaleCost, ...]
    work: ScaleWork


@dataclass(frozen=True)
class TableFile:
    """One file of a table: its place, number and rows, and the inputs of a row."""

    path: Path
    number: int
    rows: int
    inputs: int


def write_file(file: TableFile) -> int:
    """Write the rows of a file; return its bytes. Each file has draws of its own."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, 2, file.inputs)).astype(np.float32)
    draw, rows = np.random.default_rng([1, file.number]), file.rows
    y, z = draw.integers(CLASSES, size=rows), (draw.random(rows) < MINORITY).astype(int)
    x = draw.standard_normal((rows, file.inputs), dtype=np.float32) + 0.5 * centres[y, z]
    table = pd.DataFrame(x, columns=[f"x{place}" for place in range(file.inputs)])
    jobs = pd.Index([f"job {number}" for number in range(CLASSES)])
    table["job"] = pd.Categorical.from_codes(y, jobs)
    table["sex"] = pd.Categorical.from_codes(z, pd.Index(["F", "M"]))
    table.to_parquet(file.path, row_group_size=GROUP_ROWS, compression=None)
    return file.path.stat().st_size


def write_table(work: ScaleWork, folder: Path) -> int:
    """Write a table of normal clusters as Parquet files, by all cores; return their bytes."""
    files = [
        TableFile(
            folder / f"part-{number:04}.parquet",
            number,
            min(FILE_ROWS, work.rows - first),
            work.inputs,
        )
        for number, first in enumerate(range(0, work.rows, FILE_ROWS))
    ]
    return sum(in_processes(write_file, files, os.cpu_count() or 1))


def measure_scale(work: ScaleWork) -> Iterator[ScaleCost]:
    """Measure every way on one table; the rival last, since it needs the most memory."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "table"
        data.mkdir()
        start = time.perf_counter()
        size = write_table(work, data)
        seconds = time.perf_counter() - start
        yield ScaleCost(f"writing the table, {size / 1e9:.1f} GB", work.rows, seconds)
        for number, (way, words) in enumerate(_ways(work.workers)):
            yield _fitted(work, data, Path(place) / f"model-{number}", way, words)
        if work.rival:
            yield _rival(work, data)
    yield merged_sites(work)


def _ways(workers: Sequence[int]) -> list[tuple[str, tuple[str, ...]]]:
    """Return each way to learn the table, in words and as options."""
    found: list[tuple[str, tuple[str, ...]]] = [(ALONE, ())]
    if workers:
        found.append((ONE_THREAD, ()))
    for number in workers:
        found.append((f"{number} processes", ("--jobs", str(number))))
        found.append((f"Dask, {number} workers", ("--scheduler", f"local:{number}")))
    return found


def _fitted(work: ScaleWork, data: Path, out: Path, way: str, words: Sequence[str]) -> ScaleCost:
    start = time.perf_counter()
    _, memory = outcome_of(
        [
            *(sys.executable, "-m", "faircil", "fit", "--data", str(data), "--label", "job"),
            *("--sensitive", "sex", "--method", "moments", "--set", f"width={work.width}"),
            *(*words, "-o", str(out), "--json", "--quiet"),
        ],
        {"OMP_NUM_THREADS": "1"} if way == ONE_THREAD else {},
    )
    seconds = time.perf_counter() - start
    (tensors,) = (path.name for path in out.glob("tensors-*"))
    return ScaleCost(way, work.rows, seconds, memory, tensors)


def _rival(work: ScaleWork, data: Path) -> ScaleCost:
    start = time.perf_counter()
    words = (str(data), str(work.rival), str(work.width))
    _, memory = outcome_of([sys.executable, "-m", "faircil_lab.bench.scale", *words])
    seconds = time.perf_counter() - start
    return ScaleCost(RIVAL, work.rival, seconds, memory)


def learn_as_usual(data: Path, rows: int, width: int) -> float:
    """Learn rows of the table as one would without faircil; return the accuracy on them."""
    from sklearn.linear_model import RidgeClassifier

    files, frames, there = sorted(data.iterdir()), [], 0
    while there < rows:
        frames.append(pd.read_parquet(files.pop(0)))
        there += len(frames[-1])
    table = pd.concat(frames).iloc[:rows]
    del frames
    y = table["job"].cat.codes.to_numpy()
    x = table.drop(columns=["job", "sex"]).to_numpy(np.float32)
    draw = np.random.default_rng(0)
    weight = draw.normal(size=(x.shape[1], width)).astype(np.float32) / x.shape[1] ** 0.5
    phi = np.empty((rows, width), dtype=np.float32)
    for first in range(0, rows, FEW):
        place = slice(first, first + FEW)
        np.maximum(x[place] @ weight, 0, out=phi[place])
    found = RidgeClassifier(class_weight="balanced").fit(phi, y)
    return float(found.score(phi[:FEW], y[:FEW]))


def merged_sites(work: ScaleWork) -> ScaleCost:
    """Merge the sums of many sites, and compare them with those of all rows at one."""
    draw = np.random.default_rng(2)
    table = pd.DataFrame(draw.normal(size=(SITE_ROWS, work.inputs)))
    table.columns = pd.Index([f"x{place}" for place in range(work.inputs)])
    table = table.assign(
        job=draw.choice(["a", "b", "c"], SITE_ROWS), sex=draw.choice(["F", "M"], SITE_ROWS)
    )
    site = draw.integers(SITES, size=SITE_ROWS)
    wish = Wish("moments", overrides=(f"width={work.width}", "arithmetic=float64"))
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "rows.csv"

        def learned(plan: Model, rows: pd.DataFrame, *, solve: bool) -> Model:
            rows.to_csv(path, index=False)
            model = planned_for(plan)
            update_table(model, path, solve=solve)
            return model

        table[:1000].to_csv(path, index=False)
        plan = plan_of(fit_table(OwnData(str(path), "job", ("sex",)), wish))
        sites = [learned(plan, table[site == number], solve=False) for number in range(SITES)]
        whole = learned(plan, table, solve=True)
        start = time.perf_counter()
        merged = merge_models(sites)
        seconds = time.perf_counter() - start
    return ScaleCost(
        f"merging {SITES} sites", SITE_ROWS, seconds, error=_largest_error(merged, whole)
    )


def _largest_error(found: Model, wanted: Model) -> float:
    """Return the largest difference of a sum, by the largest sum of its group."""
    mine, theirs = found.learner.moments, wanted.learner.moments
    errors = []
    for key, exact in zip(theirs.keys, theirs.cells(), strict=True):
        other = mine.cells()[mine.keys.index(key)]
        errors.append(float((other - exact).abs().max() / exact.abs().max()))
    return max(errors)


def _tables(results: ScaleResults) -> list[Table]:
    columns = ("way", "rows", "time", "rows a second", "peak memory", "of one process", "tensors")
    costs = results.outcomes
    alone = next((cost for cost in costs if cost.way == ALONE), None)

    def texts(cost: ScaleCost) -> tuple[str, ...]:
        fitted = cost.tensors is not None and alone is not None
        return (
            cost.way,
            f"{cost.rows:,}",
            seconds_text(cost.seconds),
            f"{cost.rows / cost.seconds:,.0f}",
            "–" if cost.memory is None else f"{cost.memory:.2f} GiB",
            f"{alone.seconds / cost.seconds:.2f} times" if fitted and alone else "–",
            "–" if cost.tensors is None else f"`{cost.tensors[8:20]}`",
        )

    return [table_of("Learning", columns, map(texts, costs))]


ABOUT = """
A table of normal clusters, {inputs} float32 numbers, {classes} classes and two sexes, as Parquet
files on a local disk. Each way is a whole command, `faircil fit --method moments --set
width={width}`, including the start of Python and, for Dask, of its cluster. One process alone uses
all cores; several, and the workers of Dask, have one thread each. Memory is that of the first
process. *Tensors* is the hash of what was learned: equal hashes mean bit-identical results. The
alternative reads the first rows with pandas, computes as many random ReLU features of float32 and
fits a `RidgeClassifier`, without groups; its rows, set by `--rival`, must fit in memory.
"""


def _text(results: ScaleResults, pictures: Mapping[str, str]) -> str:
    del pictures  # there are none
    work = results.work
    about = ABOUT.format(inputs=work.inputs, classes=CLASSES, width=work.width)
    return about + _sentences(results) + sections(_tables(results))


def _sentences(results: ScaleResults) -> str:
    found = {cost.way: cost for cost in results.outcomes}
    said = []
    hashes = [cost.tensors for cost in results.outcomes if cost.tensors is not None]
    if len(hashes) > 1:
        different = len(set(hashes))
        said.append(
            f"All {len(hashes)} ways of faircil give the same tensors, to the bit."
            if different == 1
            else f"**The ways give {different} different tensors.**"
        )
    single = found.get(ONE_THREAD)
    for way, cost in found.items():
        if single is not None and way.endswith(" processes"):
            ratio = single.seconds / cost.seconds
            said.append(f"{way}, one thread each: {ratio:.2f} times as fast as one of them.")
        if way.startswith("Dask"):
            plain = found[f"{way.split()[1]} processes"]
            more = cost.seconds / plain.seconds - 1
            said.append(f"{way}: {more:+.0%} of the time of {plain.way}, its start included.")
    rival, alone = found.get(RIVAL), found.get(ALONE)
    if rival is not None and alone is not None:
        ratio = (alone.rows / alone.seconds) / (rival.rows / rival.seconds)
        held = "" if rival.memory is None else f" in {rival.memory:.1f} GiB"
        said.append(
            f"One process learns {ratio:.2f} times as many rows a second as pandas with "
            f"RidgeClassifier, which holds {rival.rows:,} rows{held}."
        )
    for cost in results.outcomes:
        if cost.error is not None:
            said.append(
                f"{cost.way.capitalize()} with sums of float64: the largest difference from all "
                f"rows at one place is {cost.error:.1e} of the largest sum."
            )
    return "\n" + "\n".join(f"- {sentence}" for sentence in said) + "\n"


SCALE = Benchmark[ScaleResults](
    title="Large tables, and several workers",
    line=lambda cost: f"{cost.way}: {seconds_text(cost.seconds)}",
    document=lambda results: {"ways": [asdict(cost) for cost in results.outcomes]},
    rows=lambda results: (asdict(cost) for cost in results.outcomes),
    tables=_tables,
    figures=lambda _: {},
    text=_text,
    besides=lambda results: f"; {results.environment['threads']} threads",
)


if __name__ == "__main__":
    accuracy = learn_as_usual(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps({"accuracy": accuracy}))
