from __future__ import annotations

from faircil.files import applies, shipped_rows


def test_a_row_applies_where_all_of_its_keys_match() -> None:
    key = {"dataset": "mnist", "method": "er", "texts": None}
    assert applies({"set": {"lr": 1}}, key)
    assert applies({"dataset": ["drug", "mnist"], "method": ["er"]}, key)
    assert not applies({"dataset": ["mnist"], "method": ["fsw"]}, key)
    assert not applies({"texts": ["frozen"]}, key)


def test_numbers_are_read_as_asked_for() -> None:
    rows = shipped_rows("faircil.tuning", "grids.toml", str)
    assert rows[0]["try"]["lr"] == ["0.001", "0.01", "0.1"]
    assert shipped_rows("faircil.tuning", "grids.toml")[0]["try"]["lr"] == [0.001, 0.01, 0.1]
    assert shipped_rows("faircil.tuning", "grids.toml", str) is rows
