"""Audits: how fair the predictions of any system are, with their uncertainty, from counts alone.

:class:`Audit` counts predictions incrementally; :meth:`Audit.report` computes all measures
(``disparities``) with intervals and noise floors (``intervals``, ``findings``); :meth:`Audit.gate`
uses them for a decision (``gate``). No net is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from faircil.auditing.disparities import MOST_SAMPLES
from faircil.auditing.findings import (
    DRAWS as DRAWS,
    Finding as Finding,
    LevelledDown as LevelledDown,
    Report as Report,
    Scope,
    levelled_down,
    report_of,
)
from faircil.auditing.gate import Gate as Gate, decide
from faircil.counts import Counts, count
from faircil.errors import DataError, UsageError, raise_all, shortened, whole_mistakes
from faircil.labels import (
    Column,
    checked_columns,
    distinct_labels,
    favoured_labels,
    is_unknown,
)

if TYPE_CHECKING:
    from faircil.data.arrow import Coded

MOST_VALUES = 1000  # of an attribute; columns with more are identifiers or measurements
MOST_ALONE = 20  # values of an attribute that may have a single sample each
MOST_CLASSES = 5000
MOST_COMPARED = 5000  # classes times values: more would take minutes
MOST_CELLS = 2**22  # counted in one array; more combinations are sorted


class Audit:
    """Counts of predictions, by class, prediction, task and sensitive attributes.

    The state consists of counts, so batches may arrive in any order, and audits of parts merge
    exactly.

    Parameters
    ----------
    attributes : sequence of str
        Names of the sensitive attributes; without any, only classes are compared.
    favoured : collection of labels, optional
        Classes with a favourable outcome, for equal opportunity.
    draws : int
        Number of tables drawn for every interval and test.
    seed : int
        Seed of these draws.

    Examples
    --------
    >>> truth, prediction = ["no", "yes"] * 40, ["no", "yes"] * 30 + ["yes", "yes"] * 10
    >>> audit = Audit(["sex"]).update(truth, prediction, sensitive_features=["f"] * 40 + ["m"] * 40)
    >>> finding, = audit.report().find("eo_gap")
    >>> finding.value, finding.differs
    (0.25, True)
    """

    def __init__(
        self,
        attributes: Sequence[str],
        *,
        favoured: Collection[Any] | None = None,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> None:
        mistakes = []
        if len(set(attributes)) < len(attributes):
            mistakes.append(f"the attributes are {', '.join(attributes)}, expected each once")
        if draws < 100:
            mistakes.append(f"`draws` is {draws}, expected at least 100; 2,000 is usual")
        raise_all([*mistakes, *whole_mistakes(seed=seed)])
        self.attributes = tuple(attributes)
        self.favoured = favoured_labels(favoured)
        self.draws, self.seed = draws, seed
        self._cells: dict[tuple[Any, ...], int] = {}  # (truth, prediction, task, *values) → samples

    @property
    def _keys(self) -> tuple[str, ...]:
        """Names of the parts of a cell."""
        return ("y_true", "y_pred", "task", *map(key_of, self.attributes))

    @property
    def n(self) -> int:
        """Number of samples so far."""
        return sum(self._cells.values())

    def update(
        self,
        y_true: Column,
        y_pred: Column,
        *,
        sensitive_features: Any = None,
        task: Column | None = None,
    ) -> Audit:
        """Count further predictions; return the audit itself.

        Parameters
        ----------
        y_true, y_pred : column of any labels, shape (n,)
            True and predicted classes.
        sensitive_features : column, mapping from name to column, table with named columns, or None
            Attribute values; missing ones, and negative numbers, are unknown.
        task : column of int, shape (n,), optional
            Task of the true class, for ``accuracy``: the mean over tasks.
        """
        named = named_columns(sensitive_features, self.attributes)
        if set(named) != set(self.attributes):
            raise UsageError(
                f"the attributes are {', '.join(named) or 'none'}, expected "
                f"{', '.join(self.attributes) or 'none'} as in the first update"
            )
        values = {key_of(name): column for name, column in named.items()}
        labels = checked_columns({"y_true": y_true, "y_pred": y_pred, "task": task, **values})
        self.add_coded({name: distinct_labels(column) for name, column in labels.items()})
        return self

    def add_coded(self, coded: Mapping[str, Coded]) -> None:
        """Count rows that are already encoded as labels and codes.

        Parameters
        ----------
        coded : mapping from name to (labels, codes)
            Distinct labels, and for each row the index of its label: for ``y_true``, ``y_pred``,
            optionally ``task``, and attributes, named by :func:`key_of`.
        """
        mistakes = []
        for name, (labels, _) in coded.items():
            mistakes += refusal(name, name, labels)
        raise_all(mistakes, DataError)
        length = len(coded["y_true"][1])
        none = (np.zeros(1, dtype=np.int64), np.zeros(length, dtype=np.intp))
        columns = [coded.get(key, none) for key in self._keys]
        shape = [len(labels) for labels, _ in columns]
        size = int(np.prod(shape, dtype=np.float64))
        if size <= MOST_CELLS:
            flat = np.ravel_multi_index([codes for _, codes in columns], shape)
            sums = np.bincount(flat, minlength=size)
            found = np.flatnonzero(sums)
            cells, times = np.stack(np.unravel_index(found, shape), axis=1), sums[found]
        else:
            rows = np.stack([codes for _, codes in columns], axis=1)
            cells, times = np.unique(rows, axis=0, return_counts=True)
        lists = [labels.tolist() for labels, _ in columns]
        for cell, n in zip(cells.tolist(), times.tolist(), strict=True):
            key = tuple(labels[code] for labels, code in zip(lists, cell, strict=True))
            self._cells[key] = self._cells.get(key, 0) + n

    def add_counted(
        self,
        y_true: Sequence[Any],
        y_pred: Sequence[Any],
        sensitive_features: Mapping[str, Sequence[Any]],
        times: Sequence[int],
    ) -> None:
        """Count cells, each of which stands for a number of samples.

        Parameters
        ----------
        y_true, y_pred : sequence of labels, length K
        sensitive_features : mapping from attribute to values, length K; None: unknown
        times : sequence of int, length K
        """
        values = [sensitive_features[name] for name in self.attributes]
        for *key, n in zip(y_true, y_pred, [0] * len(times), *values, times, strict=True):
            cell = tuple(key)
            self._cells[cell] = self._cells.get(cell, 0) + int(n)

    def merge(self, *others: Audit) -> Audit:
        """Return the audit of all samples of this one and of others, leaving them unchanged."""
        whole = Audit(self.attributes, favoured=self.favoured, draws=self.draws, seed=self.seed)
        for part in (self, *others):
            if part.attributes != self.attributes or part.favoured != self.favoured:
                raise UsageError(
                    f"an audit of {', '.join(part.attributes) or 'no attribute'} cannot be merged "
                    f"with one of {', '.join(self.attributes) or 'no attribute'}; both need the "
                    "same attributes, in the same order, and the same favoured classes"
                )
            for key, n in part._cells.items():
                whole._cells[key] = whole._cells.get(key, 0) + n
        return whole

    def scopes(self) -> dict[Scope, Counts]:
        """Return the counts for each attribute and, if there are several, for their intersection.

        Without attributes, there is one scope, the empty one.

        Raises
        ------
        DataError
            If there is nothing to compare, or labels are invalid; all mistakes are listed.
        """
        if not self._cells:
            raise DataError("the audit has no samples yet; update it with predictions")
        raise_all(self.mistakes(), DataError)
        columns = self._columns()
        groups: dict[Scope, list[Any] | None] = {
            (name,): columns[key_of(name)] for name in self.attributes
        }
        if not self.attributes:
            groups[()] = None
        if len(self.attributes) > 1 and not self._too_many_crossed(columns):
            groups[self.attributes] = _crossed([columns[key_of(name)] for name in self.attributes])
        wanted = {str(label) for label in self.favoured or ()}
        favoured = [label for label in set(columns["y_true"]) if str(label) in wanted]
        return {
            scope: count(
                columns["y_true"],
                columns["y_pred"],
                task=columns["task"],
                sensitive=values,
                favoured=None if self.favoured is None else favoured,
                times=list(self._cells.values()),
            )
            for scope, values in groups.items()
        }

    def _columns(self) -> dict[str, list[Any]]:
        return dict(zip(self._keys, map(list, zip(*self._cells, strict=True)), strict=True))

    def mistakes(self, besides: Collection[str] = ()) -> list[str]:
        """Return all reasons why the counts cannot be compared.

        Parameters
        ----------
        besides : collection of str
            Parts that were already rejected, ``y_true``, ``y_pred`` or :func:`key_of` an attribute;
            mistakes that depend on them are omitted.
        """
        columns, mistakes = self._columns(), []
        if self.n > MOST_SAMPLES:
            mistakes.append(f"{self.n:,} samples, expected at most {MOST_SAMPLES:,}; audit a part")
        true, predicted = set(columns["y_true"]), set(columns["y_pred"])
        if not true & predicted and not {"y_true", "y_pred"} & set(besides):
            mistakes.append(
                f"the predictions are {_listed(predicted)} and the truth is {_listed(true)}, so "
                "none could be correct; use the same class names in both"
            )
        never = {str(label) for label in self.favoured or ()} - set(map(str, true))
        if never and "y_true" not in besides:
            mistakes.append(
                f"the favoured class {_listed(never)} is never true; the classes are "
                f"{_listed(true)}"
            )
        for name in self.attributes:
            if key_of(name) in besides:
                continue
            cells = zip(columns[key_of(name)], self._cells.values(), strict=True)
            sizes = [(value, n) for value, n in cells if not is_unknown(value)]
            values, known = {value for value, _ in sizes}, sum(n for _, n in sizes)
            if len(values) > MOST_VALUES:
                mistakes.append(_too_many(name, sorted(values, key=str)))
            elif len(values) * len(true | predicted) > MOST_COMPARED:
                mistakes.append(
                    f"{name} has {len(values):,} values, and there are {len(true | predicted):,} "
                    f"classes: expected at most {MOST_COMPARED:,} groups; merge small ones"
                )
            elif len(values) == known > MOST_ALONE:
                mistakes.append(
                    f"{name} has a different value in each of {known:,} samples, such as "
                    f"{_listed(sorted(values, key=str)[:3])}, expected groups; name a column of "
                    "groups instead of an identifier, and divide measured values into ranges"
                )
            elif len(values) < 2:
                came = f"only the value {_listed(values)}" if values else "no known value"
                mistakes.append(
                    f"{name} has {came}, expected two or more; without them there is nothing to "
                    "compare: take rows of several groups, or another attribute"
                )
        return mistakes

    def _notes(self) -> list[str]:
        columns, times = self._columns(), list(self._cells.values())
        notes = []
        true = set(columns["y_true"])
        strange = {label for label in columns["y_pred"] if label not in true}
        if strange:
            rows = sum(
                n for label, n in zip(columns["y_pred"], times, strict=True) if label in strange
            )
            notes.append(f"predicted, but never true: {_listed(strange)} ({rows:,} samples)")
        for name in self.attributes:
            rows = sum(
                n
                for value, n in zip(columns[key_of(name)], times, strict=True)
                if is_unknown(value)
            )
            if rows:
                notes.append(
                    f"{name} is unknown for {rows:,} samples: they count for their class, and are "
                    "in no group"
                )
        if not self.attributes:
            notes.append("no sensitive attribute is given: only classes are compared")
        if crossed := self._too_many_crossed(columns):
            notes.append(
                f"{' × '.join(self.attributes)} has {crossed:,} values: too many, the intersection "
                "is left out"
            )
        return notes

    def _too_many_crossed(self, columns: Mapping[str, Sequence[Any]]) -> int:
        """Return the number of values of the intersection if they are too many, else 0."""
        found = len(set(_crossed([columns[key_of(name)] for name in self.attributes])))
        classes = len(set(columns["y_true"]) | set(columns["y_pred"]))
        fits = found <= MOST_VALUES and classes * found <= MOST_COMPARED
        return 0 if len(self.attributes) < 2 or fits else found

    def report(self) -> Report:
        """Compute all measures with intervals; the same counts give the same report."""
        scopes = self.scopes()
        return report_of(scopes, self._notes(), self.draws, self.seed)

    def gate(self, conditions: Iterable[str], *, cannot_tell: str = "report") -> Gate:
        """Decide whether these predictions pass; see :func:`faircil.auditing.gate.decide`."""
        return decide(self.report(), conditions, cannot_tell=cannot_tell)

    def levelled_down(self, before: Audit) -> tuple[LevelledDown, ...]:
        """Find gaps that closed since an earlier audit because the better group got worse."""
        return levelled_down(before.scopes(), self.scopes())


def audit(
    y_true: Column,
    y_pred: Column,
    *,
    sensitive_features: Any = None,
    task: Column | None = None,
    favoured: Collection[Any] | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> Audit:
    """Audit predictions of any system: accuracy and fairness, with their uncertainty.

    Parameters
    ----------
    y_true, y_pred : column of any labels, shape (n,)
        True and predicted classes: numbers, strings or other hashables.
    sensitive_features : column, mapping from name to column, table with named columns, or None
        A column without a name is ``sensitive_feature_0``. None: only classes are compared.
    task : column of int, shape (n,), optional
    favoured : collection of labels, optional
        Classes with a favourable outcome, for equal opportunity.
    draws, seed : int
        Number of tables drawn for every interval and test, and the seed of these draws.

    Returns
    -------
    Audit
        ``report()`` computes measures, ``gate()`` decides, ``update()`` and ``merge()`` add
        samples.
    """
    named = named_columns(sensitive_features)
    made = Audit(list(named), favoured=favoured, draws=draws, seed=seed)
    return made.update(y_true, y_pred, sensitive_features=named, task=task)


def named_columns(features: Any, names: Sequence[str] | None = None) -> dict[str, Column]:
    """Return sensitive features by name.

    Parameters
    ----------
    features : column, mapping, table with ``columns``, or None; an array of shape (n, k)
    names : sequence of str, optional
        Names for columns without one; by default ``sensitive_feature_0`` and so on.
    """
    if features is None:
        return {}
    if isinstance(features, Mapping):
        return {str(name): column for name, column in features.items()}
    if hasattr(features, "columns"):  # a pandas or polars table
        return {str(name): features[name] for name in features.columns}
    array = features if isinstance(features, list | tuple) else np.asarray(features)
    many = getattr(array, "ndim", 1) == 2
    columns = list(np.asarray(array).T) if many else [features]
    own = getattr(features, "name", None)
    if names is None or len(names) != len(columns):
        names = [f"sensitive_feature_{number}" for number in range(len(columns))]
        names = [str(own)] if own is not None and not many else names
    return dict(zip(names, columns, strict=True))


def key_of(attribute: str) -> str:
    """Return a key for an attribute that differs from y_true, y_pred and task for any name."""
    return f"sensitive {attribute}"


def refusal(name: str, part: str, labels: NDArray[Any]) -> list[str]:
    """Return why a column cannot be counted: identifiers are not groups, scores are not classes.

    Parameters
    ----------
    name : str
        Name of the column, for the message.
    part : str
        ``y_true``, ``y_pred``, ``task``, or :func:`key_of` an attribute.
    labels : ndarray
        Its distinct values.
    """
    if part not in ("y_true", "y_pred"):
        return [_too_many(name, labels.tolist())] if len(labels) > MOST_VALUES + 1 else []
    if len(labels) <= MOST_CLASSES:
        return []
    return [
        f"{name} has {len(labels):,} different values, expected at most {MOST_CLASSES:,} classes; "
        "give classes instead of scores"
    ]


def _crossed(columns: Sequence[Sequence[Any]]) -> list[Any]:
    """Combine the values of several attributes; unknown if one of them is."""
    rows = zip(*columns, strict=True)
    return [None if any(map(is_unknown, values)) else values for values in rows]


def _too_many(name: str, values: Sequence[Any]) -> str:
    return (
        f"{name} has {len(values):,} different values, such as {_listed(values[:3])}, expected at "
        f"most {MOST_VALUES:,}; name a column of groups instead of an identifier, and divide "
        "measured values into ranges"
    )


def _listed(labels: Iterable[Any]) -> str:
    return shortened([repr(label) for label in sorted(labels, key=str)], 5)
