"""A model: a learner with the names of its classes and groups, which can continue to learn.

A run evaluates a method on a whole stream. A model has no stream: it learns rows as they arrive,
possibly with new classes and attribute values, and predicts in between. Rows that are learned
together are a *lesson*, which corresponds to a task of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from faircil.buffer import ReplayBuffer
from faircil.compute import exact_convolutions, same_bits
from faircil.data.stream import Integers, RowEncoder, all_finite
from faircil.data.table_columns import name_of
from faircil.errors import DataError, UsageError, shortened
from faircil.learners import LEARNERS
from faircil.learners.moments import Moments
from faircil.learners.moments_options import MomentsOptions
from faircil.metrics import TaskMetrics, evaluate
from faircil.model.history import GroupRows, Lesson, Measured, PredictedRows, now
from faircil.results.record import EpochRecord, Names, group_results
from faircil.runs.config import RunConfig, has_attribute
from faircil.runs.experiment import learn_task, where_learned
from faircil.runs.state import DataShape, RunState, measure_of, new_state
from faircil.runs.together import led_lesson
from faircil.samples import Samples, group_counts, refuse_unknown

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]


REVEALING = 10  # rows; sums over fewer are reported, since they reveal people
UNPREDICTED = "predictions of them cannot be right; leave these rows out"
LEARNED_TWICE = (
    "the same rows were learned before, and count once more now; forget them if that was a mistake"
)


@dataclass
class Model:
    """A learner with the names of its classes and attribute values.

    Parameters
    ----------
    config : RunConfig
        Method, measure and settings; ``own`` has the roles of columns.
    seed : int
    labels : list
        Classes as in the user's data, by number: texts, integers, floats or booleans.
    values : list of str
        Attribute values by number.
    encoder : RowEncoder or None
        Encodes columns, texts or images as inputs; None: inputs are given.
    image : tuple of int or None
        Channels, height and width, if inputs are images.
    inputs : int
        Number of inputs per row; 0 before the first lesson.
    state : RunState or None
        The learner with its buffer and counts; None before the first lesson.
    lessons : list of Lesson
    measured : list of Measured
    notes : list of str
        Notes for the user on how the data is used.
    sums_only : bool
        Whether it has sums but no solution, so that it cannot predict until it is merged.
    said : tuple of str
        Further notes, which may quote rows: shown to the user who passed these, but never saved.
    """

    unsaved: ClassVar[tuple[str, ...]] = ("said",)

    config: RunConfig
    seed: int = 0
    labels: list[Hashable] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    encoder: RowEncoder | None = None
    image: tuple[int, int, int] | None = None
    inputs: int = 0
    state: RunState | None = None
    lessons: list[Lesson] = field(default_factory=list)
    measured: list[Measured] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sums_only: bool = False
    said: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes by number."""
        return tuple(map(name_of, self.labels))

    @property
    def learner(self) -> Any:
        """The learner; an error before the first lesson."""
        return self._learned().learner

    @property
    def has_attribute(self) -> bool:
        """Whether rows have a sensitive attribute."""
        return has_attribute(self.config.dataset, self.config.own)

    @property
    def seen(self) -> list[GroupRows]:
        """Number of rows of each group that were learned and not forgotten."""
        return self.groups_of(self._learned().seen)

    def revealing(self, advice: str = "with the setting `min_cell=10`") -> str | None:
        """Return a warning, with advice, if sums are over very few people, else None.

        Parameters
        ----------
        advice : str
            How to fit a model without such sums.
        """
        learner = self._learned().learner
        if not isinstance(learner, Moments) or learner.noise is not None or not self.seen:
            return None
        group = min((one for one in self.seen if one.rows), key=lambda one: one.rows)
        if group.rows >= REVEALING:
            return None
        rows = "one row" if group.rows == 1 else f"{group.rows} rows"
        whose = f"class '{group.label}'" + f", '{group.value}'" * (group.value is not None)
        return (
            f"the smallest group has {rows} ({whose}), and sums over so few people reveal them to "
            f"anyone who reads the model; do not share its files, or fit it {advice}"
        )

    def kept(self, notes: Iterable[str]) -> tuple[str, ...]:
        """Return the notes on rows that may be saved; add the others to ``said``.

        A note may contain a value that only one person has. No note is saved if ``min_cell`` or
        noise protects people from readers of the model.
        """
        learner = self.config.settings.learner
        hides = isinstance(learner, MomentsOptions) and learner.protects
        if hides:
            self.said += tuple(notes)
        return () if hides else tuple(notes)

    @property
    def rows_kept(self) -> int:
        """Number of data rows that the model stores: those of the replay buffer."""
        samples = self._learned().buffer.samples
        return 0 if samples is None else len(samples)

    def _learned(self) -> RunState:
        if self.state is None:
            raise UsageError("the model has learned nothing yet; let it learn rows first")
        return self.state

    def learn(
        self,
        x: Floats32,
        labels: Sequence[Hashable],
        values: Sequence[str | None] | None = None,
        *,
        device: torch.device | str = "cpu",
        listener: Callable[[EpochRecord], None] = lambda _: None,
    ) -> Lesson:
        """Learn rows; classes and attribute values may be new.

        If this fails, the model is unchanged.

        Parameters
        ----------
        x : ndarray of float32, shape (n, d)
        labels : sequence, length n
            Classes.
        values : sequence of str or None, length n, optional
            Attribute values, None where unknown; by default, all are unknown.
        device : torch.device or str
            Device of a new learner; an existing one stays on its device.
        listener : callable
            Called after every epoch.
        """
        after = self.with_names(labels, values)
        samples = after.samples_of(x, labels, values)
        return self.learn_samples(after, samples, device=device, listener=listener)

    def learn_samples(
        self,
        after: Model,
        samples: Samples,
        *,
        device: torch.device | str = "cpu",
        listener: Callable[[EpochRecord], None] = lambda _: None,
    ) -> Lesson:
        """Learn rows with numbers instead of names; if this fails, the model is unchanged.

        Parameters
        ----------
        after : Model
            This model with all names, see :meth:`with_names`.
        samples : Samples
            See :meth:`samples_of`; inputs may be mapped from a file.
        device, listener
            See :meth:`learn`.
        """
        start = time.perf_counter()
        if not LEARNERS[self.config.method].learner.takes_unknown:
            refuse_unknown(samples, f"training with the method '{self.config.method}'")
        known = len(self.labels)
        after.prepare(known, samples.x[0].numel(), device)
        state = after._learned()
        samples, left_out = state.learner.admitted(samples)
        place = next(state.learner.net.parameters()).device
        records: list[EpochRecord] = []

        def heard(event: Any) -> None:
            if isinstance(event, EpochRecord):
                records.append(event)
                listener(event)

        digest, notes = samples.digest(), len(state.notes)
        twice = any(one.digest == digest for one in self.lessons)
        with (
            led_lesson(self.config, state, samples, place) as (shared, ranks),
            threadpool_limits(1, user_api="blas"),
            exact_convolutions(),
            same_bits(),
        ):
            rows = where_learned(state.learner, shared, place)
            learn_task(self.config, state, rows, heard, ranks=ranks)
        # A hash reveals whether given rows were learned, which noise must hide.
        hidden = isinstance(state.learner, Moments) and state.learner.noise is not None
        lesson = Lesson(
            at=now(),
            rows=len(samples),
            new_classes=after.names[known:],
            groups=tuple(after.groups_of(group_counts(samples))),
            seconds=time.perf_counter() - start,
            notes=(*left_out, *(LEARNED_TWICE,) * twice, *state.notes[notes:]),
            passed=records[-1].passed if records else None,
            digest="" if hidden else digest,
        )
        state.epochs.clear()
        after.sums_only = False  # learning rows computes a solution
        self.become(after, lesson)
        return lesson

    def prepare(self, known: int, inputs: int, device: torch.device | str) -> None:
        """Create the learner, or a copy of the existing one, extended for new classes.

        Parameters
        ----------
        known : int
            Number of classes that the learner knows; it will learn all of ``labels``.
        inputs : int
            Number of inputs per row.
        device : torch.device or str
        """
        if self.state is None:
            self._check_first()
            shape = DataShape(self.config.dataset, inputs, self.names, self.image)
            self.inputs = inputs
            self.state = new_state(self.config, self.seed, shape, torch.device(device))
            return
        # Learners change in place: if something fails, only the copy is lost.
        self.state = deepcopy(self.state)
        if len(self.labels) > known:
            self.state.learner.grow(len(self.labels))
        self.state.learner.measure = measure_of(self.config, self.names)

    def forget(
        self, x: Floats32, labels: Sequence[Hashable], values: Sequence[str | None] | None = None
    ) -> Lesson:
        """Remove learned rows: the model's sums are then as if it had never seen them.

        Parameters
        ----------
        x, labels, values
            The rows as they were learned.
        """
        start = time.perf_counter()
        state = self._learned()
        if not isinstance(state.learner, Moments):
            raise UsageError(
                f"method '{self.config.method}' cannot forget rows: what it learned from them is "
                "in its weights; method 'moments' can"
            )
        self.check_known(labels, "nothing of them can be forgotten; nothing was changed")
        samples = self.samples_of(x, labels, values)
        if len(samples) == sum(state.seen.values()):
            raise DataError(
                f"these are {len(samples):,} rows, as many as the model has learned, so nothing "
                "would be left; delete the model, or give some of the rows that it has learned. "
                "Nothing was changed"
            )
        state = deepcopy(state)
        assert isinstance(state.learner, Moments)
        samples = state.learner.placed(samples)
        passed = state.learner.forget(samples)
        assert state.learner.moments is not None
        left = state.learner.moments.seen.counts
        state.seen = {key: left.get(key, 0) for key in {**state.seen, **left}}
        after = replace(self, state=state)
        lesson = Lesson(
            at=now(),
            rows=-len(samples),
            new_classes=(),
            groups=tuple(self.groups_of(group_counts(samples))),
            seconds=time.perf_counter() - start,
            notes=passed.notes,
            passed=passed,
        )
        # Remove the hash of forgotten rows: it would reveal whether a person was among them.
        digest = samples.digest()
        same = [place for place, one in enumerate(self.lessons) if one.digest == digest]
        if same:
            self.lessons[same[-1]] = replace(self.lessons[same[-1]], digest="")
        self.become(after, lesson)
        return lesson

    def measure(
        self,
        x: Floats32,
        labels: Sequence[Hashable],
        values: Sequence[str | None] | None = None,
        *,
        on: str = "held-out rows",
    ) -> Measured:
        """Evaluate the model on rows that it has not learned, and store the results.

        Parameters
        ----------
        x, labels, values
            As for :meth:`learn`; the model must know the classes.
        on : str
            Description of these rows.
        """
        self.check_known(labels)
        samples = self.samples_of(x, labels, values)
        y_true, y_pred = samples.y.numpy(), self.predict(x)
        sensitive = None if samples.z is None else samples.z.numpy()
        metrics = evaluate(
            y_true,
            y_pred,
            task=np.zeros(len(samples), dtype=np.int64),
            sensitive=sensitive,
            favoured=self.learner.measure.favoured,
        )
        return self.remember(metrics, y_true, y_pred, sensitive, on)

    def remember(
        self,
        metrics: TaskMetrics,
        y_true: Integers,
        y_pred: Integers,
        sensitive: Integers | None,
        on: str,
        times: Integers | None = None,
    ) -> Measured:
        """Store the results of the current model on rows that it has not learned.

        Parameters
        ----------
        metrics : TaskMetrics
            Metrics of these predictions.
        y_true, y_pred : ndarray of int, shape (n,)
            Classes by number.
        sensitive : ndarray of int, shape (n,), or None
            Attribute values by number; negative: unknown.
        on : str
            Description of these rows.
        times : ndarray of int, shape (n,), optional
            Number of rows that each prediction stands for; by default 1.
        """
        times = np.ones(len(y_true), dtype=np.int64) if times is None else times
        names = self.names
        z = np.full(len(y_true), -1) if sensitive is None else sensitive
        cells, cell = np.unique(np.stack([y_true, z, y_pred], axis=1), axis=0, return_inverse=True)
        rows = np.bincount(cell.ravel(), times).astype(np.int64)
        predicted = tuple(
            PredictedRows(names[y], self.values[z] if z >= 0 else None, names[found], n)
            for (y, z, found), n in zip(cells.tolist(), rows.tolist(), strict=True)
        )
        named = Names(names, attribute_values=tuple(self.values))
        groups = tuple(group_results(metrics, named))
        lessons = len(self.lessons)
        measured = Measured(
            now(), on, int(times.sum()), lessons, dict(metrics.values), groups, predicted
        )
        self.measured.append(measured)
        return measured

    def without_sums(self) -> Model:
        """Return a small copy with the same predictions, without the data needed only to learn."""
        state = self._learned()
        learner = copy(state.learner)
        if isinstance(learner, Moments):
            learner.moments = None
        buffer = ReplayBuffer(state.buffer.quota)
        return replace(self, state=replace(state, learner=learner, buffer=buffer))

    def probabilities(self, x: Floats32) -> Floats64:
        """Return the probability of each class, (n, classes), of inputs (n, d)."""
        scores = self._solved().learner.scores(self._checked(x))
        found: Floats64 = scores.double().softmax(dim=1).cpu().numpy()
        return found

    def predict(self, x: Floats32) -> Integers:
        """Return the number of the most likely class of inputs (n, d), (n,)."""
        found: Integers = self._solved().learner.predict(self._checked(x)).cpu().numpy()
        return found

    def _solved(self) -> RunState:
        if self.sums_only:
            raise UsageError(
                "the model has the sums of one site and no solution, so it cannot predict; merge "
                "it with those of others, or alone"
            )
        return self._learned()

    def _checked(self, x: Floats32) -> torch.Tensor:
        if x.ndim != 2 or x.shape[1] != self.inputs:
            raise DataError(
                f"the inputs have shape {x.shape}, and the model was fitted with {self.inputs} "
                "inputs a row; give the same columns"
            )
        place = next(self._learned().learner.net.parameters()).device
        inputs = torch.from_numpy(np.ascontiguousarray(x)).to(place)
        if not all_finite(inputs):
            raise DataError("the inputs have NaN or infinite values; replace or remove these rows")
        return inputs

    def with_names(self, labels: Sequence[Hashable], values: Sequence[str | None] | None) -> Model:
        """Return a copy of the model with new classes and attribute values appended."""
        new_labels = sorted(set(labels) - set(self.labels), key=_order)
        new_values = sorted({value for value in values or () if value is not None} - {*self.values})
        return replace(self, labels=[*self.labels, *new_labels], values=[*self.values, *new_values])

    def samples_of(
        self,
        x: Floats32,
        labels: Sequence[Hashable],
        values: Sequence[str | None] | None,
    ) -> Samples:
        """Return rows with names replaced by numbers."""
        number = {label: place for place, label in enumerate(self.labels)}
        y = torch.tensor([number[label] for label in labels], dtype=torch.int64)
        z = None
        if values is None and self.has_attribute:
            values = [None] * len(y)
        if values is not None:
            if not self.has_attribute:
                raise UsageError(
                    "the model was started without a sensitive attribute, so it compares no values "
                    "of one; leave them out, or start a new model with them"
                )
            code = {value: place for place, value in enumerate(self.values)}
            z = torch.tensor([-1 if v is None else code.get(v, -1) for v in values])
        inputs = torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32))
        if self.state is not None:
            inputs = self._checked(inputs.numpy()).cpu()
        elif not all_finite(inputs):
            raise DataError("the inputs have NaN or infinite values; replace or remove these rows")
        return Samples(inputs, y, z)

    def check_known(self, labels: Iterable[Hashable], so: str = UNPREDICTED) -> None:
        """Raise an error if classes were never learned; ``so`` gives the consequence."""
        known = set(self.labels)
        unknown = [label for label in dict.fromkeys(labels) if label not in known]
        if unknown:
            raise DataError(
                f"class(es) {shortened([str(one) for one in unknown])} were never learned, so {so}"
            )

    def _check_first(self) -> None:
        if len(self.labels) < 2:
            raise DataError(
                f"the first rows are all of one class, '{self.names[0]}'; at least two are needed "
                "at the start"
            )

    def groups_of(self, counts: dict[tuple[int, ...], int]) -> list[GroupRows]:
        """Return groups by name, given counts of rows by number."""

        def value(key: tuple[int, ...]) -> str | None:
            return self.values[key[1]] if len(key) > 1 and key[1] >= 0 else None

        names = self.names
        return [GroupRows(names[key[0]], value(key), n) for key, n in sorted(counts.items())]

    def become(self, after: Model, lesson: Lesson) -> None:
        """Adopt what a copy has learned."""
        self.labels, self.values, self.state = after.labels, after.values, after.state
        self.inputs, self.sums_only = after.inputs, after.sums_only
        self.lessons.append(lesson)


def _order(label: Any) -> tuple[str, Any]:
    """Return a key that sorts labels of any types."""
    number = isinstance(label, int | float | np.number)
    return ("", label) if number else (type(label).__name__, str(label))
