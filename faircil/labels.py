"""Labels of any kind: numbers, strings or other hashables.

They are given as a list, a numpy array, a pandas column or a torch tensor. These functions convert
such columns to arrays: of int64 if all labels are whole numbers, else of objects.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faircil.errors import DataError, raise_all, shortened

Labels = NDArray[Any]  # int64, or objects for other labels
Column = Any  # an ArrayLike, a pandas column or a torch tensor
NEVER_MISSING = ("y_true", "y_pred", "task")  # all other columns are attributes
WHOLE = np.iinfo(np.int64)  # whole numbers that are stored as such


def checked_columns(given: dict[str, Column | None]) -> dict[str, Labels]:
    """Return columns of the same n samples as arrays; raise a DataError if they are invalid.

    Parameters
    ----------
    given : dict
        ``y_true``, ``y_pred``, ``task`` and attributes of any name; None: no such column.

    Returns
    -------
    dict
        Arrays of int64 or objects, shape (n,). A missing attribute value becomes −1 among numbers
        and None among objects; elsewhere, missing values are mistakes.
    """
    arrays = {name: as_array(column) for name, column in given.items() if column is not None}
    if absent := [name for name in ("y_true", "y_pred") if name not in arrays]:
        raise DataError(f"{' and '.join(absent)} is None; give a class for each sample")
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or arrays["y_true"].ndim != 1 or arrays["y_true"].size == 0:
        came = ", ".join(f"{name} has shape {array.shape}" for name, array in arrays.items())
        raise DataError(f"{came}; expected shape (n,) with the same n of at least 1 for each")
    mistakes: list[str] = []
    found = {name: as_labels(name, array, mistakes) for name, array in arrays.items()}
    if "task" in found and found["task"].dtype == object:
        mistakes.append(
            f"task has values such as {found['task'][0]!r}, expected integers: number the tasks in "
            "the order in which they are learned"
        )
    raise_all(mistakes, DataError)
    words = {name: found[name].dtype == object for name in ("y_true", "y_pred")}
    if words["y_true"] != words["y_pred"] and not set(found["y_true"]) & set(found["y_pred"]):
        shown = (
            shortened(list(map(repr, dict.fromkeys(found[name].tolist()))), 3) for name in words
        )
        raise DataError(
            "y_true is {} and y_pred {}, so that no prediction could be right; give both as names "
            "or both as numbers".format(*shown)
        )
    return found


def as_labels(name: str, array: NDArray[Any], mistakes: list[str]) -> Labels:
    """Return labels as int64 if they are whole numbers, else as objects; collect mistakes."""
    if array.dtype.kind in "bi":
        return array.astype(np.int64)
    values = array.tolist()
    missing = np.fromiter(map(is_missing, values), dtype=bool, count=len(values))
    if missing.any() and name in NEVER_MISSING:
        mistakes.append(
            f"{name} has {int(missing.sum())} missing values, expected a label for every sample; "
            "leave the others out"
        )
        return np.zeros(len(values), dtype=np.int64)
    there = [value for value, no in zip(values, missing, strict=True) if not no]
    if all(isinstance(value, bool | int | float) for value in there):
        if broken := [value for value in there if value % 1 != 0]:
            mistakes.append(
                f"{name} has values such as {broken[0]!r}, expected labels; give classes instead "
                "of scores, and divide measured values into ranges"
            )
            return np.zeros(len(values), dtype=np.int64)
        whole = [-1 if no else int(v) for v, no in zip(values, missing, strict=True)]
        if large := [value for value in whole if not WHOLE.min <= value <= WHOLE.max]:
            mistakes.append(
                f"{name} has numbers such as {large[0]}, expected labels from {WHOLE.min} to "
                f"{WHOLE.max}; write such identifiers as texts"
            )
            return np.zeros(len(values), dtype=np.int64)
        return np.array(whole, dtype=np.int64)
    try:
        hash(tuple(there))
    except TypeError as error:
        mistakes.append(f"{name} has values that are not labels: {error}; give numbers or words")
    return _objects([None if no else value for value, no in zip(values, missing, strict=True)])


def favoured_labels(favoured: Collection[Any] | None) -> tuple[Any, ...] | None:
    """Return the favoured classes as a tuple; raise a DataError if they are invalid."""
    if isinstance(favoured, str):
        raise DataError(
            f"favoured is the text {favoured!r}, expected a list of classes: [{favoured!r}]"
        )
    try:
        return None if favoured is None else tuple(dict.fromkeys(favoured))
    except TypeError as error:
        raise DataError(
            f"favoured has values that are not classes: {error}; give a list of numbers or words"
        ) from None


def distinct_labels(labels: Labels) -> tuple[Labels, NDArray[np.intp]]:
    """Return the distinct labels, ascending, and the index of each label among them."""
    if labels.dtype != object:
        return np.unique(labels, return_inverse=True)
    values = set(labels.tolist())
    try:
        ordered = sorted(values)
    except TypeError:  # labels of several types, including None
        ordered = sorted(values, key=lambda value: (type(value).__name__, str(value)))
    place_of = {value: place for place, value in enumerate(ordered)}
    places = np.array([place_of[label] for label in labels.tolist()], dtype=np.intp)
    return _objects(ordered), places


def known_values(attributes: Labels) -> NDArray[np.bool_]:
    """Return which attribute values are known, (Z,)."""
    if attributes.dtype == object:
        return np.array([not is_unknown(value) for value in attributes], dtype=bool)
    known: NDArray[np.bool_] = attributes >= 0
    return known


def is_unknown(value: object) -> bool:
    """Whether an attribute value, as returned by :func:`checked_columns`, is unknown."""
    return value is None or (isinstance(value, int) and value < 0)


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN or pandas' NA."""
    if value is None:
        return True
    try:
        return bool(value != value)  # only NaN differs from itself
    except TypeError:  # NA is neither equal nor different
        return True


def as_array(column: Column) -> NDArray[Any]:
    """Return a column as an array of its values."""
    if hasattr(column, "detach"):  # a torch tensor, on any device
        column = column.detach().cpu()
    if hasattr(column, "to_numpy"):  # a pandas column
        column = column.to_numpy()
    if isinstance(column, list | tuple) and any(isinstance(one, str | tuple) for one in column):
        return _objects(column)
    try:
        return np.asarray(column)
    except ValueError:  # rows of different lengths, which are not labels
        return _objects(column)


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return an object array; numpy would convert numbers among strings, and tuples to rows."""
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):
        array[row] = value
    return array
