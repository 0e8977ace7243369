"""Streams that are not clean, as variants of datasets: drift, blur, noise, no borders.

A variant is a dataset and a function that rearranges its tasks. Distorted copies of one original
stay together: they come in the same task with the same label. Heavy imports happen when a stream is
made, since every list of datasets reads this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

from faircil.data.datasets import DATASETS, Dataset
from faircil.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from faircil.data.stream import Task, TaskStream
    from faircil.samples import Samples

    Integers = NDArray[np.int64]

CHUNKS = 25


def drift(stream: TaskStream, seed: int) -> TaskStream:
    """Let every class come back upside down after all have come, and be tested on that then.

    Half of the training data comes the first time, the rest the second time. A six upside down
    looks like a nine: some old rows contradict new ones.
    """
    if stream.image is None:
        raise UsageError(
            f"images can be turned upside down, and the data '{stream.name}' is not known to be "
            "images; choose a dataset of images"
        )
    shape, generator = stream.image, _generator(seed)
    first, second = [], []
    for task in stream.tasks:
        originals = len(task.train) // stream.copies
        half = (generator.permutation(originals) < originals / 2).astype(int)
        early, late = _parted(task.train, half, stream.copies, 2)
        first.append(replace(task, train=early))
        train, test = (_upside_down(samples, shape) for samples in (late, task.test))
        second.append(replace(task, classes=(), train=train, test=test, renewed=task.classes))
    return replace(stream, tasks=(*first, *second))


def blurry(stream: TaskStream, seed: int, share: float) -> TaskStream:
    """Let a share of each class come in other tasks, any of them alike."""
    import numpy as np

    generator, tasks = _generator(seed), len(stream.tasks)
    train, label, place = _originals(stream)
    moved = _drawn_of_each(label, share, generator)
    elsewhere = (place + generator.integers(1, tasks, size=len(place))) % tasks
    return _with_rows(stream, stream.tasks, train, np.where(moved, elsewhere, place))


def noisy(stream: TaskStream, seed: int, share: float) -> TaskStream:
    """Give a share of the training data a wrong label, any of them alike; the test data is clean.

    A row comes in the task of its label, and keeps its attribute value.
    """
    import numpy as np
    import torch

    generator, classes = _generator(seed), stream.n_classes
    train, label, _ = _originals(stream)
    wrong = _drawn_of_each(label, share, generator)
    other = (label + generator.integers(1, classes, size=len(label))) % classes
    label = np.where(wrong, other, label)
    home = {c: number for number, task in enumerate(stream.tasks) for c in task.classes}
    place = np.array([home[c] for c in label.tolist()])
    y = torch.from_numpy(label).repeat_interleave(stream.copies)
    return _with_rows(stream, stream.tasks, replace(train, y=y), place)


def borderless(stream: TaskStream, seed: int, chunks: int) -> TaskStream:
    """Let classes fade in and out, one after the other, and cut the stream into equal chunks.

    The class at place p of the order comes at times p + u + v, with u and v uniform in ±½: it is
    most frequent at p, and gone at p ± 1, where its neighbours are most frequent. A class is tested
    from the chunk on that has its first row.
    """
    import numpy as np
    import torch

    from faircil.samples import concatenate

    generator = _generator(seed)
    train, label, _ = _originals(stream)
    order = [c for task in stream.tasks for c in task.classes]
    when = np.argsort(order)[label] + generator.uniform(-0.5, 0.5, (2, len(label))).sum(axis=0)
    rank = np.argsort(np.argsort(when))
    place = rank * chunks // len(label)
    brought = {c: int(place[label == c].min()) for c in order}
    test = concatenate([task.test for task in stream.tasks])
    tasks = []
    for number in range(chunks):
        new = [c for c in order if brought[c] == number]
        own = test.take(torch.isin(test.y, torch.tensor(new, dtype=torch.int64)))
        tasks.append(replace(stream.tasks[0], classes=tuple(new), test=own))
    return _with_rows(stream, tasks, train, place)


def _generator(seed: int) -> np.random.Generator:
    import numpy as np

    return np.random.default_rng([seed, 18])


def _originals(stream: TaskStream) -> tuple[Samples, Integers, Integers]:
    """Return all training data, and class and task of each of the originals in it, (o,)."""
    import numpy as np

    from faircil.samples import concatenate

    train = concatenate([task.train for task in stream.tasks])
    sizes = [len(task.train) // stream.copies for task in stream.tasks]
    return train, train.y[:: stream.copies].numpy(), np.repeat(np.arange(len(sizes)), sizes)


def _drawn_of_each(
    label: Integers, share: float, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Draw a share of each class, (o,)."""
    import numpy as np

    drawn = np.zeros(len(label), dtype=bool)
    for c in np.unique(label):
        rows = generator.permutation(np.flatnonzero(label == c))
        drawn[rows[: round(share * len(rows))]] = True
    return drawn


