from __future__ import annotations

from faircil_lab.bench.lp_programs import parse_sizes


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
