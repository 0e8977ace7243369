from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import faircil
from faircil.cli import FLAGS
from faircil.errors import (
    DataError,
    FaircilError,
    Mistake,
    SolverError,
    UsageError,
    collecting,
    raise_all,
    unknown_name,
)


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


def test_mistakes_keep_the_arguments_that_they_are_about() -> None:
    found = [Mistake("no seed", "seeds"), "a plain sentence", Mistake("no data", "own", "seeds")]
    with pytest.raises(UsageError) as caught:
        raise_all(found)
    assert caught.value.arguments == ("seeds", "own")
    again: list[str] = ["before"]
    with collecting(again):
        raise pickle.loads(pickle.dumps(caught.value))
    assert again == ["before", *found]
    with pytest.raises(UsageError) as twice:
        raise_all(again)
    assert twice.value.arguments == ("seeds", "own")


def _library() -> Iterator[tuple[str, ast.Module]]:
    root = Path(faircil.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith("cli/"):
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def test_the_command_line_has_a_flag_for_every_argument_that_an_error_names() -> None:
    named = set()
    for _, tree in _library():
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if isinstance(call.func, ast.Name) and call.func.id == "Mistake":
                named |= {arg.value for arg in call.args[1:] if isinstance(arg, ast.Constant)}
            for keyword in call.keywords:
                if keyword.arg == "arguments" and isinstance(keyword.value, ast.Tuple):
                    named |= {
                        item.value for item in keyword.value.elts if isinstance(item, ast.Constant)
                    }
    assert {"measure", "overrides", "device"} <= named
    assert named <= FLAGS.keys()


# Modules whose strings are command lines, and those whose messages still name flags.
WRITES_COMMANDS = {"sweep/command.py", "data/fetch.py", "data/bios.py"}
NOT_YET = {"results/folder.py", "results/reuse.py", "sweep/pool.py"}


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings below a node that are no docstrings; of an f-string, its fixed parts."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        if isinstance(child, ast.JoinedStr):
            yield "".join(
                str(part.value) for part in child.values if isinstance(part, ast.Constant)
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
        if name not in WRITES_COMMANDS | NOT_YET
        for text in _texts(tree)
        if flag.search(text) and not command.search(text)
    ]
    assert found == []
