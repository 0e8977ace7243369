"""The hash of code follows what can change a result, and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module, reload
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import numpy as np
import pytest

from faircil.results import code
from faircil.results.code import digest_code

FILES = {
    "__init__.py": "",
    "loop.py": "from shop.table import LEARNERS, Learner\nimport shop.helpers\nimport numpy\n",
    "helpers.py": "from . import deep\n\n\ndef help_out(x):\n    return x + 1\n",
    "deep.py": "VALUE = 1\n",
    "table.py": (
        "from shop.base import Learner as Learner\nfrom shop.one import One\n"
        "from shop.two import Two\n"
        "LEARNERS: dict[str, type[Learner]] = {'one': One, 'two': Two}\n"
    ),
    "base.py": "class Learner:\n    pass\n",
    "one.py": "from shop.base import Learner\n\n\nclass One(Learner):\n    rate = 1\n",
    "two.py": "from shop.one import One\n\n\nclass Two(One):\n    rate = 2\n",
    "shown.py": "import shop.loop\n",
    "lazy.py": (
        "HERE, THERE = 'shop', 'else'\n"
        "PIECES = {'two': f'{HERE}.two:Two', 'else': THERE, 'shown': lambda x: x + 1}\n"
    ),
}


@dataclass(frozen=True)
class Shop:
    """A package whose files can be edited."""

    folder: Path

    def edit(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def append(self, name: str, text: str) -> None:
        self.edit(name, (self.folder / name).read_text() + text)

    def piece(self, name: str) -> object:
        return getattr(import_module(f"shop.{name.lower()}"), name)

    def digest(self, piece: str = "One") -> str:
        code._known.clear()  # as in another process
        return digest_code(["shop.loop"], [self.piece(piece)], ["shop.table:LEARNERS"])


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    folder = tmp_path / "shop"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield Shop(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("shop", "beside")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", ["loop.py", "helpers.py", "deep.py", "base.py", "one.py"])
def test_code_that_is_reached_counts(shop: Shop, name: str) -> None:
    before = shop.digest()
    shop.append(name, "\nNEW = 1\n")
    assert shop.digest() != before


def test_functions_in_a_table_count_and_its_other_rows_do_not(shop: Shop) -> None:
    def digest() -> str:
        code._known.clear()
        return digest_code(["shop.lazy"], [], ["shop.lazy:PIECES"])

    before = digest()
    shop.append("two.py", "\nNEW = 1\n")
    shop.edit("lazy.py", FILES["lazy.py"].replace("'two'", "'three'").replace("else", "other"))
    assert digest() == before
    shop.edit("lazy.py", FILES["lazy.py"].replace("x + 1", "x + 22"))
    assert digest() != before


@pytest.mark.parametrize("name", ["two.py", "shown.py", "lazy.py"])
def test_code_that_is_not_reached_does_not(shop: Shop, name: str) -> None:
    before = shop.digest()
    shop.append(name, "\nNEW = 1\n")
    assert shop.digest() == before


def test_a_learner_counts_for_those_that_are_built_on_it(shop: Shop) -> None:
    one, two = shop.digest("One"), shop.digest("Two")
    assert one != two
    shop.append("one.py", "\nNEW = 1\n")
    assert (shop.digest("One") != one, shop.digest("Two") != two) == (True, True)
    one, two = shop.digest("One"), shop.digest("Two")
    shop.append("two.py", "\nNEW = 1\n")
    assert (shop.digest("One") == one, shop.digest("Two") != two) == (True, True)


def test_a_new_row_of_a_table_changes_no_other(shop: Shop) -> None:
    before = shop.digest()
    shop.edit("three.py", "class Three:\n    pass\n")
    text = FILES["table.py"].replace("'two': Two", "'two': Two, 'three': Three")
    shop.edit("table.py", f"from shop.three import Three\n{text}")
    assert shop.digest() == before
    shop.append("table.py", "\nNEW = 1\n")
    assert shop.digest() != before


@pytest.mark.parametrize(
    "text",
    [
        '"""What it is."""\nfrom shop.base import Learner\n\nclass One(Learner):\n    rate = 1\n',
        "from shop.base import (\n    Learner,\n)\nclass One(Learner):  # new\n    rate  =  1\n",
        'from shop.base import Learner\nclass One(Learner):\n    rate = 1\n    """steps"""\n',
        "from shop.base import Learner\nif TYPE_CHECKING:\n    from shop.two import Two\n"
        "class One(Learner):\n    rate = 1\n",
    ],
)
def test_comments_docstrings_and_formatting_do_not_count(shop: Shop, text: str) -> None:
    before = shop.digest()
    shop.edit("one.py", text)
    assert shop.digest() == before
    shop.edit("one.py", text.replace("1", "22"))
    assert shop.digest() != before


def test_what_a_table_passes_on_counts(shop: Shop) -> None:
    def digest() -> str:
        code._known.clear()
        return digest_code(["shop.loop"], [], ["shop.table:LEARNERS"])

    before = digest()
    shop.append("one.py", "\nNEW = 1\n")
    assert digest() == before
    shop.append("base.py", "\nNEW = 1\n")
    assert digest() != before


def test_references_in_strings_are_followed(shop: Shop) -> None:
    def digest() -> str:
        code._known.clear()
        return digest_code(["shop.lazy"])

    before = digest()
    shop.append("two.py", "\nNEW = 1\n")
    assert digest() != before


def test_imports_inside_of_functions_and_relative_ones_are_followed(shop: Shop) -> None:
    shop.append("helpers.py", "\ndef late():\n    from .two import Two\n    return Two\n")
    before = shop.digest()
    shop.append("two.py", "\nNEW = 1\n")
    assert shop.digest() != before


def test_modules_beside_a_plug_in_count_unless_libraries_are_there_too(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = shop.folder.parent / "beside.py"
    beside.write_text("VALUE = 1\n")
    shop.append("one.py", "\nimport beside\n")
    before = shop.digest()
    beside.write_text("VALUE = 22\n")
    assert shop.digest() != before
    monkeypatch.setattr(code, "INSTALLED", {shop.folder.parent})
    code._parse.cache_clear()
    before = shop.digest()
    beside.write_text("VALUE = 333\n")
    assert shop.digest() == before
    shop.append("one.py", "\nNEW = 1\n")
    assert shop.digest() != before


def test_a_module_that_is_loaded_again_is_read_again(shop: Shop) -> None:
    def digest() -> str:
        return digest_code(["shop.loop"], [shop.piece("One")])

    before = digest()
    shop.append("one.py", "\nNEW = 1\n")
    assert digest() == before  # the code that this process runs is still the old one
    reload(sys.modules["shop.one"])
    assert digest() != before


@dataclass(frozen=True)
class Row:
    function: Callable[..., object]
    size: int = 1
    summary: str = ""


def double(x: float) -> float:
    return 2 * x


def scaled(factor: float) -> Callable[[float], float]:
    return lambda x: factor * x


class Rule:
    def __init__(self, weights: object) -> None:
        self.weights = weights

    def __call__(self, x: float) -> float:
        return x


SAME = [
    (Row(double), Row(double, summary="for people")),
    (scaled(2), scaled(2)),
    (partial(double, 1), partial(double, 1)),
    (Rule(np.arange(3)), Rule(np.arange(3))),
    (Rule({"b": 1, "a": 2}), Rule({"a": 2, "b": 1})),
]
OTHER = [
    (Row(double), Row(double, size=2)),
    (Row(double), Row(scaled(2))),
    (double, scaled),
    (scaled(2), scaled(3)),
    (partial(double, 1), partial(double, 2)),
    (Rule(np.arange(3)), Rule(np.arange(4))),
    (Rule((1, 2)).__call__, Rule((1, 3)).__call__),
    (np.add, np.subtract),
    (len, min),
]


def test_what_a_piece_is_made_of_counts() -> None:
    for one, other in SAME:
        assert digest_code([], [one]) == digest_code([], [other]), one
    for one, other in OTHER:
        assert digest_code([], [one]) != digest_code([], [other]), one


def typed_in(text: str, name: str = "__main__") -> dict[str, object]:
    """Run code as a script or notebook does: its functions belong to no file that can be read."""
    cell: dict[str, object] = {"__name__": name}
    exec(compile(dedent(text), "<cell>", "exec"), cell)
    return cell


CELL = """
    RATE = 1.0
    def helper(x):
        return x + 1
    class Mine:
        def step(self, x):
            return RATE * helper(x)
    def measure(groups, power=2):
        return helper(groups) ** power
