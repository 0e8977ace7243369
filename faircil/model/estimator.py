"""A scikit-learn classifier that learns new classes fairly at any time."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from faircil.compute import choose_device
from faircil.data.features import TableEncoder, fit_encoder
from faircil.data.own import OwnData
from faircil.data.table_columns import (
    attribute_mistakes,
    code_values,
    cross_all,
    feature_mistakes,
    name_of,
)
from faircil.errors import DataError, raise_all
from faircil.model.choosing import Wish, choose_config
from faircil.model.dask_learning import DaskLearning
from faircil.model.model import Floats32, Floats64, Model
from faircil.model.row_sums import MOMENTS, Gathering
from faircil.model.saved import load_model, save_model
from faircil.model.sklearn_inputs import (
    UNNAMED,
    as_array,
    as_fitted,
    as_table,
    as_value_error,
    attribute_table,
    labels_of,
    numbered,
)
from faircil.model.table_rows import left_out_notes
from faircil.runs.config import RunConfig, has_attribute, resolve
from faircil.tuning.auto import AUTO

logger = logging.getLogger(__name__)


class FairIncrementalClassifier(DaskLearning, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that keeps learning new classes at any time, without unfair forgetting.

    Parameters
    ----------
    method : str
        ``auto`` chooses the method on held-out rows of the first call of ``fit`` or
        ``partial_fit``, as ``faircil run`` does; otherwise the name of a learner, such as
        ``moments``, ``er`` or ``fsw``.
    measure : str, optional
        Fairness measure; by default ``eo`` with sensitive features, else ``eer``.
    favoured : sequence, optional
        Classes with a favourable outcome, for the measure ``eopp`` only.
    lam : float, optional
        Weight of the mean loss against the disparity; by default the method's own.
    settings : mapping, optional
        Further settings by name, such as ``{"width": 1000}``; see ``faircil list settings``.
    weighting : str, optional
        Sample weighting of a replay method, such as ``fsw``.
    random_state : int, RandomState or None
        Seed, or the generator that draws one, for all random numbers.
    device : str
        Device of the learner: ``cpu`` or ``cuda``.

    Attributes
    ----------
    classes_ : ndarray
        Classes seen so far, sorted.
    model_ : Model
        The fitted model: ``model_.config.method`` is the chosen method, ``model_.notes`` explain
        the choice and how columns were handled, and ``model_.lessons`` list what was learned when.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        If the rows were a data frame.
    """

    encoder_: TableEncoder
    classes_: NDArray[Any]

    def __init__(
        self,
        method: str = "auto",
        *,
        measure: str | None = None,
        favoured: Sequence[Hashable] | None = None,
        lam: float | None = None,
        settings: Mapping[str, Any] | None = None,
        weighting: str | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
    ) -> None:
        self.method = method
        self.measure = measure
        self.favoured = favoured
        self.lam = lam
        self.settings = settings
        self.weighting = weighting
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:  # noqa: N803
        """Fit from scratch.

        Parameters
        ----------
        X : array-like or data frame, shape (n, features)
            Numbers; in a data frame also text, dates, booleans and missing values.
        y : array-like, shape (n,)
            Classes.
        sensitive_features : array-like or data frame, shape (n,) or (n, attributes), optional
            Several attributes are combined. Rows with missing values form an unknown group.
        """
        self._forget()
        return self._learn(X, y, sensitive_features, first=True)

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        classes: Any = None,
        *,
        sensitive_features: Any = None,
    ) -> Self:
        """Learn more rows as one task of class-incremental learning; classes may be new.

        Parameters of the estimator take effect at the first call only: to change one, call
        :meth:`fit`.

        Parameters
        ----------
        X, y, sensitive_features
            As for :meth:`fit`.
        classes : array-like, optional
            Not needed, since classes may come at any time; checked against ``y`` if given.
        """
        if classes is not None:
            others = set(np.asarray(y).tolist()) - set(np.asarray(classes).tolist())
            if others:
                raise ValueError(f"y has classes {sorted(others, key=str)} that `classes` lacks")
        return self._learn(X, y, sensitive_features, first=not hasattr(self, "model_"))

    def fit_batches(self, batches: Iterable[Any]) -> Self:
        """Fit from scratch, batch by batch; weights are chosen once, after the last batch.

        For data that does not fit in memory: batches of a loader, of a Hugging Face dataset or of
        memory-mapped arrays. The data is read once, and no batch is kept. Only the method
        ``moments`` supports this, so ``auto`` chooses it here.

        Parameters
        ----------
        batches : iterable
            Batches ``(X, y)`` or ``(X, y, sensitive_features)``, as for :meth:`fit`. The first
            batch determines columns and features: it should have several thousand rows of at least
            two classes, drawn at random. Later batches may bring new classes.
        """
        self._forget()
        return self._learn_batches(batches, first=True)

    def partial_fit_batches(self, batches: Iterable[Any]) -> Self:
        """Learn more rows, batch by batch, as one task; see :meth:`fit_batches`."""
        return self._learn_batches(batches, first=not hasattr(self, "model_"))

    def _learn_batches(self, batches: Iterable[Any], *, first: bool) -> Self:
        try:
            self._gather(batches, first=first)
        except BaseException:
            if first:  # unfitted again, instead of a fitted model without classes
                self._forget()
            raise
        self._take(self.model_)
        return self

    def _gather(self, batches: Iterable[Any], *, first: bool) -> None:
        """Learn batches; the model is updated only after the last one."""
        gathering: Gathering | None = None
        known: list[Hashable] = [] if first else self.classes_.tolist()
        for number, batch in enumerate(batches, start=1):
            if not isinstance(batch, Sequence) or len(batch) not in (2, 3):
                raise ValueError(
                    f"batch {number} is a {type(batch).__name__}, expected (X, y) or (X, y, "
                    "sensitive_features); make such tuples of it"
                )
            rows, y, sensitive = (*map(as_array, batch), None)[:3]
            labels = labels_of(y, known)
            with as_value_error():
                values = self._values(sensitive, len(labels), first=first and gathering is None)
                beginning = first and gathering is None
                x = self._fitted_inputs(rows) if beginning else self._inputs(rows)
                if len(x) != len(labels):
                    raise DataError(
                        f"X of batch {number} has {len(x)} rows and y has {len(labels)}; give as "
                        "many"
                    )
                if gathering is None:
                    device = str(choose_device(self.device))
                    if beginning:
                        self.model_ = self._begun(x, labels, values, sensitive, device, MOMENTS)
                    gathering = Gathering(self.model_, x.shape[1], device)
                gathering.add(x, labels, values)
            known = list(gathering.after.labels)
        if gathering is None:
            raise ValueError("there is no batch; give one or more of (X, y)")
        with as_value_error():
            gathering.finish()

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the most likely class of each row, (n,)."""
        check_is_fitted(self, "model_")
        with as_value_error():
            numbers = self.model_.predict(self._inputs(X))
        labels = np.array(self.model_.labels)
        return labels[numbers]

    def predict_proba(self, X: Any) -> Floats64:  # noqa: N803
        """Return the probability of each class of ``classes_``, (n, classes)."""
        check_is_fitted(self, "model_")
        with as_value_error():
            found = self.model_.probabilities(self._inputs(X))
        order = [self.model_.labels.index(label) for label in self.classes_.tolist()]
        return found[:, order]

    def forget(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Self:  # noqa: N803
        """Remove rows that were learned, as if the model had never seen them.

        Only the method ``moments`` supports this. Rows must be given as they were learned.
        """
        check_is_fitted(self, "model_")
        labels = labels_of(y, self.classes_.tolist())
        with as_value_error():
            values = self._values(sensitive_features, len(labels), first=False)
            self.model_.forget(self._inputs(X), labels, values)
        return self

    def save(self, path: str | Path) -> None:
        """Save the fitted model to a folder, without pickle; :meth:`load` reads it.

        The files are readable only by you. A warning is logged if they contain sums over very few
        people.
        """
        check_is_fitted(self, "model_")
        save_model(self.model_, Path(path))
        revealing = self.model_.revealing("with `settings={'min_cell': 10}`")
        if revealing is not None:
            logger.warning("%s: %s", path, revealing)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu") -> Self:
        """Load a model written by :meth:`save` or ``faircil fit``."""
        model = load_model(Path(path), choose_device(device))
        config = model.config
        found = cls(
            config.method,
            measure=config.measure,
            favoured=config.favoured or None,
            settings=_changed_settings(config),
            weighting=config.weighting,
            device=device,
        )
        found._take(model)
        return found

    def _learn(self, X: Any, y: Any, sensitive: Any, *, first: bool) -> Self:  # noqa: N803
        known = self.classes_.tolist() if not first else []
        labels = labels_of(y, known)
        with as_value_error():
            values = self._values(sensitive, len(labels), first=first)
            device = str(choose_device(self.device))
            x = self._fitted_inputs(X) if first else self._inputs(X)
            if len(x) != len(labels):
                raise DataError(f"X has {len(x)} rows and y has {len(labels)}; give as many")
            model = self._begun(x, labels, values, sensitive, device) if first else self.model_
            model.learn(x, labels, values, device=device)
        self._take(model)
        return self

    def _forget(self) -> None:
        for name in ("model_", "n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)

    def _take(self, model: Model) -> None:
        self.model_ = model
        self.classes_ = np.sort(np.array(model.labels))
        if not hasattr(self, "n_features_in_"):  # read from a file
            self.n_features_in_ = (
                model.inputs if model.encoder is None else len(model.encoder.names)
            )

    def _begun(
        self,
        x: Floats32,
        labels: list[Hashable],
        values: list[str | None] | None,
        sensitive: Any,
        device: str,
        instead_of_auto: str = AUTO,
    ) -> Model:
        """Return an untrained model, with its method chosen if ``auto``."""
        names = () if sensitive is None else tuple(map(str, attribute_table(sensitive)))
        own = OwnData(path="", label="class", sensitive=names)
        wish, seed = self._wished(instead_of_auto)
        chosen = choose_config(wish, own, x, labels, values, device)
        return Model(
            chosen.config,
            seed,
            encoder=self.encoder_,
            measured=chosen.measured,
            notes=[*chosen.notes, *self.encoder_.notes],
        )

    def _wished(self, instead_of_auto: str) -> tuple[Wish, int]:
        """Return the request that the parameters describe, and its seed."""
        method = instead_of_auto if self.method == AUTO else self.method
        settings = {**(self.settings or {}), **({} if self.lam is None else {"lam": self.lam})}
        given = tuple(f"{name}={_written(value)}" for name, value in settings.items())
        favoured = tuple(map(name_of, self.favoured or ()))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return Wish(method, self.weighting, self.measure, favoured, given), seed

    def _fitted_inputs(self, X: Any) -> Floats32:  # noqa: N803
        """Decide how columns become inputs; return the inputs of the rows."""
        table = as_table(X)
        if table is None:
            table = numbered(self._numbers(X, reset=True))
        else:
            self.n_features_in_ = table.shape[1]
            if all(isinstance(name, str) for name in X.columns):
                self.feature_names_in_ = np.array(table.columns, dtype=object)
        raise_all([m for name in table for m in feature_mistakes(table[name])], DataError)
        rows = np.arange(len(table))
        self.encoder_ = fit_encoder(table, rows, rows)
        return self.encoder_.inputs(table)

    def _inputs(self, X: Any) -> Floats32:  # noqa: N803
        """Return the inputs of rows, encoded as decided at the first fit."""
        table = as_table(X)
        encoder = self.model_.encoder
        if encoder is None:  # the model is from a run on arrays
            return self._numbers(X if table is None else table.to_numpy(), reset=False)
        if table is None:
            table = numbered(self._numbers(X, reset=False)).set_axis(encoder.names, axis=1)
        for note in (*encoder.check(table), *left_out_notes(self.model_, table.columns)):
            warnings.warn(note, stacklevel=3)
        return encoder.inputs(table)

    def _values(self, sensitive: Any, rows: int, *, first: bool) -> list[str | None] | None:
        """Return attribute values as strings, several combined; None where one is missing."""
        if sensitive is None:
            return None
        table = attribute_table(sensitive)
        if not table.shape[1]:
            raise DataError("sensitive_features has no column; give one, or leave it out")
        if len(table) != rows:
            raise DataError(
                f"sensitive_features has {len(table)} rows and y has {rows}; give as many"
            )
        own = None if first else self.model_.config.own
        if own is not None and own.sensitive:
            table = as_fitted(table, own.sensitive)
        mistakes = [
            mistake
            for name in table
            for mistake in attribute_mistakes(table[name], may_miss=True, new_rows=True)
        ]
        raise_all(mistakes, DataError)
        return cross_all([code_values(table[name]) for name in table]).values

    def _numbers(self, X: Any, *, reset: bool) -> Floats32:  # noqa: N803
        found: Floats32 = validate_data(self, X, reset=reset, dtype=np.float32)
        return found


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def _changed_settings(config: RunConfig) -> dict[str, Any] | None:
    """Return the settings that differ from the defaults of the model's method."""
    names = (UNNAMED.format(0),) if has_attribute(config.dataset, config.own) else ()
    usual = resolve(
        own=OwnData(path="", label="class", sensitive=names),
        method=config.method,
        weighting=config.weighting,
        measure=config.measure,
        favoured=config.favoured,
    )
    plain = usual.model_dump()["settings"]
    found = config.model_dump()["settings"]
    return {name: found[name] for name in plain if found[name] != plain[name]} or None
