"""Audits of tables: the predictions of any system in a file, or those of a run in its folder.

A file is counted as it is read. What is wrong with it is found for all of its columns at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from faircil.auditing import Audit, key_of, refusal
from faircil.auditing.findings import DRAWS
from faircil.data.arrow import Coded
from faircil.data.tables import read_coded
from faircil.errors import DataError, UsageError, collecting, raise_all, shortened
from faircil.files import check_listed
from faircil.labels import NEVER_MISSING, as_labels
from faircil.metrics import read_predictions

PREDICTIONS = "predictions.csv"  # of a run
RUN_ATTRIBUTE = "attribute"  # its column in the predictions of a run


def audit_file(
    path: Path,
    *,
    truth: str | None = None,
    prediction: str | None = None,
    sensitive: Sequence[str] = (),
    task: str | None = None,
    favoured: Collection[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    run_attribute: str = RUN_ATTRIBUTE,
) -> Audit:
    """Audit the predictions in a table, or those of a run after its last task.

    Parameters
    ----------
    path : Path
        A table of any kind that faircil reads, Parquet in batches; or a folder with a
        ``predictions.csv``. Where no column is named, this has to be that of a run.
    truth, prediction, sensitive, task : str
        Columns; without ``sensitive`` only classes are compared.
    favoured, draws, seed
        See :class:`~faircil.auditing.Audit`.
    run_attribute : str
        What the attribute of a run is called.

    Raises
    ------
    UsageError
        If the columns of classes are not named, or one is named twice; with what is wrong with the
        table, if anything is.
    DataError
        If the table cannot be read or counted; all mistakes in its columns at once.
    """
    path = _file_of(path)
    check_listed(path)
    named = [name for name in (truth, prediction, task, *sensitive) if name]
    if path.name == PREDICTIONS and not named:
        return _audit_run(path, favoured, draws, seed, run_attribute)
    columns = {"truth": truth, "prediction": prediction}
    mistakes = [
        f"`{part}` is missing; name the column of {path}"
        for part, name in columns.items()
        if not name
    ]
    mistakes += [
        f"the column '{name}' is named {named.count(name)} times; each has one part"
        for name in dict.fromkeys(named)
        if named.count(name) > 1
    ]
    given = {"y_true": truth, "y_pred": prediction, "task": task}
    parts = {part: name for part, name in given.items() if name}
    parts |= {key_of(name): name for name in sensitive}
    made = None
    with collecting(mistakes):
        made = Audit(list(dict.fromkeys(sensitive)), favoured=favoured, draws=draws, seed=seed)
    if made is None or mistakes:
        raise UsageError(*mistakes, *_all_faults(path, parts))
    faults: dict[str, str] = {}
    try:
        for batch in read_coded(
            path, list(parts.values()), alike=[parts["y_true"], parts["y_pred"]]
        ):
            coded = {part: batch[name] for part, name in parts.items()}
            made.add_coded(_cleaned(coded, parts, faults))
    except DataError:
        raise_all(_all_faults(path, parts), DataError)
        raise  # what only the columns together have
    if faults:  # what the other columns tell alone is told with them
        raise DataError(*faults.values(), *made.mistakes(besides=faults))
    return made


def _all_faults(path: Path, parts: Mapping[str, str]) -> list[str]:
    """Find what keeps columns from being read, and what is wrong with those that can be.

    Parameters
    ----------
    path : Path
    parts : mapping from part to the name of its column
    """
    told: dict[str, None] = {}
    faults: dict[str, str] = {}
    for part, name in parts.items():
        try:
            for batch in read_coded(path, [name]):
                _cleaned({part: batch[name]}, parts, faults)
        except DataError as error:
            told |= dict.fromkeys(map(str, error.args))
    return [*told, *faults.values()]


def _file_of(path: Path) -> Path:
    """Return the table that is meant; a folder means the predictions in it."""
    if not path.is_dir():
        return path
    if (path / PREDICTIONS).is_file():
        return path / PREDICTIONS
    below = sorted(str(file.parent) for file in path.glob(f"*/{PREDICTIONS}"))
    hint = f"name one of {shortened(below)}" if below else "name a table, or the folder of a run"
    raise DataError(f"the folder {path} has no {PREDICTIONS}; {hint}")


def _audit_run(
    path: Path, favoured: Collection[Any] | None, draws: int, seed: int, attribute: str
) -> Audit:
    """Audit what a run predicted after its last task."""
    try:
        last = read_predictions(path)[-1]
    except DataError as error:
        raise DataError(
            f"{error}; of any other table, name the columns: `truth`, `prediction` and `sensitive`"
        ) from None
    features = {attribute: last["sensitive"]} if "sensitive" in last else {}
    made = Audit(list(features), favoured=favoured, draws=draws, seed=seed)
    return made.update(
        last["y_true"], last["y_pred"], sensitive_features=features, task=last.get("task")
    )


def _cleaned(
    coded: Mapping[str, Coded], names: Mapping[str, str], faults: dict[str, str]
) -> dict[str, Coded]:
    """Check labels of a file as those of columns are; a missing attribute is one more label.

    Parameters
    ----------
    coded : mapping from part to (labels, codes)
    names : mapping from part to the name of its column
    faults : dict from part to sentence
        What is wrong; a column that has a fault is left as one label from then on, so that the
        faults of all others are found as well.
    """
    found: dict[str, Coded] = {}
    for part, (labels, codes) in coded.items():
        missing, name = codes < 0, f"column '{names[part]}'"
        mistakes: list[str] = []
        if missing.any() and part in NEVER_MISSING:
            mistakes.append(
                f"{name} has missing values, {int(missing.sum()):,} in {len(codes):,} rows, "
                "expected a label in every row; leave the others out"
            )
        mistakes += refusal(name, part, labels)
        clean = as_labels(name, labels, mistakes) if not mistakes else labels
        if mistakes:
            faults.setdefault(part, mistakes[0])
        if part in faults:
            found[part] = (np.zeros(1, dtype=np.int64), np.zeros(len(codes), dtype=np.intp))
            continue
        if missing.any():
            unknown = -1 if clean.dtype != object else None
            clean = np.append(clean, np.array([unknown], dtype=clean.dtype))
            codes = np.where(missing, len(labels), codes)
        found[part] = (clean, codes)
    return found
