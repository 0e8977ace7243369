"""Tables that ship with faircil: rows that apply to a run where all of their keys match."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

Row = Mapping[str, Any]


@cache
def shipped_rows(
    package: str, name: str, parse_float: Callable[[str], Any] = float
) -> tuple[Row, ...]:
    """Read the rows of a TOML file of a package, once: a sweep looks thousands of runs up."""
    text = (files(package) / name).read_text(encoding="utf-8")
    return tuple(tomllib.loads(text, parse_float=parse_float)["row"])


def applies(row: Row, key: Mapping[str, Any]) -> bool:
    """Tell whether a row is for a run: each of the keys that it names lists the run's value."""
    return all(key[name] in row[name] for name in key if name in row)
