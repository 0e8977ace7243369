"""Dask data frames for the classifier: their rows stay on the workers that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import pandas as pd
from sklearn.utils.validation import check_is_fitted

from faircil.compute import choose_device
from faircil.data.frames import DaskFrames
from faircil.data.own import OwnData
from faircil.errors import UsageError
from faircil.model.choosing import Wish
from faircil.model.in_parts import fit_parts, update_parts
from faircil.model.model import Model
from faircil.model.row_sums import MOMENTS
from faircil.model.sklearn_inputs import as_fitted, as_value_error


class DaskLearning:
    """Lets a classifier learn Dask data frames, as one map-reduce over their partitions.

    The order of partitions determines the order in which sums are added. So the result is the same,
    bit for bit, even if workers die or join.
    """

    model_: Model
    device: str

    def fit_dask(
        self,
        frame: Any,
        label: str,
        *,
        sensitive_features: Sequence[str] = (),
        ignore: Sequence[str] = (),
        client: Any = None,
    ) -> Self:
        """Fit from scratch on the rows of a Dask data frame.

        Only the method ``moments`` supports this, so ``auto`` chooses it here. Columns and features
        are fitted on a sample of rows; apart from sums, only this sample leaves the workers. A data
        frame that is not persisted is computed three times: for its length, its classes and its
        sums, each time with only the columns that are needed.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            Each partition should fit several times into the memory of a worker.
        label : str
            Column of the class. Classes become strings, which :meth:`predict` returns.
        sensitive_features : sequence of str
            Columns of sensitive attributes, which are combined. Rows with missing values form an
            unknown group.
        ignore : sequence of str
            Columns to leave out.
        client : distributed.Client, optional
            By default the current one.
        """
        wish, seed = self._wished(MOMENTS)
        with as_value_error():
            spec = OwnData("", label, _names(sensitive_features), ignore=_names(ignore))
            spec = replace(spec, unknown_group=True)
            device = str(choose_device(self.device))
            with DaskFrames(frame, client) as engine:
                model = fit_parts(
                    engine.table(), spec, wish, engine=engine, seed=seed, device=device
                )
        self._forget()
        self._take(model)
        return self

    def partial_fit_dask(
        self,
        frame: Any,
        label: str,
        *,
        sensitive_features: Sequence[str] = (),
        client: Any = None,
    ) -> Self:
        """Learn the rows of another Dask data frame as one task; classes may be new.

        Parameters
        ----------
        frame, label, sensitive_features, client
            As for :meth:`fit_dask`.
        """
        check_is_fitted(self, "model_")
        with as_value_error():
            own = self.model_.config.own
            given = pd.DataFrame(columns=_names(sensitive_features))
            names = as_fitted(given, () if own is None else own.sensitive)
            numbers = [one for one in self.model_.labels if not isinstance(one, str)]
            if numbers:
                raise UsageError(
                    f"classes of the model are numbers, such as {numbers[0]}, and those of a data "
                    "frame of Dask are texts; begin with `fit_dask`, or with y as texts"
                )
            spec = OwnData("", label, tuple(map(str, names)), unknown_group=True)
            with DaskFrames(frame, client) as engine:
                update_parts(self.model_, engine.table(), spec, engine=engine)
        self._take(self.model_)
        return self

    def __dask_tokenize__(self) -> object:
        """Return a token that Dask uses to identify classifiers with the same predictions."""
        if not hasattr(self, "model_"):
            return type(self).__name__, repr(self)
        model = self.model_
        lessons = [(lesson.at, lesson.rows, lesson.digest) for lesson in model.lessons]
        return type(self).__name__, model.config.model_dump_json(), model.seed, lessons

    def _wished(self, instead_of_auto: str) -> tuple[Wish, int]:
        raise NotImplementedError

    def _take(self, model: Model) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        raise NotImplementedError


def _names(given: Sequence[str] | str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
