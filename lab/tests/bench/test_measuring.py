from __future__ import annotations

from pathlib import Path

import pytest

from bench_results import ENVIRONMENT
from faircil_lab.bench import measuring
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


@pytest.mark.parametrize(
    ("content", "name"), [("model name\t: Fast 9000\n", "Fast 9000"), ("other\n", "x86")]
)
def test_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, name: str
) -> None:
    (tmp_path / "cpuinfo").write_text(content)
    monkeypatch.setattr(measuring, "CPU_INFO", tmp_path / "cpuinfo")
    assert measuring.described(ENVIRONMENT).startswith(f"{name}, ")


def test_gpu_is_named_and_a_system_without_cpuinfo_is_fine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measuring, "CPU_INFO", tmp_path / "absent")
    text = measuring.described(ENVIRONMENT | {"gpu": "H200"})
    assert text.startswith("x86, ")
    assert text.endswith("H200; Python 3.11, numpy 2, highspy 1, torch 3")


@pytest.mark.parametrize(("load", "notes"), [(0.1, 0), (100.0, 1)])
def test_busy_machine_is_noted(monkeypatch: pytest.MonkeyPatch, load: float, notes: int) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    found = measuring.busy()
    assert len(found) == notes
    assert all("load 100.0 on 2 cores" in note for note in found)
