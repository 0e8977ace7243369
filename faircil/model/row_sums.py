"""Rows that a model learns by sums: batch by batch, in parts, or at other sites."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import torch
from threadpoolctl import threadpool_limits

from faircil.compute import same_bits
from faircil.data.features import NewValues
from faircil.errors import UsageError
from faircil.learners.moments import Moments
from faircil.learners.moments_options import MomentsOptions
from faircil.model.history import Lesson, now
from faircil.model.model import LEARNED_TWICE, Floats32, Model
from faircil.moments.features import FeatureMap
from faircil.moments.group_moments import GroupMoments
from faircil.moments.seen_rows import row_sums
from faircil.moments.small_cells import pool_sums
from faircil.samples import Samples

MOMENTS = "moments"


@dataclass
class RowSums:
    """Sums over rows, with a checksum to recognise the same rows.

    Parameters
    ----------
    moments : GroupMoments
    rows : int
    check : int
        Sum of the rows' checksums modulo 2⁶⁴, independent of their order.
    new : NewValues
        Values in the rows that the model's encoder does not know.
    """

    moments: GroupMoments
    rows: int = 0
    check: int = 0
    new: NewValues = field(default_factory=NewValues)

    def add(self, samples: Samples, features: FeatureMap) -> None:
        """Add rows."""
        place = samples.to(self.moments.device)
        with torch.no_grad(), threadpool_limits(1, user_api="blas"), same_bits():
            self.moments.add(place, features)
        self.rows += len(samples)
        self.check = (self.check + int(row_sums(samples.x).sum())) % 2**64

    def merge(self, other: RowSums) -> None:
        """Add the sums of other rows."""
        self.moments.merge(other.moments)
        self.rows += other.rows
        self.check = (self.check + other.check) % 2**64
        self.new.update(other.new)


def learns_sums(model: Model) -> bool:
    """Return whether a model learns by sums over rows, so that no rows need to be kept."""
    if model.config.method != MOMENTS:
        return False
    settings = model.config.settings.learner
    return isinstance(settings, MomentsOptions) and settings.features != "trained"


class Gathering:
    """A lesson whose rows arrive batch by batch; weights are chosen once, at its end.

    Until then, the model is unchanged.

    Parameters
    ----------
    model : Model
        A model of method ``moments``.
    inputs : int
        Number of inputs of a row.
    device : torch.device or str
        Device of a new model's learner.
    """

    def __init__(self, model: Model, inputs: int, device: torch.device | str = "cpu") -> None:
        if not learns_sums(model):
            raise UsageError(
                f"{model.config.label} needs all rows together, and these come in parts; choose "
                "the method 'moments', with other features than trained ones"
            )
        self.started = time.perf_counter()
        self.model, self.after = model, model
        self._inputs, self._device = inputs, device
        self._sums: RowSums | None = None

    @property
    def learner(self) -> Moments:
        """The learner of the rows."""
        found = self.after.learner
        assert isinstance(found, Moments)
        return found

    def name(self, labels: Sequence[Hashable], values: Sequence[str | None] | None) -> None:
        """Assign numbers to new classes and attribute values."""
        known = len(self.after.labels)
        fresh = self.after is self.model
        self.after = self.after.with_names(labels, values)
        if fresh:
            self.after.prepare(known, self._inputs, self._device)
        elif len(self.after.labels) > known:
            self.learner.grow(len(self.after.labels))

    def begin(self, first: Samples) -> None:
        """Fit the features on the first rows, unless they are fitted already."""
        if self.learner.moments is None:
            place = next(self.learner.net.parameters()).device
            with threadpool_limits(1, user_api="blas"), same_bits():
                self.learner.begin(first.to(place))

    def add(
        self, x: Floats32, labels: Sequence[Hashable], values: Sequence[str | None] | None = None
    ) -> None:
        """Add a batch of rows; see :meth:`faircil.model.model.Model.learn`.

        The first batch of a new model must have two classes; features are fitted on it.
        """
        self.name(labels, values)
        samples = self.after.samples_of(x, labels, values)
        self.begin(samples)
        if self._sums is None:
            assert self.learner.moments is not None
            self._sums = RowSums(self.learner.empty_sums(self.learner.moments.device))
        self._sums.add(samples, self.learner.summed)

    def finish(
        self, sums: RowSums | None = None, *, notes: Sequence[str] = (), solve: bool = True
    ) -> Lesson:
        """Learn the added rows, or other sums of the same features, and update the model.

        Parameters
        ----------
        sums : RowSums, optional
            By default those of the batches.
        notes : sequence of str
            Notes on the rows.
        solve : bool
            Whether the group weights are chosen; otherwise the model has only sums.
        """
        found = self._sums if sums is None else sums
        if found is None:
            raise UsageError("no rows were added, so there is nothing to learn; add some")
        state, learner, known = self.after.state, self.learner, len(self.model.labels)
        assert state is not None
        digest = hashlib.sha256(f"{found.rows} {found.check}".encode()).hexdigest()
        twice = any(one.digest == digest for one in self.model.lessons)
        left_out = pool_sums(found.moments, learner.settings.min_cell)
        groups = dict(found.moments.seen.counts)
        with threadpool_limits(1, user_api="blas"), same_bits():
            passed = learner.absorb(found.moments, solve=solve)
        state.tasks += 1
        state.seen = dict(Counter(state.seen) + Counter(groups))
        self.after.sums_only = not solve
        lesson = Lesson(
            at=now(),
            rows=sum(groups.values()),
            new_classes=self.after.names[known:],
            groups=tuple(self.after.groups_of(groups)),
            seconds=time.perf_counter() - self.started,
            notes=(
                *self.model.kept(notes),
                *left_out,
                *(LEARNED_TWICE,) * twice,
                *passed.notes,
            ),
            passed=passed if solve else None,
            digest="" if learner.noise is not None else digest,
        )
        self.model.become(self.after, lesson)
        return lesson
