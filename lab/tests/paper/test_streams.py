"""Streams that are not clean: what comes where, on a stream of a few small images."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from faircil.data.datasets import DATASETS, load_dataset
from faircil.data.stream import Task, TaskStream
from faircil.errors import UsageError
from faircil.runs.config import resolve
from faircil.samples import Samples, concatenate
from faircil.testing import check_dataset
from faircil_lab.paper import streams
from faircil_lab.paper.metrics import DATASET_NAMES
from faircil_lab.paper.tables import STREAMS_TABLE

ORIGINALS, COPIES = 20, 2  # of each class
CLASSES = 6


def images(classes: tuple[int, ...], seed: int, copies: int) -> Samples:
    """Images of 1 × 3 pixels: class, number of the original, number of the copy."""
    y = torch.tensor(classes).repeat_interleave(ORIGINALS)
    y = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))]
    number = torch.arange(len(y)) + 1000 * seed
    y, number = (part.repeat_interleave(copies) for part in (y, number))
    copy = torch.arange(copies).repeat(len(y) // copies)
    return Samples(torch.stack([y, number, copy], dim=1).float(), y, y % 2)


@pytest.fixture
def clean() -> TaskStream:
    tasks = tuple(
        Task(pair, images(pair, number, COPIES), images(pair, 10 + number, 1))
        for number, pair in enumerate([(0, 1), (2, 3), (4, 5)])
    )
    names = tuple("abcdef")
    return TaskStream("tiny", tasks, names, "z", ("0", "1"), copies=COPIES, image=(1, 1, 3))


def rows_of(*parts: Samples) -> list[list[float]]:
    return sorted(concatenate(parts).x.tolist())


def assert_copies_stay_together(stream: TaskStream) -> None:
    for task in stream.tasks:
        pairs = task.train.x.view(-1, COPIES, 3)
        assert torch.equal(pairs[:, 0, 1], pairs[:, 1, 1])
        assert torch.equal(task.train.y[::2], task.train.y[1::2])


@pytest.mark.parametrize("variant", streams.VARIANTS)
def test_the_seed_decides_and_copies_stay_together(clean: TaskStream, variant: str) -> None:
    arrange = streams.VARIANTS[variant].arrange
    if arrange is None:
        return
    one, same, other = (arrange(clean, seed) for seed in (0, 0, 1))
    for left, right in zip(one.tasks, same.tasks, strict=True):
        assert torch.equal(left.train.x, right.train.x)
    assert any(
        left.train.x.tolist() != right.train.x.tolist()
        for left, right in zip(one.tasks, other.tasks, strict=True)
    )
    if variant != "drift":  # whose pixels are turned
        assert_copies_stay_together(one)
        assert rows_of(*(task.train for task in one.tasks)) == rows_of(
            *(task.train for task in clean.tasks)
        )
        assert rows_of(*one.tests_after(len(one.tasks))) == rows_of(*clean.tests_after(3))


def test_classes_come_back_upside_down_and_are_tested_on_that(clean: TaskStream) -> None:
    stream = streams.drift(clean, 0)
    assert [task.classes for task in stream.tasks] == [(0, 1), (2, 3), (4, 5), (), (), ()]
    assert [task.renewed for task in stream.tasks[3:]] == [(0, 1), (2, 3), (4, 5)]
    for before, first, second in zip(clean.tasks, stream.tasks, stream.tasks[3:], strict=False):
        turned = replace(second.train, x=second.train.x.flip(1))
        assert len(first.train) == len(second.train)
        assert rows_of(first.train, turned) == rows_of(before.train)
        assert torch.equal(second.test.x, before.test.x.flip(1))
    after = stream.tests_after(4)
    assert torch.equal(after[0].x, clean.tasks[0].test.x.flip(1))
    assert torch.equal(after[1].x, clean.tasks[1].test.x)
    with pytest.raises(UsageError, match=r"'tiny' is not known to be images"):
        streams.drift(replace(clean, image=None), 0)


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_share_of_each_class_comes_in_other_tasks(clean: TaskStream, share: float) -> None:
    for before, task in zip(clean.tasks, streams.blurry(clean, 0, share).tasks, strict=True):
        assert task.classes == before.classes
        for c in task.classes:
            stayed = int((task.train.y == c).sum())
            assert stayed == round((1 - share) * ORIGINALS) * COPIES


def test_wrong_labels_come_in_the_task_of_the_label(clean: TaskStream) -> None:
    stream = streams.noisy(clean, 0, 0.2)
    joint = concatenate([task.train for task in stream.tasks])
    assert int((joint.y != joint.x[:, 0]).sum()) == round(0.2 * CLASSES * ORIGINALS) * COPIES
    assert torch.equal(joint.z if joint.z is not None else joint.y, joint.x[:, 0].long() % 2)
    for before, task in zip(clean.tasks, stream.tasks, strict=True):
        assert set(task.train.y.tolist()) == set(task.classes)
        assert task.test is before.test


def test_chunks_are_equal_and_classes_fade_into_each_other(clean: TaskStream) -> None:
    stream = streams.borderless(clean, 0, chunks=10)
    sizes = [len(task.train) for task in stream.tasks]
    assert max(sizes) - min(sizes) <= COPIES
    assert [c for task in stream.tasks for c in task.classes] == list(range(CLASSES))
    seen: set[int] = set()
    for task in stream.tasks:
        own = set(task.train.y.tolist())
        assert own - seen == set(task.classes) == set(task.test.y.tolist())
        seen |= own
        assert max(own) - min(own) <= 3  # a chunk is half a class, and two of them overlap
    assert sum(len(set(task.train.y.tolist())) > 1 for task in stream.tasks) >= 8


def test_the_variants_are_datasets_with_settings_of_their_base() -> None:
    assert set(streams.TITLES) <= DATASET_NAMES.keys()
    for base in streams.BASES:
        own = getattr(streams, base.upper().replace("-", "_"))
        for variant in streams.VARIANTS:
            row = getattr(own, variant.replace("-", "_"))
            assert (row.base, row.attribute) == (base, DATASETS[base].attribute)
            assert row.summary.startswith(f"{base}: ")
    config = resolve(dataset="biased-digits-drift", method="er")
    assert config.settings == resolve(dataset="biased-digits", method="er").settings


@pytest.mark.parametrize("variant", ["blurry-30", "noise-20", "no-borders"])
def test_a_variant_keeps_the_contract_of_datasets(variant: str) -> None:
    with DATASETS.temporarily("toy-varied", streams.VARIANTS[variant].of("toy")):
        check_dataset("toy-varied")
        assert load_dataset("toy-varied", 0).name == "toy-varied"


def test_the_page_shows_decay_where_classes_recur_and_remedies_where_labels_are_wrong() -> None:
    shown = {column.target.dataset: set(column.only or ()) for column in STREAMS_TABLE.columns}
    assert len(shown) == 2 * (1 + len(streams.VARIANTS))
    for dataset, names in shown.items():
        assert {"replay", "DER++", "GDumb", "moments"} <= names
        recurs = any(word in dataset for word in ("drift", "blurry", "no-borders"))
        assert ("moments, decay=.5" in names) == recurs
        assert ("moments, ridge=10" in names) == ("noise" in dataset or dataset in streams.BASES)
