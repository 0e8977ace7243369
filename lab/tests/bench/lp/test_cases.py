from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench_results import small_program
from faircil.errors import SolverError
from faircil.weighting import Solution, WeightProgram
from faircil.weighting.solver import SOLVERS
from faircil_lab.bench.lp_programs import REFERENCE, all_cases, usable_cases


def absent(program: WeightProgram) -> Solution:
    raise SolverError("install it first")


@pytest.fixture
def one_is_absent() -> Iterator[None]:
    with SOLVERS.temporarily("absent", absent):
        yield


def test_every_solver_is_a_case_and_the_reference_is_one() -> None:
    assert set(all_cases()) == set(SOLVERS)
    assert REFERENCE in SOLVERS
    case = all_cases()[REFERENCE]
    assert case.solve(case.prepare(small_program())).status.startswith("optimal")


@pytest.mark.usefixtures("one_is_absent")
def test_what_is_not_installed_is_left_out_with_its_reason() -> None:
    mistakes: list[str] = []
    cases, notes = usable_cases(None, mistakes)
    assert mistakes == []
    assert {"exact", REFERENCE} <= {case.name for case in cases} <= set(SOLVERS) - {"absent"}
    assert "solver 'absent' cannot be used here: install it first" in notes


@pytest.mark.usefixtures("one_is_absent")
def test_what_is_named_must_be_there() -> None:
    mistakes: list[str] = []
    cases, notes = usable_cases(["highs", "absent", "higs", "highs"], mistakes)
    assert [case.name for case in cases] == ["highs"]
    assert notes == []
    unknown, unusable = mistakes
    assert "unknown solver 'higs': did you mean 'highs'?" in unknown
    assert "install it first" in unusable
