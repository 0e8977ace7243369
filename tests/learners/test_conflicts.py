from __future__ import annotations

import pytest
import torch
from torch import Tensor

from faircil.learners.clad import Conflicts, find_conflicts
from faircil.nets import build_mlp
from faircil.samples import Samples
from learning import random_samples

NET = build_mlp(6, 5, (8,), seed=0)
MEMORY = random_samples(40, 4, seed=2)  # classes 0 to 3
# Class 3 has the highest mean score of the old ones, then 0, 2, 1; the new class 4 the highest.
SCORES = torch.tensor([[2.0, 0, 1, 9, 20], [2.0, 0, 1, -1, 20]])


def of_class(label: int, n: int = 2) -> Samples:
    return Samples(random_samples(n).x, torch.full((n,), label))


def found(share: float, memory: Samples = MEMORY, train: Samples | None = None) -> Conflicts:
    train = of_class(4) if train is None else train
    conflicts = find_conflicts(NET, SCORES, train, memory, share)
    assert conflicts is not None
    return conflicts


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0, [3]), (0.2, [3]), (0.5, [3, 0]), (0.74, [3, 0]), (1, [3, 0, 2, 1])],
)
def test_the_share_of_old_classes_with_the_highest_scores(
    share: float, expected: list[int]
) -> None:
    assert found(share).old.tolist() == expected
    assert found(share).new.tolist() == [4]


def test_features_are_means_over_samples() -> None:
    conflicts = found(0.5)
    parts: dict[int, list[Tensor]] = {3: [], 0: []}
    for x, y in zip(MEMORY.x, MEMORY.y.tolist(), strict=True):
        if y in parts:
            parts[y].append(NET.features(x[None])[0].detach())
    assert len(parts[3]) != len(parts[0])
    torch.testing.assert_close(conflicts.centre, torch.stack(parts[3] + parts[0]).mean(0))
    for prototype, label in zip(conflicts.prototypes, (3, 0), strict=True):
        torch.testing.assert_close(prototype, torch.stack(parts[label]).mean(0))
    assert conflicts.in_conflict.tolist() == [float(y in parts) for y in MEMORY.y.tolist()]
    assert conflicts.head is NET.head


def test_a_class_of_the_task_is_no_conflict_though_the_memory_has_it() -> None:
    assert found(1, train=of_class(3)).old.tolist() == [0, 2, 1]
    assert find_conflicts(NET, SCORES, MEMORY, MEMORY, 1) is None
