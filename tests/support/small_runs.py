"""A stream that trains in a moment, and runs on it."""

from __future__ import annotations

import torch

from faircil.data.stream import Task, TaskStream
from faircil.learners import ALIASES
from faircil.runs.config import RunConfig, resolve
from faircil.runs.settings import own_settings
from faircil.samples import Samples

TASKS = ((0, 1), (2,), (3, 4))  # the second has one class
PER_GROUP = 24
FEW = 3  # training samples of group (4, 1)
ABSENT = (2, 0)  # has no training sample


def small_stream(*, attribute: bool, seed: int = 0) -> TaskStream:
    """Five classes in six dimensions, split by a binary attribute or not."""
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(5, 6, generator=generator)

    def samples(classes: tuple[int, ...], sizes: dict[tuple[int, int], int]) -> Samples:
        groups = [(y, z) for y in classes for z in (0, 1)]
        counts = torch.tensor([sizes.get(group, PER_GROUP) for group in groups])
        y, z = torch.tensor(groups).repeat_interleave(counts, dim=0).unbind(dim=1)
        x = centres[y] + torch.randn(len(y), 6, generator=generator)
        x[:, 0] += z
        return Samples(x, y.clone(), z.clone() if attribute else None)

    tasks = tuple(
        Task(classes, samples(classes, {ABSENT: 0, (4, 1): FEW}), samples(classes, {}))
        for classes in TASKS
    )
    names = ("a", "b", "c", "d", "e")
    if attribute:
        return TaskStream("small", tasks, names, "z", ("0", "1"))
    return TaskStream("small", tasks, names)


def small_config(
    method: str = "er",
    weighting: str | None = None,
    *,
    attribute: bool = False,
    measure: str | None = None,
    **settings: object,
) -> RunConfig:
    """Settings under which a run on the small stream takes a few hundredths of a second."""
    values: dict[str, object] = {
        "epochs": 2,
        "lr": 0.05,
        "hidden": 8,
        "batch_size": 16,
        "memory_batch_size": 16,
        "buffer_size": 6,
        **({"tau": 1.0} if method in ALIASES or "tau" in own_settings(method) else {}),
        **settings,
    }
    return resolve(
        dataset="toy-groups" if attribute else "toy",
        method=method,
        weighting=weighting,
        measure=measure,
        overrides=[f"{name}={value}" for name, value in values.items()],
    )
