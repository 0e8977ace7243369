"""Post-processing of probabilities in files: fit on one table, predict another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from faircil.data.encode import code_values, cross
from faircil.data.tables import read_table
from faircil.errors import DataError, FaircilError, raise_all, unknown_name
from faircil.postprocess import EpsilonFair
from faircil.postprocess.checks import probability_mistakes

PREDICTION = "prediction"  # the column that is added
SEPARATORS = {".csv": ",", ".tsv": "\t"}


@dataclass(frozen=True)
class TableJob:
    """What to fit on and what to predict.

    Parameters
    ----------
    pool, new : Path
        Tables with columns of probabilities and attributes.
    probabilities, sensitive : tuple of str
        Columns; several attributes make one of their combinations.
    weight : str or None
        Column of the pool.
    epsilon : float
    seed : int
        Of the draws at ties.
    """

    pool: Path
    new: Path
    probabilities: tuple[str, ...]
    sensitive: tuple[str, ...]
    weight: str | None
    epsilon: float
    seed: int


def apply_to_table(job: TableJob, out: Path) -> list[str]:
    """Write the new table with a column of predictions; return what to tell the user."""
    pool, new = read_table(job.pool), read_table(job.new)
    weights = () if job.weight is None else (job.weight,)
    raise_all(_usage_mistakes(job, pool, new, out))
    raise_all(
        _data_mistakes(job, job.pool, pool, weights) + _data_mistakes(job, job.new, new), DataError
    )
    rule = EpsilonFair(job.epsilon).fit(
        _numbers(pool, job.probabilities),
        _groups(pool, job.sensitive),
        sample_weight=_numbers(pool, weights)[:, 0] if weights else None,
        seed=job.seed,
    )
    probabilities = _numbers(new, job.probabilities)
    chosen = rule.predict(probabilities, _groups(new, job.sensitive), job.seed)
    _write(job, chosen, out)
    changed = float((chosen != probabilities.argmax(axis=1)).mean())
    return [
        *(f"note: {note}" for note in rule.notes),
        f"on the pool, shares differ by at most {rule.gap:.4f}; {100 * changed:.1f} % of the "
        "predictions are not the most probable class",
        f"saved in {out}",
    ]


def _usage_mistakes(job: TableJob, pool: pd.DataFrame, new: pd.DataFrame, out: Path) -> list[str]:
    columns = [*job.probabilities, *job.sensitive]
    wanted = [(job.pool, pool, [*columns, *([job.weight] if job.weight else [])])]
    wanted.append((job.new, new, columns))
    mistakes = [
        f"{path}: {unknown_name('column', name, table.columns)}"
        for path, table, names in wanted
        for name in names
        if name not in table
    ]
    if PREDICTION in new:
        mistakes.append(f"{job.new} has a column '{PREDICTION}' already; rename it")
    if out.suffix not in SEPARATORS:
        mistakes.append(f"--out {out} has an unknown ending; use {' or '.join(SEPARATORS)}")
    return mistakes


def _data_mistakes(
    job: TableJob, path: Path, table: pd.DataFrame, weights: tuple[str, ...] = ()
) -> list[str]:
    text = [n for n in (*job.probabilities, *weights) if not is_numeric_dtype(table[n])]
    mistakes = [f"column '{name}' of {path} is text, expected numbers" for name in text]
    if not text:
        what = f"the probabilities of {path}"
        mistakes += probability_mistakes(_numbers(table, job.probabilities), what)
    mistakes += [
        f"column '{name}' of {path} has {missing} missing value(s); fill or drop them"
        for name in job.sensitive
        if (missing := int(table[name].isna().sum()))
    ]
    return mistakes


def _numbers(table: pd.DataFrame, names: tuple[str, ...]) -> NDArray[np.float64]:
    return table[list(names)].to_numpy(np.float64)


def _groups(table: pd.DataFrame, names: tuple[str, ...]) -> NDArray[np.str_]:
    """Return the attribute value of each row, as text; several are joined."""
    coded = reduce(cross, [code_values(table[name]) for name in names])
    return np.array(coded.names)[coded.codes]


def _write(job: TableJob, chosen: NDArray[np.int64], out: Path) -> None:
    """Write the table as it was, with the prediction as its last column."""
    if job.new.name.endswith(".npz"):
        table = read_table(job.new)
    else:
        separator = "\t" if ".tsv" in job.new.suffixes else ","
        table = pd.read_csv(
            job.new, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig"
        )
    table[PREDICTION] = np.array(job.probabilities)[chosen]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(out, sep=SEPARATORS[out.suffix], index=False)
    except OSError as error:
        raise FaircilError(f"cannot write {out}: {error.strerror or error}") from None
