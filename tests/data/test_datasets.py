"""What every dataset of the table promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
import torch

from faircil.data.datasets import DATASETS, load_dataset
from faircil.data.sources import SOURCES
from faircil.data.stream import TaskStream, shuffled_classes
from faircil.errors import UsageError
from faircil.registry import implementation
from faircil.samples import Samples
from faircil.testing.pieces import DATASET_CHECKS
from tiny_files import TinyFiles

NOT_DRAWN = {"mnist", "fashion-mnist", "biasbios"}  # their samples and split are given


@cache
def load(name: str, seed: int = 0, shuffled: bool = False) -> TaskStream:
    return load_dataset(name, seed, shuffle_classes=shuffled)


@pytest.fixture(autouse=True)
def _files(tiny_files: TinyFiles) -> None:
    """Let every test here read the tiny files."""


# Those of other packages, such as the laboratory, are tested there; so are variants.
OWN = [
    name
    for name, row in DATASETS.items()
    if row.base is None and implementation(row).__module__[:8] == "faircil."
]
every_dataset = pytest.mark.parametrize("name", OWN)
of_numbers = pytest.mark.parametrize("name", [n for n in OWN if not DATASETS[n].texts])


def parts(stream: TaskStream) -> list[Samples]:
    return list(chain.from_iterable((task.train, task.test) for task in stream.tasks))


def equal_parts(one: TaskStream, other: TaskStream) -> list[bool]:
    return [
        texts(one, mine) == texts(other, yours)
        and torch.equal(mine.x, yours.x)
        and torch.equal(mine.keys(), yours.keys())
        for mine, yours in zip(parts(one), parts(other), strict=True)
    ]


def texts(stream: TaskStream, samples: Samples) -> list[str] | None:
    return None if stream.texts is None else [stream.texts[number] for number in samples.x]


@every_dataset
@pytest.mark.parametrize("check", DATASET_CHECKS, ids=lambda check: check.__name__)
def test_every_dataset_keeps_the_contract(name: str, check: Callable[[str], None]) -> None:
    check(name)


@every_dataset
def test_a_stream_has_the_name_of_its_dataset(name: str) -> None:
    assert load(name).name == name


@of_numbers
def test_samples_are_rows_of_numbers(name: str) -> None:
    stream = load(name)
    assert stream.texts is None
    assert all(samples.x.ndim == 2 and len(samples) > 0 for samples in parts(stream))


@every_dataset
def test_the_seed_decides_what_is_drawn(name: str) -> None:
    assert all(equal_parts(load(name), load_dataset(name, 0)))
    same_with_another_seed = equal_parts(load(name), load(name, 1))
    assert all(same_with_another_seed) if name in NOT_DRAWN else not any(same_with_another_seed)


@every_dataset
def test_classes_can_come_in_an_order_from_the_seed(name: str) -> None:
    stream, fixed = load(name, 1, True), load(name, 1)
    order = list(chain.from_iterable(task.classes for task in stream.tasks))
    assert order == shuffled_classes(stream.n_classes, 1)
    assert sum(len(task.train) for task in stream.tasks) == sum(
        len(task.train) for task in fixed.tasks
    )
    for task in stream.tasks:
        assert set(task.train.y.tolist()) == set(task.classes)
    assert stream.class_names == fixed.class_names


def test_the_number_of_classes_per_task_can_be_chosen() -> None:
    assert [task.classes for task in load_dataset("toy", 0, classes_per_task=1).tasks] == [
        (0,),
        (1,),
        (2,),
    ]


def test_an_unknown_name_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean 'digits'"):
        load_dataset("digit", 0)


@every_dataset
def test_every_source_is_known(name: str) -> None:
    assert DATASETS[name].source is None or DATASETS[name].source in SOURCES


@every_dataset
def test_files_are_there_or_missing(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = DATASETS[name]
    assert row.missing_files() == []
    assert {file.state for file in row.check_files()} == ({"ok"} if row.folder else set())
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    missing = row.missing_files()
    assert missing == [file.path for file in row.check_files()]
    assert all(path.is_relative_to(tmp_path / str(row.folder)) for path in missing)
    assert bool(missing) == bool(row.folder)
