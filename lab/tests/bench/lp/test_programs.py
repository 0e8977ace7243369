from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench_results import small_program
from faircil.errors import SolverError
from faircil.weighting import Solution, WeightProgram, solve
from faircil.weighting.solver import SOLVERS
from faircil_lab.bench.lp_programs import (
    ARRAYS,
    RECORDER,
    REFERENCE,
    all_cases,
    parse_sizes,
    read_programs,
    recorded_programs,
    recording,
    resized,
    usable_cases,
)
from oracles import naive_optimum


def write(path: Path, program: WeightProgram, **changes: object) -> Path:
    arrays = {name: getattr(program, name) for name in ARRAYS} | changes
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})  # type: ignore[arg-type]
    return path


def test_files_hold_what_was_saved(tmp_path: Path) -> None:
    program, mistakes = small_program(), []  # type: ignore[var-annotated]
    paths = [
        write(tmp_path / "one.npz", program, more=np.ones(3)),
        write(tmp_path / "b.npz", program),
    ]
    one, two = read_programs(paths, mistakes)
    assert mistakes == []
    assert [one.name, two.name] == ["one", "b"]
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one.program, name), getattr(program, name))


def test_files_of_one_name_are_told_apart(tmp_path: Path) -> None:
    paths = [write(tmp_path / folder / "a.npz", small_program()) for folder in ("x", "y")]
    assert [named.name for named in read_programs(paths, [])] == [str(path) for path in paths]


def test_all_mistakes_of_all_files_are_named(tmp_path: Path) -> None:
    program = small_program()
    text = tmp_path / "text.npz"
    text.write_text("no archive")
    paths = [
        tmp_path / "absent.npz",
        text,
        write(tmp_path / "part.npz", program, cost=None, floor_rows=None),
        write(tmp_path / "shape.npz", program, cost=np.ones(3), gap_offsets=np.array([np.nan])),
        write(tmp_path / "words.npz", program, cost=np.array(["a"])),
        write(tmp_path / "objects.npz", program, cost=np.array([{}])),
        write(
            tmp_path / "empty.npz",
            program,
            gap_rows=np.ones((3, 0)),
            cost=np.ones(0),
            floor_rows=np.ones((2, 0)),
        ),
    ]
    mistakes: list[str] = []
    assert read_programs(paths, mistakes) == []
    expected = [
        "absent.npz: there is no such file",
        "text.npz: this is not an .npz archive",
        "part.npz: arrays are missing: cost, floor_rows; a program has gap_rows",
        "shape.npz: gap_offsets has NaN or infinite entries",
        "shape.npz: gap_rows has shape (3, 40), expected (1, 3)",
        "shape.npz: floor_rows has shape (2, 40), expected (2, 3)",
        "words.npz: an array cannot be read as numbers",
        "objects.npz: an array cannot be read as numbers",
        "empty.npz: the program has no columns",
    ]
    assert len(mistakes) == len(expected)
    for mistake, words in zip(mistakes, expected, strict=True):
        assert words in mistake


def test_recorded_programs_are_those_of_a_run() -> None:
    (named,) = recorded_programs("toy", "eer", epochs=2)
    assert named.name == "toy eer, task 2"
    assert len(named.program) == 1000
    solution = solve(named.program, "highs")
    assert solution.objective == pytest.approx(naive_optimum(named.program), abs=1e-8)


def test_recorder_goes_also_after_an_error() -> None:
    def fail() -> None:
        with recording():
            assert RECORDER in SOLVERS
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert RECORDER not in SOLVERS


@pytest.mark.parametrize("n", [1, 7, 40, 500])
@pytest.mark.parametrize("m", [0, 2])
def test_resized_columns_are_noisy_copies_that_weigh_less(n: int, m: int) -> None:
    program = small_program(m=m)
    other = resized(program, n, seed=3)
    assert len(other) == n

    def columns(program: WeightProgram) -> np.ndarray:
        return np.vstack([program.gap_rows, program.floor_rows, program.cost]).T

    before, after = columns(program), columns(other) * n / len(program)
    for column in after:
        ratios = column / before
        nearest = np.abs(ratios - 1).max(axis=1).min()
        assert nearest < 0.15  # seven deviations of the noise
    np.testing.assert_array_equal(other.gap_offsets, program.gap_offsets)
    np.testing.assert_array_equal(other.floor_offsets, program.floor_offsets)
    np.testing.assert_array_equal(columns(resized(program, n, seed=3)), columns(other))


def test_a_larger_program_of_the_same_kind_has_about_the_same_optimum() -> None:
    program = replace(small_program(200), cost=np.zeros(200))
    larger = resized(program, 4000)
    optimum = solve(program, "highs").objective
    assert solve(larger, "highs").objective == pytest.approx(optimum, abs=0.2)


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


def test_units_order_and_repeats() -> None:
    mistakes: list[str] = []
    assert parse_sizes(["1M", "2000", "2k", "1"], mistakes) == (1, 2000, 1_000_000)
    assert mistakes == []


def test_all_mistakes_are_named() -> None:
    mistakes: list[str] = []
    assert parse_sizes(["0", "1G", "-3", "1.5", "101M", "a.npz", "7"], mistakes) == (7,)
    assert len(mistakes) == 6
    assert "'0' is not between 1 and 100,000,000 columns" in mistakes[0]
    assert "files come before --sizes" in mistakes[5]
