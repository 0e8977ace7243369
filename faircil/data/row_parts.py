"""Rows of a table that is read in parts, with numbered classes and attribute values.

Before rows are learned, one pass over the columns of classes and attributes counts them
(:func:`count_rows`). It is cheap, as files in parts are stored by column. It numbers the names, and
finds mistakes in these columns before anything is computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from faircil.data.features import NewValues, TableEncoder, fit_encoder
from faircil.data.own import OwnData, usage_mistakes
from faircil.data.parts import COUNTED_TOGETHER, PartedTable, PartWork, TablePart, gathered
from faircil.data.table_columns import (
    GAPS,
    OR_DROP,
    OR_UNKNOWN,
    Coded,
    attribute_mistakes,
    code_values,
    cross_all,
    feature_mistakes,
    gap_sentence,
    label_mistakes,
    mark_mistakes,
    marked_test,
)
from faircil.engines import Engine
from faircil.errors import DataError, raise_all, shortened
from faircil.samples import Samples

Mask = NDArray[np.bool_]
Floats32 = NDArray[np.float32]
Name = str | None

SAMPLE = 200_000  # rows to which columns and features are fitted
MOST_COMBINATIONS = 100_000  # of classes and attribute values: columns with more are identifiers


@dataclass(frozen=True)
class HeldOut:
    """The selection of rows that are not learned, but used for measurements.

    Parameters
    ----------
    column : str or None
        Column that marks them.
    share : float
        Without a column: fraction of rows, drawn by their row number only.
    seed : int
    """

    column: str | None = None
    share: float = 0.0
    seed: int = 0

    def rows_of(self, frame: pd.DataFrame) -> Mask:
        """Return which rows of a batch are held out, (n,)."""
        if self.column is not None:
            return marked_test(frame[self.column])
        if self.share in (0, 1):
            return np.full(len(frame), self.share == 1)
        # SplitMix64: each row number has its own random number, in whatever batch it is.
        with np.errstate(over="ignore"):
            z = frame.index.to_numpy().astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z += np.uint64((self.seed * 0xD1B54A32D192ED03 + 1) % 2**64)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
            z ^= z >> np.uint64(31)
        return z < np.uint64(int(self.share * 2**64))


@dataclass(frozen=True)
class RowCounts:
    """The result of a pass over the columns of classes and attributes.

    Parameters
    ----------
    learned, held_out : Counter
        Rows by (class, attribute value), both as names; the value is None if unknown.
    values : dict
        Distinct values of each column, as in the files.
    gaps : dict
        For each column, the number of rows without a value, and the first of them.
    """

    learned: Counter[tuple[str, Name]] = field(default_factory=Counter)
    held_out: Counter[tuple[str, Name]] = field(default_factory=Counter)
    values: dict[str, set[Any]] = field(default_factory=dict)
    gaps: dict[str, tuple[int, list[int]]] = field(default_factory=dict)

    def add(self, other: RowCounts) -> None:
        """Add the counts of later rows."""
        self.learned.update(other.learned)
        self.held_out.update(other.held_out)
        for name, found in other.values.items():
            self.values.setdefault(name, set()).update(found)
        for name, (number, rows) in other.gaps.items():
            before, first = self.gaps.get(name, (0, []))
            self.gaps[name] = (before + number, [*first, *rows][:GAPS])

    @property
    def labels(self) -> list[str]:
        """Classes in the learned rows."""
        return sorted({label for label, _ in self.learned})

    @property
    def attribute_values(self) -> list[str]:
        """Attribute values in the learned rows."""
        return sorted({value for _, value in self.learned if value is not None})

    def refuse_untested(self, labels: Iterable[str]) -> None:
        """Raise an error if no row of one of these classes is held out."""
        untested = sorted(set(labels) - {label for label, _ in self.held_out})
        if untested:
            raise DataError(
                f"no test sample of class(es) {shortened(untested)}; mark some of their rows or, "
                "where test rows are drawn, hold out more"
            )


@dataclass(frozen=True)
class RowReader:
    """Reads rows of a table in parts, for a model.

    Parameters
    ----------
    table : PartedTable
    spec : OwnData
        Roles of its columns, and how missing values are handled.
    held_out : HeldOut
    encoder : TableEncoder or None
        Converts columns to inputs; None until it is fitted.
    labels, values : tuple of str
        Names of the numbered classes and attribute values.
    """

    table: PartedTable
    spec: OwnData
    held_out: HeldOut = HeldOut()
    encoder: TableEncoder | None = None
    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def roles(self) -> list[str]:
        """Columns of the class, the attributes, and test rows."""
        return [self.spec.label, *self.spec.sensitive, *self._mark]

    @property
    def _mark(self) -> list[str]:
        return [] if self.held_out.column is None else [self.held_out.column]

    @property
    def features(self) -> list[str]:
        """Columns that are inputs."""
        if self.encoder is None:
            return self.spec.without_role(self.table.names)
        return [one.name for one in self.encoder.columns if one.name in self.table.names]

    @property
    def reads(self) -> list[str]:
        """Columns that :meth:`batches` and :meth:`sample` read."""
        return list(dict.fromkeys([*self.roles, *self.features]))

    def usable(self, frame: pd.DataFrame) -> tuple[pd.DataFrame, Coded, Coded | None]:
        """Return the rows of a batch that are used, with their classes and attribute values."""
        y = code_values(frame[self.spec.label])
        attributes = [code_values(frame[name]) for name in self.spec.sensitive]
        there = y.codes >= 0
        if not self.spec.unknown_group:
            there &= np.all([one.codes >= 0 for one in attributes] or [there], axis=0)
        if not there.all():
            frame, y = frame[there], replace(y, codes=y.codes[there])
            attributes = [replace(one, codes=one.codes[there]) for one in attributes]
        return frame, y, cross_all(attributes) if attributes else None

    def batches(
        self, part: TablePart, *, held_out: bool = False
    ) -> Iterator[tuple[Samples, NewValues]]:
        """Read the learned, or held-out, rows of a part, and count their new values.

        Raises
        ------
        DataError
            If values are not of their column's kind; the message states the part. Also if rows have
            names that did not occur when they were counted: the file has then changed.
        """
        assert self.encoder is not None
        labels = [self.spec.label, *self.spec.sensitive]
        for frame in self.table.read(part, self.reads, labels):
            frame, y, z = self.usable(frame)
            chosen = self.held_out.rows_of(frame) == held_out
            if not chosen.any():
                continue
            if not chosen.all():
                frame, y = frame[chosen], replace(y, codes=y.codes[chosen])
                z = None if z is None else replace(z, codes=z.codes[chosen])
            try:
                new = self.encoder.new_values(frame)
            except DataError as error:
                raise DataError(*(f"{part.path}: {one}" for one in error.args)) from None
            numbers = _renumbered(y, self.labels)
            attribute = None if z is None else _renumbered(z, self.values)
            # A model is also measured on people with attribute values that it has not learned.
            fresh = attribute is not None and z is not None and (attribute < 0) & (z.codes >= 0)
            if (numbers < 0).any() or (np.any(fresh) and not held_out):
                raise part.changed()
            x = torch.from_numpy(self.encoder.inputs(frame))
            own = None if attribute is None else torch.from_numpy(attribute)
            yield Samples(x, torch.from_numpy(numbers), own), new

    def sample(self, rows: int, engine: Engine) -> tuple[pd.DataFrame, Coded, Coded | None]:
        """Return about ``rows`` learned rows, spread over the table, with their names."""
        frame = self.table.sample(self.reads, rows, engine)
        return self.usable(frame[~self.held_out.rows_of(frame)])


def decided(
    reader: RowReader, engine: Engine, first: Collection[str] | None = None
) -> tuple[RowReader, tuple[Floats32, list[str], list[str | None] | None]]:
    """Decide how columns become inputs, on a sample of rows that is spread over the table.

    Parameters
    ----------
    reader : RowReader
    engine : Engine
    first : collection of str, optional
        Classes whose rows are used to standardise numbers; by default all.

    Returns
    -------
    reader : RowReader
        With a fitted encoder.
    rows : tuple
        Inputs (n, width), classes and attribute values of the sample.
    """
    frame, y, z = reader.sample(SAMPLE, engine)
    columns = frame[reader.features]
    mistakes = [mistake for name in columns for mistake in feature_mistakes(columns[name])]
    if not reader.features:
        mistakes.append(f"{reader.table.path} has no column left for features; add some")
    raise_all(mistakes, DataError)
    rows, labels = np.arange(len(frame)), [str(name) for name in y.values]
    chosen = rows if first is None else np.flatnonzero(np.isin(labels, list(first)))
    encoder = fit_encoder(columns, rows, chosen)
    values = None if z is None else z.values
    return replace(reader, encoder=encoder), (encoder.inputs(columns), labels, values)


def _renumbered(coded: Coded, names: Sequence[str]) -> NDArray[np.int64]:
    """Return codes, (n,), as indices into other names; −1 for names that are not among them."""
    place = {name: number for number, name in enumerate(names)}
    found = np.array([*(place.get(name, -1) for name in coded.names), -1], dtype=np.int64)
    return found[coded.codes]


@dataclass(frozen=True)
class CountParts(PartWork[RowCounts]):
    """Counts the rows of parts."""

    reader: RowReader

    @property
    def reads(self) -> Sequence[str]:
        """Columns to read."""
        return self.reader.roles

    def nothing(self) -> RowCounts:
        """Return empty counts."""
        return RowCounts()

    def add(self, found: RowCounts, part: TablePart) -> RowCounts:
        """Return the counts with one more part."""
        for frame in self.reader.table.read(part, self.reader.roles, self.reader.roles):
            found.add(self._counted(frame))
        return found

    def _counted(self, frame: pd.DataFrame) -> RowCounts:
        found, spec = RowCounts(), self.reader.spec
        for name in self.reader.roles:
            found.values[name] = set(pd.unique(frame[name].dropna()))
            missing = np.flatnonzero(code_values(frame[name]).codes < 0)
            if len(missing):
                rows = frame.index[missing[:GAPS]]
                found.gaps[name] = (len(missing), rows.tolist())
        marks = self.reader.held_out.column
        if marks in found.gaps or (marks and mark_mistakes(frame[marks], new_rows=True)):
            return found  # :func:`count_rows` reports it for all parts at once
        frame, y, z = self.reader.usable(frame)
        if z is not None and len(z.names) * len(y.names) > MOST_COMBINATIONS:
            raise DataError(
                f"the attribute {' × '.join(spec.sensitive)} has {len(z.names):,} values in "
                f"{len(frame):,} rows, so it seems to identify rows; name another column"
            )
        width = 1 if z is None else len(z.names) + 1
        pairs = y.codes * width + (0 if z is None else z.codes + 1)
        out = self.reader.held_out.rows_of(frame)
        for counter, chosen in ((found.learned, ~out), (found.held_out, out)):
            there, times = np.unique(pairs[chosen], return_counts=True)
            for pair, number in zip(there.tolist(), times.tolist(), strict=True):
                value = None if z is None or not pair % width else z.names[pair % width - 1]
                counter[y.names[pair // width], value] += number
        return found


def count_rows(
    reader: RowReader, engine: Engine, *, new_rows: bool = False, learned: bool = True
) -> RowCounts:
    """Count the rows of a table by class and attribute value, in one pass.

    Parameters
    ----------
    reader : RowReader
    engine : Engine
    new_rows : bool
        Whether the rows are for a model that has learned others.
    learned : bool
        Whether rows that are not held out will be learned.

    Raises
    ------
    UsageError
        If the roles do not match the columns.
    DataError
        If classes, attributes or marks are invalid; all mistakes are listed.
    """
    raise_all(usage_mistakes(reader.spec, reader.table.names))
    found = RowCounts()
    for counts in engine.map(CountParts(reader), gathered(reader.table.parts, COUNTED_TOGETHER)):
        found.add(counts)
    raise_all(_mistakes(reader, found, new_rows=new_rows, learned=learned), DataError)
    return found


def _mistakes(reader: RowReader, found: RowCounts, *, new_rows: bool, learned: bool) -> list[str]:
    """Return the mistakes in classes, attributes and marks."""
    spec, mistakes = reader.spec, list[str]()
    for name in reader.roles:
        number, rows = found.gaps.get(name, (0, []))
        excused = spec.drop_missing and name != reader.held_out.column
        if name in spec.sensitive:
            excused = excused or spec.unknown_group
        if number and not excused:
            remedy = OR_UNKNOWN if name in spec.sensitive else OR_DROP
            mistakes.append(gap_sentence(name, number, rows, remedy))
    # Repeat each label as often as relevant, so that the checks of whole columns apply.
    counts = found.learned + found.held_out
    times = Counter[str]()
    for (label, _), number in counts.items():
        times[label] += number
    classes = pd.Series([n for n, k in times.items() for _ in range(min(k, 2))], name=spec.label)
    if len(classes) or not mistakes:
        mistakes += label_mistakes(classes, new_rows=new_rows)
    for name in spec.sensitive:
        known = pd.Series(sorted(found.values[name], key=str), name=name)
        mistakes += attribute_mistakes(known.dropna(), may_miss=True, new_rows=new_rows)
    if reader.held_out.column is not None:
        marks = pd.Series(sorted(found.values[reader.held_out.column], key=str), dtype=object)
        named = marks.rename(reader.held_out.column)
        mistakes += mark_mistakes(named.dropna(), new_rows=new_rows)
    unlearned = sorted({label for label, _ in counts} - {*found.labels, *reader.labels})
    if unlearned and learned and not mistakes:
        mistakes.append(
            f"all rows of class(es) {shortened(unlearned)} are held out; hold out fewer rows"
        )
    return mistakes


def gap_notes(spec: OwnData, found: RowCounts) -> list[str]:
    """Report rows that were omitted, or are of an unknown group."""
    notes = []
    columns = [spec.label, *(() if spec.unknown_group else spec.sensitive)]
    gaps = {name: found.gaps[name] for name in columns if name in found.gaps}
    for name, (number, rows) in gaps.items():
        named = shortened([str(row + 1) for row in rows])
        notes.append(
            f"rows without a value of {name}, left out: {number:,} (row {named}, counted from 1)"
        )
    unknown = sum(n for (_, value), n in found.learned.items() if value is None)
    if spec.sensitive and unknown:
        told = f"rows of unknown group (no value of {' or '.join(spec.sensitive)})"
        notes.append(f"{told}: {unknown:,}")
    return notes


def by_number(
    counts: Mapping[tuple[str, Name], int], labels: Sequence[str], values: Iterable[str] | None
) -> dict[tuple[int, ...], int]:
    """Return counts by name as counts by number, keyed ``(y,)`` or ``(y, z)``."""
    label = {name: number for number, name in enumerate(labels)}
    if values is None:
        return {(label[name],): n for (name, _), n in counts.items()}
    value = {name: number for number, name in enumerate(values)}
    return {
        (label[name], -1 if own is None else value[own]): n for (name, own), n in counts.items()
    }
