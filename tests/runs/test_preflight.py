"""What is said of data before training is what its counts say."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from faircil import Samples, Task, TaskStream, diagnose
from faircil.errors import DataError, UsageError
from faircil.runs.preflight import detectable_gap


def stream(readable: bool = False, few: int = 30) -> TaskStream:
    """Two tasks of a class each; in the second the attribute has one value."""
    draw = torch.Generator().manual_seed(0)

    def samples(label: int, rows: int) -> Samples:
        z = torch.arange(rows) % 2 if label == 0 else torch.zeros(rows, dtype=torch.int64)
        x = torch.randn(rows, 4, generator=draw)
        if readable:
            x[:, 0] += 6 * z
        return Samples(x, torch.full((rows,), label), z)

    tasks = (
        Task((0,), samples(0, 200), samples(0, few)),
        Task((1,), samples(1, 50), samples(1, 20)),
    )
    return TaskStream("made", tasks, ("a", "b"), "sex", ("F", "M"))


def test_counts_constants_and_absent_groups() -> None:
    found = diagnose(stream())
    assert [(one.label, one.value, one.train, one.test) for one in found.groups] == [
        ("a", "F", 100, 15),
        ("a", "M", 100, 15),
        ("b", "F", 50, 20),
        ("b", "M", 0, 0),
    ]
    assert [one.where for one in found.constant] == ["task 2", "class 'b'"]
    assert "nothing is learned: class 'b' with sex 'M'" in found.findings[0]
    assert found.groups[0].gap == pytest.approx(detectable_gap(15, 15))
    assert found.groups[2].gap is None


def test_attributes_that_samples_and_streams_do_not_share() -> None:
    part = Samples(torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([0, 1]))
    stream = TaskStream("some", (Task((0, 1), part, part),), ("a", "b"), None, ("f", "m"))
    with pytest.raises(DataError, match="give z to all samples and name the attribute"):
        diagnose(stream)


def test_small_groups_are_named() -> None:
    said = " ".join(diagnose(stream(few=10)).findings)
    assert "fewer than 10 test rows, too few to be judged: class 'a' with sex 'F' (n = 5)" in said


def test_an_attribute_is_read_from_inputs_that_hold_it_and_from_no_others() -> None:
    plain, held = diagnose(stream()).readability, diagnose(stream(readable=True)).readability
    assert plain is not None
    assert held is not None
    assert plain.low <= plain.majority
    assert held.low > held.by_class
    # Wilson's interval for 95 %: where the share of hits is at the limit of what chance allows.
    for one in (plain, held):
        for limit in (one.low, one.high):
            chance = 1.959964 * np.sqrt(limit * (1 - limit) / one.rows)
            assert abs(one.accuracy - limit) == pytest.approx(chance, abs=1e-6)


def test_buffers_that_are_too_small() -> None:
    said = " ".join(diagnose(stream(), buffer_size=2).findings)
    assert "keeps 2 rows of each group" in said
    assert "a replayed batch has 2 rows of 3 groups" in said


def test_the_smallest_gap_is_told_in_four_of_five_draws() -> None:
    n, draws = 400, 4000
    gap = detectable_gap(n, n)
    draw = np.random.default_rng(0)
    first, second = (draw.binomial(n, 0.5 + sign * gap / 2, draws) / n for sign in (-1, 1))
    mean = (first + second) / 2
    told = np.abs(second - first) > 1.959964 * np.sqrt(mean * (1 - mean) * 2 / n)
    # Four standard errors of a share of .8 over the draws are .025; the accuracies differ from one
    # half by .05, which changes their variance by one percent and the power by less than .005.
    assert told.mean() == pytest.approx(0.8, abs=0.03)


def test_a_table_that_is_none_and_roles_that_are_none_are_told_at_once() -> None:
    with pytest.raises(UsageError) as error:
        diagnose("digitz", sensitiv="sex")
    assert len(error.value.args) == 2
    assert "did you mean 'sensitive'" in str(error.value)
    with pytest.raises(UsageError, match="for a table"):
        diagnose(stream(), label="job")
