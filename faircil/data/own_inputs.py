"""Inputs out of a user's table: its features, or the texts of one column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
from pandas.api.types import is_numeric_dtype

from faircil.data.encode import fit_inputs
from faircil.data.stream import Inputs, Integers
from faircil.errors import shortened


@dataclass(frozen=True)
class OwnInputs:
    """How rows become inputs, and what a user should know about it.

    Parameters
    ----------
    of : callable
        Makes the inputs of some rows, see :class:`faircil.data.stream.Part`.
    notes : tuple of str
    texts : tuple of str or None
        All texts, where inputs are their numbers.
    """

    of: Inputs
    notes: tuple[str, ...]
    texts: tuple[str, ...] | None = field(default=None, repr=False)


def feature_inputs(features: pd.DataFrame, train: Integers, first_task: Integers) -> OwnInputs:
    """Let every column be a feature; see :func:`faircil.data.encode.fit_inputs`."""
    categories = [
        f"{name} ({features[name].nunique()})"
        for name in features.columns
        if not is_numeric_dtype(features[name])
    ]
    note = f"text columns (categories), one input per category: {shortened(categories)}"
    return OwnInputs(fit_inputs(features, train, first_task), (note,) if categories else ())


def text_inputs(texts: pd.Series, unused: Sequence[str]) -> OwnInputs:
    """Let the text of each row (n,) be its only input; ``unused`` are columns without a role."""
    note = f"columns left out, since the text is the only input: {shortened(unused)}"
    return OwnInputs(lambda rows: rows, (note,) if unused else (), tuple(texts))