"""


@pytest.mark.parametrize("piece", ["Mine", "measure"])
def test_a_piece_of_a_notebook_counts_with_what_it_refers_to(piece: str) -> None:
    def digest(text: str, name: str = "__main__") -> str:
        return digest_code([], [typed_in(text, name)[piece]])

    assert digest(CELL) == digest(CELL)
    assert digest(CELL) == digest(CELL, "__mp_main__")
    assert digest(CELL.replace("x + 1", "x + 2")) != digest(CELL)
    changed = "RATE = 2.0" if piece == "Mine" else "power=3"
    assert digest(CELL.replace("RATE = 1.0", changed).replace("power=2", changed)) != digest(CELL)


def test_a_helper_that_is_defined_again_counts_at_once() -> None:
    cell = typed_in(CELL)
    before = digest_code([], [cell["measure"]])
    cell["helper"] = typed_in(CELL.replace("x + 1", "x + 2"))["helper"]
    assert digest_code([], [cell["measure"]]) != before


def test_source_of_a_script_counts_without_its_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import linecache

    def digest(text: str) -> str:
        linecache.cache["<script>"] = (len(text), None, text.splitlines(keepends=True), "<script>")
        cell: dict[str, object] = {"__name__": "__main__"}
        exec(compile(text, "<script>", "exec"), cell)
        return digest_code([], [cell["measure"]])

    before = digest("def measure(x):\n    return x + 1\n")
    assert digest("# new\ndef measure(x):\n    '''It.'''\n    return (x + 1)\n") == before
    assert digest("def measure(x):\n    return x + 2\n") != before


def test_a_module_without_a_file_is_no_error() -> None:
    assert digest_code([], [ModuleType("nowhere")]) != digest_code([])
