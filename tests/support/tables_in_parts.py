"""A table of people, in memory and as a folder of Parquet files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from faircil.data.own import OwnData


def people(rows: int = 1200, seed: int = 0) -> pd.DataFrame:
    drawn = np.random.default_rng(seed)
    job = drawn.choice(["cook", "judge", "nurse"], rows)
    sex = drawn.choice(["F", "M"], rows, p=[0.3, 0.7])
    table = pd.DataFrame(drawn.normal(size=(rows, 3)), columns=["a", "b", "c"])
    table["a"] += job == "judge"
    table["b"] += (job == "nurse") + 0.5 * (sex == "F")
    return table.assign(town=drawn.choice(["x", "y"], rows), job=job, sex=sex)


def stored(table: pd.DataFrame, folder: Path, files: int = 3) -> Path:
    folder.mkdir(exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        part = table.iloc[rows].reset_index(drop=True)
        part.to_parquet(folder / f"{number}.parquet", row_group_size=100)
    return folder


def roles(path: Path, **more: object) -> OwnData:
    return replace(OwnData(str(path), "job", ("sex",)), **more)  # type: ignore[arg-type]