def _parted(samples: Samples, place: Integers, copies: int, parts: int) -> list[Samples]:
    """Part samples by the places of their originals, (o,), from 0 to ``parts`` − 1."""
    import torch

    each = torch.from_numpy(place).repeat_interleave(copies)
    return [samples.take(each == number) for number in range(parts)]


def _with_rows(
    stream: TaskStream, tasks: Sequence[Task], train: Samples, place: Integers
) -> TaskStream:
    """Return a stream of tasks whose training data is where its originals are placed, (o,)."""
    parts = _parted(train, place, stream.copies, len(tasks))
    with_rows = (replace(task, train=part) for task, part in zip(tasks, parts, strict=True))
    return replace(stream, tasks=tuple(with_rows))


def _upside_down(samples: Samples, shape: tuple[int, int, int]) -> Samples:
    """Turn images, flat in the order of ``shape``, by 180 degrees."""
    turned = samples.x.view(-1, *shape).flip(2, 3).reshape(len(samples), -1)
    return replace(samples, x=turned)


@dataclass(frozen=True)
class Variant:
    """A way in which a stream is not clean.

    Parameters
    ----------
    words : str
        What it is, after the name of the data.
    arrange : callable or None
        See :class:`faircil.data.datasets.Dataset`.
    classes_per_task : int
    """

    words: str
    arrange: Callable[[TaskStream, int], TaskStream] | None = None
    classes_per_task: int = 2

    def of(self, base: str) -> Dataset:
        """Return the variant of a dataset."""
        return DATASETS[base].variant(
            base,
            summary=f"{base}: {self.words}",
            arrange=self.arrange,
            classes_per_task=self.classes_per_task,
        )


VARIANTS = {
    "drift": Variant("every class comes back upside down", drift),
    "blurry-10": Variant("10 % come in other tasks", partial(blurry, share=0.1)),
    "blurry-30": Variant("30 % come in other tasks", partial(blurry, share=0.3)),
    "one-class": Variant("one class per task", classes_per_task=1),
    "noise-10": Variant("10 % wrong labels", partial(noisy, share=0.1)),
    "noise-20": Variant("20 % wrong labels", partial(noisy, share=0.2)),
    "no-borders": Variant(f"{CHUNKS} chunks without borders", partial(borderless, chunks=CHUNKS)),
}
BASES = {"digits": "digits", "biased-digits": "Biased digits"}


def name_of(base: str, variant: str) -> str:
    """Return the name of the dataset."""
    return f"{base}-{variant}"


TITLES: Mapping[str, str] = BASES | {
    name_of(base, variant): f"{title}, {row.words}"
    for base, title in BASES.items()
    for variant, row in VARIANTS.items()
}


def _variants_of(base: str) -> SimpleNamespace:
    """Return all variants of a dataset, as the entry points of the laboratory name them."""
    return SimpleNamespace(
        **{variant.replace("-", "_"): row.of(base) for variant, row in VARIANTS.items()}
    )


DIGITS, BIASED_DIGITS = _variants_of("digits"), _variants_of("biased-digits")
