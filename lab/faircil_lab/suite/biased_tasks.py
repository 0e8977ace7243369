"""Images with a bias of their own in every task, in the style of Split CIFAR-S.

In CIFAR-S (Wang et al. 2020, *Towards fairness in visual recognition*) most images of a class are
in colour and a few in grey, or the other way round, so that a net can take the domain for the
class. Split CIFAR-S (Lee, Jung and Moon 2024) makes that a stream: each task has a bias of its own.
Here the domains are images as they are and their negatives, which cost no further channel and which
dense and convolutional nets both see. Heavy imports happen when a stream is made, since every list
of datasets reads this module.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from faircil.data.datasets import DATASETS, Dataset
from faircil.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from faircil.data.stream import TaskStream
    from faircil.samples import Samples

ATTRIBUTE, DOMAINS = "domain", ("plain", "negative")
RARE_TRAIN, RARE_TEST = 0.05, 0.5  # share of a class that is in its rarer domain


def biased_tasks(stream: TaskStream, seed: int) -> TaskStream:
    """Turn a part of each class into negatives; the attribute is whether an image is one.

    The class at place p of task t, both from 0, is mostly in domain (p + t) mod 2: within a task
    neighbouring classes are biased in opposite directions, so that the domain predicts the class,
    and in the next task the same rule is wrong. Tests have as many images of either domain.
    """
    import numpy as np

    if stream.image is None:
        raise UsageError(
            f"negatives are of images, and the data '{stream.name}' is not known to be images; "
            "choose a dataset of images"
        )
    generator = np.random.default_rng([seed, 19])
    first = stream.tasks[0].train.x
    # Inputs are pixels from 0 to 1, shifted and scaled: p ↦ 1 − p swaps the two ends.
    ends = first.min() + first.max()
    tasks = []
    for number, task in enumerate(stream.tasks):
        usual = {c: (place + number) % 2 for place, c in enumerate(task.classes)}
        train = _biased(task.train, usual, RARE_TRAIN, ends, generator)
        test = _biased(task.test, usual, RARE_TEST, ends, generator)
        tasks.append(replace(task, train=train, test=test))
    return replace(stream, tasks=tuple(tasks), attribute=ATTRIBUTE, attribute_values=DOMAINS)


def _biased(
    samples: Samples,
    usual: dict[int, int],
    rare: float,
    ends: Tensor,
    generator: np.random.Generator,
) -> Samples:
    """Return samples of which a share of each class is in the other domain than usual."""
    import numpy as np
    import torch

    z = np.empty(len(samples), dtype=np.int64)
    label = samples.y.numpy()
    for c, domain in usual.items():
        rows = generator.permutation(np.flatnonzero(label == c))
        z[rows] = domain
        z[rows[: round(rare * len(rows))]] = 1 - domain
    attribute = torch.from_numpy(z)
    x = torch.where(attribute[:, None] == 1, ends - samples.x, samples.x)
    return replace(samples, x=x, z=attribute)


def _biased_variant(base: str) -> Dataset:
    return DATASETS[base].variant(
        base,
        summary=f"{base}: negatives that predict the class, in a different way in each task",
        attribute=ATTRIBUTE,
        arrange=biased_tasks,
    )


fashion_bias, digits_bias = _biased_variant("fashion-mnist"), _biased_variant("digits")
