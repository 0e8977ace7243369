from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from faircil.errors import DataError
from faircil.samples import Samples
from faircil.weighting.groups import Seen, find_groups
from oracles import make_samples

quick = settings(deadline=None, max_examples=60)
# (class, value of one attribute, value of another); few samples, so groups are often absent.
triples = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(-1, 1)), min_size=1, max_size=20
)


def samples_of(rows: list[tuple[int, int, int]], attributes: int) -> Samples:
    table = torch.tensor(rows, dtype=torch.int64).reshape(len(rows), 3)
    z = {0: None, 1: table[:, 1], 2: table[:, 1:]}[attributes]
    return Samples(torch.zeros(len(rows), 1), table[:, 0], z)


@quick
@given(triples, triples, st.integers(0, 2), st.booleans())
def test_groups_equal_the_obvious_loop(
    now: list[tuple[int, int, int]], old: list[tuple[int, int, int]], attributes: int, split: bool
) -> None:
    by_attribute = split and attributes > 0
    width = 1 + attributes if by_attribute else 1
    membership = find_groups(
        samples_of(now, attributes), samples_of(old, attributes), by_attribute=by_attribute
    )
    groups = membership.groups
    count_now, count_old = (Counter(row[:width] for row in rows) for rows in (now, old))
    keys = sorted(count_now | count_old)
    assert len(groups) == len(keys)
    assert groups.label.tolist() == [key[0] for key in keys]
    values = (
        [key[1:] if attributes == 2 else key[1] for key in keys] if width > 1 else [0] * len(keys)
    )
    assert [tuple(v) if isinstance(v, list) else v for v in groups.attribute.tolist()] == values
    assert groups.current.tolist() == [key in count_now for key in keys]
    assert groups.size.tolist() == [count_now[key] or count_old[key] for key in keys]
    assert groups.seen is None
    assert membership.current.tolist() == [keys.index(row[:width]) for row in now]
    assert membership.memory.tolist() == [
        -1 if row[:width] in count_now else keys.index(row[:width]) for row in old
    ]


def test_no_memory_is_an_empty_memory() -> None:
    current = make_samples([2, 2, 1], [0, 1, 1])
    none, empty = (
        find_groups(current, memory, by_attribute=True) for memory in (None, current.take(slice(0)))
    )
    for name, value in vars(none.groups).items():
        assert np.array_equal(value, getattr(empty.groups, name))
    assert torch.equal(none.current, empty.current)
    assert len(none.memory) == len(empty.memory) == 0


def test_seen_is_counted_over_all_classes_with_the_value() -> None:
    current, memory = make_samples([1, 1], [0, 1]), make_samples([0], [1])
    # Class 7 was seen but is in neither: it still counts for its value.
    seen: Seen = {(0, 1): 5, (1, 0): 10, (1, 1): 20, (7, 1): 100}
    groups = find_groups(current, memory, by_attribute=True, seen=seen).groups
    assert groups.seen is not None
    assert groups.seen_with_attribute is not None
    assert groups.seen.tolist() == [5, 10, 20]
    assert groups.seen_with_attribute.tolist() == [125, 10, 125]


@pytest.mark.parametrize(
    "seen", [{0: 5, 1: 30}, {(0,): 5, (1,): 30}, {(0, 1): 5, (1, 0): 10, (1, 1): 20}]
)
def test_seen_of_classes_may_come_by_class_or_by_pair(seen: dict[tuple[int, ...], int]) -> None:
    current, memory = make_samples([1, 1], [0, 1]), make_samples([0], [1])
    groups = find_groups(current, memory, by_attribute=False, seen=seen).groups
    assert groups.seen is not None
    assert groups.seen_with_attribute is not None
    assert groups.seen.tolist() == [5, 30]
    assert groups.seen_with_attribute.tolist() == [35, 35]


@pytest.mark.parametrize("count", [None, 0])
def test_seen_must_have_every_group(count: int | None) -> None:
    seen: Seen = {(1, 0): 10} if count is None else {(1, 0): 10, (1, 1): count}
    with pytest.raises(DataError, match=r"no count for \[\(1, 1\)\]; give \{\(y, z\)"):
        find_groups(make_samples([1, 1], [0, 1]), None, by_attribute=True, seen=seen)


def test_attributes_must_be_there_and_agree() -> None:
    without, one, two = (make_samples([0, 1], z) for z in (None, [0, 1], [[0, 1], [1, 1]]))
    with pytest.raises(DataError, match="samples have no z"):
        find_groups(without, None, by_attribute=True)
    for memory, attributes in ((without, 0), (two, 2)):
        with pytest.raises(DataError, match=rf"1 attribute\(s\) and the memory {attributes}"):
            find_groups(one, memory, by_attribute=True)
