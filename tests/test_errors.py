from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import faircil
from faircil.cli import PARAMETER, flags_of, parse
from faircil.errors import (
    DataError,
    FaircilError,
    SolverError,
    UsageError,
    collecting,
    raise_all,
    unknown_name,
)
from faircil.learners import LEARNERS
from faircil.media import MEDIA
from faircil.runs.settings import settings_of


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


def test_an_error_with_several_mistakes_is_collected_as_its_sentences() -> None:
    with pytest.raises(UsageError) as caught:
        raise_all(["no seed", "no data\n- or what looks like a list"])
    found = ["before"]
    with collecting(found):
        raise pickle.loads(pickle.dumps(caught.value))
    with collecting(found):
        raise UsageError("after")
    assert found == ["before", "no seed", "no data\n- or what looks like a list", "after"]


def _library() -> Iterator[tuple[str, ast.Module]]:
    root = Path(faircil.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith("cli/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


# Modules whose strings are command lines, or parts of a page with commands and styles.
WRITES_COMMANDS = {"sweep/command.py", "data/fetch.py", "data/bios.py", "model/card.py"} | {
    f"report/{name}.py" for name in ("page", "sections", "sentences")
}


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings below a node that are no docstrings; an f-string with 0 for its values."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "0" for part in child.values
            )
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        else:
            yield from _texts(child)


def test_no_message_of_the_library_names_a_flag() -> None:
    flag, command = re.compile(r"(?<![\w-])--[a-z]"), re.compile(r"\b(pip install|faircil data) ")
    found = [
        f"{name}: {text}"
        for name, tree in _library()
        if name not in WRITES_COMMANDS
        for text in _texts(tree)
        if flag.search(text) and not command.search(text)
    ]
    assert found == []


# Parameters of functions that no command calls with values of the user.
PYTHON_ONLY = {"seen", "summary", "classes", "memory", "fit_dask", "ranks"}


def test_the_command_line_knows_every_parameter_that_a_message_names() -> None:
    commands = (["run"], ["tune"], ["audit", "table.csv"])
    flags = {name for words in commands for name in flags_of(parse(words).parser)}
    settings = {
        name for method in LEARNERS for medium in MEDIA for name in settings_of(method, medium)
    }
    named = {
        match[1]
        for _, tree in _library()
        for text in _texts(tree)
        for match in PARAMETER.finditer(text)
    }
    assert {"measure", "overrides", "device", "lr"} <= named
    assert named <= flags | settings | PYTHON_ONLY
