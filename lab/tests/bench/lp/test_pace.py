from __future__ import annotations

import pytest

from faircil_lab.bench.lp import ASSUMED, Pace


def paced(*known: tuple[int, float], limit: float = 10.0) -> Pace:
    pace = Pace(limit)
    for n, seconds in known:
        pace.note("a", n, seconds)
    return pace


def test_nothing_known_means_go() -> None:
    assert paced().too_slow("a", 10**8) is None
    assert paced((10, 100.0)).too_slow("b", 10**8) is None


def test_one_size_is_taken_to_grow_like_the_simplex_method() -> None:
    pace = paced((1000, 0.1))
    assert pace.too_slow("a", 10_000) is None
    reason = pace.too_slow("a", 100_000)
    assert reason is not None
    assert f"from 100 ms at n = 1,000 and growth n^{ASSUMED:.2f} (assumed)" in reason
    assert "more than the limit of 10 s" in reason


def test_growth_is_that_between_the_two_largest_sizes() -> None:
    pace = paced((10, 5.0), (1000, 0.01), (2000, 0.04))
    reason = pace.too_slow("a", 200_000)
    assert reason is not None
    assert "predicted 400 s" in reason
    assert reason.endswith("growth n^2.00")


def test_no_solver_is_taken_to_grow_slower_than_its_input() -> None:
    assert paced((1000, 0.5), (2000, 0.5)).too_slow("a", 40_000) is None
    assert paced((1000, 0.5), (2000, 0.5)).too_slow("a", 50_000) is not None


@pytest.mark.parametrize("seconds", [(1.0, 9.0), (9.0, 1.0)])
def test_slowest_program_counts(seconds: tuple[float, float]) -> None:
    pace = paced(*((1000, value) for value in seconds))
    assert pace.too_slow("a", 1200) is not None
