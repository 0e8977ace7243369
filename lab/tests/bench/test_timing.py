from __future__ import annotations

import pytest

from faircil_lab.bench.measuring import Growth, exponent, medians, seconds_of


def test_functions_take_turns_after_one_warm_up() -> None:
    calls: list[str] = []
    functions = {name: (lambda name=name: calls.append(name)) for name in "ab"}
    found = medians(functions, repeats=3)
    assert calls == ["a", "b"] * 4
    assert set(found) == {"a", "b"}
    assert all(seconds >= 0 for seconds in found.values())


def test_median_leaves_the_warm_up_out(monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter([100.0, 1.0, 3.0, 2.0])
    monkeypatch.setattr("faircil_lab.bench.measuring.seconds_of", lambda _: next(took))
    assert medians({"a": lambda: None}, repeats=3) == {"a": 2.0}


def test_seconds_are_of_the_call() -> None:
    assert seconds_of(lambda: None) >= 0


@pytest.mark.parametrize("power", [0.5, 1.0, 1.642])
def test_exponent_of_a_power_is_the_power(power: float) -> None:
    growth = Growth(1000, 0.5, power)
    sizes = [1000, 5000, 100_000]
    assert exponent(sizes, [growth.at(n) for n in sizes]) == pytest.approx(power)


def test_one_size_has_no_exponent() -> None:
    assert exponent([10, 10], [1.0, 2.0]) is None
