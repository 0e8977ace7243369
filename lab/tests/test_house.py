"""The counts of the house hold; `python lab/house.py` also traces the walk of a run."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from scripts import script_module

FILE = Path(__file__).parent.parent / "house.py"


@pytest.fixture(scope="module")
def house() -> ModuleType:
    return script_module(FILE)


def test_product_and_laboratory_are_small_enough(house: ModuleType) -> None:
    assert house.counts_of("faircil").files <= house.MOST_PRODUCT
    assert house.counts_of("faircil_lab").files <= house.MOST_LABORATORY


def test_the_laboratory_imports_itself_little_and_no_name_recurs(house: ModuleType) -> None:
    counts = house.counts_of("faircil_lab")
    assert counts.imports <= house.MOST_IMPORTS
    assert counts.recurring == ()


def test_the_product_imports_itself_little_and_few_names_recur(house: ModuleType) -> None:
    counts = house.counts_of("faircil")
    assert counts.imports <= house.MOST_IMPORTS
    assert counts.recurring == house.RECURRING


def test_the_picture_has_the_layers_that_are_enforced(house: ModuleType) -> None:
    picture = (house.ROOT / "docs/images/house.svg").read_text("utf-8")
    again = "draw it again: python lab/house.py --quick --picture"
    assert f"<dc:description>{house.described()}</dc:description>" in picture, again


def test_what_is_counted(house: ModuleType, tmp_path: Path) -> None:
    files = {
        "a.py": "from faircil import b\nimport faircil.c, os\nimport faircilx\n",
        "b.py": "def f():\n    from faircil.part.c import g, h\n",
        "c.py": "",
        "part/__init__.py": "from . import c\n",
        "part/c.py": "from ..b import f\n",
    }
    for name, text in files.items():
        path = tmp_path / "faircil" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    counts = house.counts_of("faircil", tmp_path)
    assert counts.files == 5
    assert counts.lines[2] == 3
    assert counts.imports == pytest.approx(1000 * 5 / 7)
    assert counts.recurring == ("c",)
    # c is imported by a; part.c by b and by its package; b by a and part.c.
    assert counts.imported_once == 1


def test_the_table_has_the_targets_beside_the_counts(house: ModuleType) -> None:
    walked = house.walk_of(["a", "b", "a"])
    text = house.show(house.table(walked))
    assert f"<= {house.MOST_PRODUCT}, <= {house.MOST_LABORATORY}" in text
    assert "walk: files" in text


def test_the_made_table_is_one_that_a_run_takes(house: ModuleType, tmp_path: Path) -> None:
    house.write_people(tmp_path / "people.csv", rows=3)
    lines = (tmp_path / "people.csv").read_text().splitlines()
    assert lines[0] == "age,hours,sex,job"
    assert len(lines) == 4
