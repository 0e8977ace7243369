"""Valid files, and ways to corrupt them: flipped, cut and swapped bytes, values of other types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from fuzzing import WORDS

ROWS = 24


def people() -> pd.DataFrame:
    """Return a small table: features a and b, class job, attribute sex, predictions."""
    number = np.arange(ROWS)
    return pd.DataFrame(
        {
            "a": number % 5 + 0.5,
            "b": number % 7,
            "job": np.array(list("xyz"))[number % 3],
            "sex": np.array(list("fm"))[number // 3 % 2],
            "guess": np.array(list("xyz"))[(number + number // 8) % 3],
        }
    )


def write_tables(folder: Path) -> dict[str, bytes]:
    """Write the table in every format; return the bytes by name."""
    table = people()
    table.to_csv(folder / "t.csv", index=False)
    table.to_csv(folder / "t.csv.gz", index=False)
    table.to_csv(folder / "t.tsv", index=False, sep="\t")
    table.to_parquet(folder / "t.parquet")
    table.to_feather(folder / "t.feather")
    np.savez(
        folder / "t.npz",
        **{name: table[name].to_numpy().astype(str) for name in ("job", "sex", "guess")},
        x=table[["a", "b"]].to_numpy(),
    )
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


# Positions as fractions of the file, so that shrinking works for files of any length.
place = st.floats(0, 1, exclude_max=True)
spoiling = st.one_of(
    st.tuples(st.just("flip"), place, st.integers(1, 255)),
    st.tuples(st.just("cut"), place, st.just(0)),
    st.tuples(st.just("remove"), place, st.integers(1, 40)),
    st.tuples(st.just("swap"), place, place),
    st.tuples(
        st.just("insert"),
        place,
        st.one_of(st.binary(max_size=6), WORDS.map(lambda text: text.encode("utf-8", "replace"))),
    ),
)
spoilings = st.lists(spoiling, max_size=4)


def spoilt(data: bytes, changes: list[tuple[str, float, Any]]) -> bytes:
    """Return the bytes after some changes."""
    for kind, where, what in changes:
        at = int(where * len(data))
        if kind == "flip" and data:
            data = data[:at] + bytes([data[at] ^ what]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "remove":
            data = data[:at] + data[at + what :]
        elif kind == "swap":
            first, second = sorted((at, int(what * len(data))))
            data = data[second:] + data[first:second] + data[:first]
        elif kind == "insert":
            data = data[:at] + what + data[at:]
    return data


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([10**30, -1, 1e308, float("nan"), float("inf")]),
    WORDS.filter(lambda text: text.isprintable()),
    st.just([]),
    st.just({}),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from(["a", "$", "id", "of"]), st.integers(0, 3), max_size=2),
)
replacing = st.lists(st.tuples(st.integers(0, 10**6), values), min_size=1, max_size=3)


def replaced(document: Any, changes: list[tuple[int, Any]]) -> Any:
    """Return a document with values replaced, or removed where the new one is None."""
    document = json.loads(json.dumps(document))
    for number, value in changes:
        places = list(_places(document))
        if places:
            parent, key = places[number % len(places)]
            if value is None and isinstance(parent, dict):
                del parent[key]
            else:
                parent[key] = value
    return document


def _places(part: Any) -> Any:
    """Find all values, each with its container and key."""
    keys = (
        list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
    )
    for key in keys:
        yield part, key
        yield from _places(part[key])
