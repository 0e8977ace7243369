from __future__ import annotations

import pytest

from faircil.data.datasets import DATASETS, load_dataset
from faircil.errors import DataError
from faircil_lab.suite.catalogue import FULL, SMALL, SuiteStream
from faircil_lab.suite.row_index import index_of_stream


def check(stream: SuiteStream, seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        data = load_dataset(stream.dataset, seed)
        stream.check(index_of_stream(data).digest, seed, "here")
    first = load_dataset(stream.dataset, 0)
    rows = [sum(len(getattr(t, part)) for t in first.tasks) for part in ("train", "test")]
    assert (len(first.tasks), first.n_classes, *rows) == stream.size
    assert (first.attribute is None) == (stream.measure == "eer")


@pytest.mark.parametrize("stream", SMALL.streams, ids=lambda one: one.dataset)
def test_the_small_suite_is_frozen(stream: SuiteStream) -> None:
    check(stream, SMALL.seeds)


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(one, marks=pytest.mark.data(one.dataset), id=one.dataset)
        for one in FULL.streams
    ],
)
def test_the_suite_is_frozen(stream: SuiteStream) -> None:
    check(stream, FULL.seeds[:2])


def test_other_rows_are_refused() -> None:
    with pytest.raises(DataError, match=r"have digest xyz, expected 7ee9.*constraints.txt"):
        SMALL.streams[1].check("xyz", 0, "here")


def test_it_has_images_people_and_texts_by_sex_by_race_and_by_both() -> None:
    assert {stream.inputs for stream in FULL.streams} == {"images", "people", "texts"}
    attributes = {stream.attribute for stream in FULL.streams}
    assert {"sex", "race", "sex × race", "gender", "domain", "colour", None} == attributes
    assert all(stream.dataset in DATASETS for stream in (*FULL.streams, *SMALL.streams))
    # Whoever lacks a file that cannot be got elsewhere still has a place in the order.
    assert [stream.dataset for stream in FULL.streams if not stream.core] == ["biasbios-sample"]
    assert all(stream.epochs and stream.buffer_size == 32 for stream in FULL.streams)
