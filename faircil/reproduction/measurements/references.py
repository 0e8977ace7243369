"""What plain models reach on a dataset of texts, seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from faircil.config import RunConfig, resolve
from faircil.data.datasets import load_dataset
from faircil.data.stream import TaskStream
from faircil.loading import load_stream
from faircil.metrics import TaskMetrics
from faircil.reproduction.measurements.store import Measurement
from faircil.results.record import averages
from faircil.samples import Samples, concatenate
from faircil.text.reference import Labelled, joint_reference

ON_WORDS, ON_EMBEDDINGS = "tfidf", "linear"
DRAWS = 1000  # of the gap by chance: its mean is known to .001


@dataclass(frozen=True)
class ReferenceValues:
    """What a model reaches; None where a value does not apply.

    Parameters
    ----------
    accuracy : float or None
        Mean over tasks, as that of a run.
    accuracy_at_end : float or None
        After the last task.
    eo_gap : float or None
        Mean over tasks.
    share_at_end : float or None
        Share of all test samples that are predicted right after the last task: large classes
        count more.
    gap_by_chance : float or None
        The same for a model that treats all groups alike; see :func:`gap_by_chance`.
    """

    accuracy: float | None
    accuracy_at_end: float | None
    eo_gap: float | None
    share_at_end: float | None = None
    gap_by_chance: float | None = None


@dataclass(frozen=True)
class TextReference(Measurement[ReferenceValues]):
    """A reference of :mod:`faircil.text.reference` on the stream that a run of this seed sees."""

    name: ClassVar[str] = "text-reference"
    values: ClassVar[type[ReferenceValues]] = ReferenceValues

    kind: str
    dataset: str
    seed: int
    encoder: str = "minilm"

    def identity(self) -> dict[str, Any]:
        """Return the parameters; an encoder counts by its content, and not for word counts."""
        digest = self._config.encoder_sha256 if self.kind == ON_EMBEDDINGS else None
        return asdict(self) | {"encoder": digest}

    def compute(self) -> ReferenceValues:
        """Fit and measure after each task."""
        if self.kind == ON_EMBEDDINGS:
            stream = load_stream(self._config, self.seed)
        else:
            stream = load_dataset(self.dataset, self.seed)
        train, test = (
            _labelled(stream, [getattr(task, part) for task in stream.tasks])
            for part in ("train", "test")
        )
        # One thread: the sums of several differ in the last bits, from machine to machine.
        with threadpool_limits(1):
            after = joint_reference(self.kind, train, test, [task.classes for task in stream.tasks])
        generator = np.random.default_rng(self.seed)
        chance = [gap_by_chance(metrics, generator) for metrics in after if metrics.groups]
        values = averages(after)
        return ReferenceValues(
            values["accuracy"],
            after[-1].accuracy,
            values["eo_gap"],
            _share_right(after[-1]),
            float(np.mean(chance)) if chance else None,
        )

    @property
    def _config(self) -> RunConfig:
        return resolve(
            dataset=self.dataset,
            method="joint",
            overrides=[f"encoder={self.encoder}", "finetune=false"],
        )


def _labelled(stream: TaskStream, parts: Sequence[Samples]) -> Labelled:
    samples = concatenate(parts)
    x = samples.x.numpy()
    if stream.texts is not None:
        x = np.array(stream.texts, dtype=object)[x]
    return Labelled(x, samples.y.numpy(), None if samples.z is None else samples.z.numpy())


def _share_right(metrics: TaskMetrics) -> float:
    classes = metrics.classes
    return sum(c.n * c.accuracy for c in classes) / sum(c.n for c in classes)


def gap_by_chance(metrics: TaskMetrics, generator: np.random.Generator) -> float:
    """Return the ``eo_gap`` to expect of a model that treats all groups alike.

    Each class keeps the number of its samples that are predicted right, and chance decides to
    which of its groups they belong. What is left is the gap that small groups show anyway.
    """
    gaps = []
    for _, some in groupby(metrics.groups, key=lambda group: group.label):
        groups = list(some)
        if len(groups) == 1:  # nobody to be compared with
            continue
        sizes = np.array([group.n for group in groups])
        right = round(sum(group.n * group.accuracy for group in groups))
        drawn = generator.multivariate_hypergeometric(sizes, right, DRAWS) / sizes
        gaps.append(np.ptp(drawn, axis=1).mean())
    return float(np.mean(gaps))
