"""The device solver on tensors: a GPU where there is one, and the CPU, which runs the same code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from faircil.errors import SolverError
from faircil.weighting import WeightProgram
from faircil.weighting.choice import solve_on_device, stored_rows
from faircil.weighting.solver import exact
from faircil.weighting.solver.columns import DeviceColumns, HostColumns
from faircil.weighting.solver.exact import solve_exactly
from hard_programs import KINDS, hard_program

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
every_device = pytest.mark.parametrize("device", DEVICES)


@every_device
@pytest.mark.parametrize("measure", ["eer", "eo", "dp"])
def test_stored_rows_give_the_weights_of_the_host(
    measure: str, device: str, digit_program: Callable[..., WeightProgram]
) -> None:
    program = digit_program(measure)
    expected = solve_exactly(program)
    solution = solve_on_device(
        stored_rows(program, device), program.offsets, len(program.gap_offsets)
    )
    assert solution.status == expected.status
    assert np.allclose(solution.weights, expected.weights, atol=1e-9)
    assert solution.objective == pytest.approx(program.objective(solution.weights), abs=1e-12)
    assert solution.gap <= 1e-9


@every_device
@pytest.mark.parametrize("kind", KINDS)
def test_hard_programs(kind: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "SMALL", 30)
    monkeypatch.setattr(exact, "SAMPLE", 12)
    for seed in range(15):
        program = hard_program(np.random.default_rng(seed), kind, most=300)
        rows, gaps = stored_rows(program, device), len(program.gap_offsets)
        try:
            expected = solve_exactly(program).objective
        except SolverError:
            with pytest.raises(SolverError):
                solve_on_device(rows, program.offsets, gaps)
            continue
        solution = solve_on_device(rows, program.offsets, gaps)
        assert solution.objective == pytest.approx(expected, abs=1e-7 * (1 + abs(expected)))
        assert solution.weights.min() >= 0
        assert solution.weights.max() <= 1


@every_device
def test_passes_find_what_those_in_memory_find(device: str) -> None:
    rng = np.random.default_rng(3)
    program = hard_program(rng, "plain", most=400)
    prices = np.concatenate(
        [rng.uniform(-1, 1, len(program.gap_rows)), rng.uniform(0, 2, len(program.floor_rows))]
    )
    host = HostColumns(program.gap_rows, program.floor_rows, program.cost)
    other = DeviceColumns(stored_rows(program, device))
    for one, two in zip(host.fix(prices, 0.3), other.fix(prices, 0.3), strict=True):
        assert np.allclose(one, two)
    moved = -0.5 * prices
    one_check, two_check = host.check(moved), other.check(moved)
    assert len(one_check.wrong)
    for name, value in vars(one_check).items():
        assert np.allclose(value, getattr(two_check, name)), name
    index = np.arange(0, len(program), 3)
    assert np.array_equal(host.states(index), other.states(index))
    assert np.array_equal(host.take(index).rows, other.take(index).rows)
