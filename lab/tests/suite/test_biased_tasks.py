from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from faircil.data.datasets import DATASETS, load_dataset
from faircil.errors import UsageError
from faircil.runs.config import resolve
from faircil.testing import check_dataset
from faircil_lab.suite.biased_tasks import biased_tasks


@pytest.fixture(scope="module")
def streams():
    """The digits as they are, and biased by two seeds."""
    plain = load_dataset("digits", 0)
    return plain, biased_tasks(plain, 0), biased_tasks(plain, 1)


def test_most_of_a_class_is_in_one_domain_and_the_next_task_turns_it_round(streams) -> None:
    _, biased, _ = streams
    for number, task in enumerate(biased.tasks):
        for place, c in enumerate(task.classes):
            z = task.train.z[task.train.y == c]
            rare = round(0.05 * len(z))
            usual = (place + number) % 2
            assert int((z == usual).sum()) == len(z) - rare
            tested = task.test.z[task.test.y == c]
            assert abs(int((tested == 1).sum()) - len(tested) / 2) <= 0.5


def test_negatives_are_mirrored_and_the_others_are_as_they_were(streams) -> None:
    plain, biased, _ = streams
    ends = plain.tasks[0].train.x.min() + plain.tasks[0].train.x.max()
    for before, after in zip(plain.tasks, biased.tasks, strict=True):
        for part in ("train", "test"):
            old, new = getattr(before, part), getattr(after, part)
            assert torch.equal(new.y, old.y)
            turned = new.z == 1
            assert torch.equal(new.x[~turned], old.x[~turned])
            assert torch.equal(new.x[turned], ends - old.x[turned])


def test_the_seed_decides_who_is_turned(streams) -> None:
    plain, one, other = streams
    again = biased_tasks(plain, 0)
    assert all(
        torch.equal(a.train.z, b.train.z) for a, b in zip(one.tasks, again.tasks, strict=True)
    )
    assert any(
        not torch.equal(a.train.z, b.train.z) for a, b in zip(one.tasks, other.tasks, strict=True)
    )


def test_it_is_a_dataset_with_the_settings_of_its_base() -> None:
    check_dataset("digits-bias")
    own, base = (resolve(dataset=name, method="fsw") for name in ("digits-bias", "digits"))
    flat = {name: v for name, v in own.settings.flat().items() if name != "measure"}
    assert flat == {name: base.settings.flat()[name] for name in flat}
    assert DATASETS["fashion-bias"].base == "fashion-mnist"
    assert resolve(dataset="digits-bias", method="er").measure == "eo"


def test_only_images_have_negatives(streams) -> None:
    with pytest.raises(UsageError, match=r"not known to be images; choose a dataset of images"):
        biased_tasks(replace(streams[0], image=None), 0)
