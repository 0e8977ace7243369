from __future__ import annotations

import pytest

from faircil.errors import DataError, FaircilError, SolverError, UsageError, raise_all, unknown_name


def test_no_mistake_is_no_error() -> None:
    raise_all([])


def test_one_mistake_is_the_message() -> None:
    with pytest.raises(UsageError) as caught:
        raise_all(["lam is -1"])
    assert str(caught.value) == "lam is -1"


def test_several_mistakes_are_a_list() -> None:
    with pytest.raises(DataError) as caught:
        raise_all(["lam is -1", "alpha is 0"], DataError)
    assert str(caught.value) == "- lam is -1\n- alpha is 0"


@pytest.mark.parametrize("error", [UsageError, DataError, SolverError])
def test_all_errors_are_of_one_family(error: type[FaircilError]) -> None:
    with pytest.raises(FaircilError):
        raise error("")


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    assert unknown_name("solver", "higs", ["exact", "highs"]) == (
        "unknown solver 'higs': did you mean 'highs'? Known: exact, highs"
    )
    assert unknown_name("solver", "xyz", ["exact"]) == "unknown solver 'xyz': Known: exact"


def test_many_known_names_are_cut_short() -> None:
    message = unknown_name("column", "c", [f"name{i:02}" for i in range(35)])
    assert "name29 and 5 more" in message
    assert "name30" not in message
