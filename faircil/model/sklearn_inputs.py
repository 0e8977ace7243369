"""Inputs of scikit-learn's users: rows, classes and attributes, in various containers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from faircil.data.table_columns import same_names
from faircil.errors import DataError, FaircilError, raise_all, shortened
from faircil.model.model import Floats32

UNNAMED = "sensitive_feature_{}"  # Fairlearn's names for columns without a name


def as_array(values: Any) -> Any:
    """Return a tensor as an array, and anything else unchanged."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def attribute_table(sensitive: Any) -> pd.DataFrame:
    """Return sensitive attributes as columns; columns without a name are numbered."""
    table = as_table(sensitive, "sensitive_features")
    if table is not None:
        return table
    # Lists are kept: as an array, their missing values would become strings.
    foreign = not isinstance(sensitive, pd.Series) and hasattr(sensitive, "to_numpy")
    try:
        table = pd.DataFrame(sensitive.to_numpy() if foreign else sensitive)
        for name in table:
            pd.factorize(table[name])
    except (ValueError, TypeError):
        raise DataError(
            f"sensitive_features is a {type(sensitive).__name__} of another form; expected a "
            "value, or several, for each row: shape (n,) or (n, attributes)"
        ) from None
    if isinstance(sensitive, Mapping):
        return table
    name = getattr(sensitive, "name", None)
    names = [UNNAMED.format(number) for number in range(table.shape[1])]
    return table.set_axis([str(name)] if name and len(names) == 1 else names, axis=1)


def as_fitted(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return attributes in the order in which a model was fitted; raise an error for others."""
    unnamed = [UNNAMED.format(number) for number in range(len(names))]
    if set(table) == set(names):
        return table[list(names)]
    if table.shape[1] == len(names) and unnamed in ([*table], [*names]):
        return table
    raise DataError(
        f"sensitive_features has {', '.join(map(str, table))}, and the model was fitted with "
        f"{', '.join(names)}; give the same"
    )


def as_table(values: Any, what: str = "X") -> pd.DataFrame | None:
    """Return a pandas data frame with string names; None if values are not a data frame.

    Data frames of other libraries, such as polars and Arrow, are converted column by column, which
    requires no further package.
    """
    if hasattr(values, "__dask_graph__"):
        raise DataError(
            f"{what} is a collection of Dask, whose rows stay on its workers; learn with "
            "`fit_dask`, predict with map_partitions(model.predict), or compute() it first"
        )
    columns: Any = getattr(values, "columns", None)
    if not isinstance(values, pd.DataFrame):
        columns = getattr(values, "column_names", None) or columns  # of Arrow, or polars
        if columns is None or not hasattr(values, "__arrow_c_stream__"):
            return None
    names = [str(name) for name in columns]
    raise_all([f"{what} has {mistake}" for mistake in same_names(names)], DataError)
    if isinstance(values, pd.DataFrame):
        return values.set_axis(names, axis=1)
    return pd.DataFrame({name: values[name].to_numpy() for name in names})


def numbered(x: Floats32) -> pd.DataFrame:
    """Return an array as a table with numbered columns."""
    return pd.DataFrame(x, columns=[f"x{number}" for number in range(x.shape[1])], copy=False)


def labels_of(y: Any, known: Sequence[Hashable] = ()) -> list[Hashable]:
    """Return classes as Python strings or numbers, of the types of the model's ``known`` ones."""
    column = column_or_1d(y, warn=True)
    if column.dtype.kind == "f":
        assert_all_finite(column, input_name="y")
    found: list[Any] = [
        value.item() if isinstance(value, np.generic) else value for value in column.tolist()
    ]
    missing = [str(row + 1) for row in np.flatnonzero(pd.isna(column))]
    if missing:
        raise ValueError(
            f"y has {len(missing)} missing value(s), in row {shortened(missing)} (counted from 1); "
            "leave these rows out"
        )
    supported = (str, bool, int, float)
    dates = column.dtype.kind in "mM"  # which tolist converts to integers
    if dates or not all(issubclass(kind, supported) for kind in set(map(type, found))):
        odd = [row for row, label in enumerate(found) if dates or not isinstance(label, supported)]
        raise ValueError(
            f"y has {len(odd)} value(s) that are neither text nor number, such as "
            f"{column[odd[0]]!r} in row {odd[0] + 1} (counted from 1); convert y to texts"
        )
    kinds: dict[bool, Hashable] = {}
    for label in (*dict.fromkeys(found), *known):
        kinds.setdefault(isinstance(label, str), label)
    if len(kinds) > 1:
        some = " and ".join(map(repr, kinds.values()))
        raise ValueError(f"classes are texts and numbers, such as {some}; make all of them texts")
    check_classification_targets(y)
    return found


@contextmanager
def as_value_error() -> Iterator[None]:
    """Convert faircil's errors to those that scikit-learn's users expect."""
    try:
        yield
    except FaircilError as error:
        raise ValueError(str(error)) from error
