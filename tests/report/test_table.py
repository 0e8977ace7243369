from __future__ import annotations

import pytest

from faircil.errors import DataError
from faircil.moments import Price
from faircil.report import Cell, Table, as_markdown, format_value, legend
from faircil.report.table import group_name, price_note
from faircil.results.record import Names

PROVEN, OPEN, PLAIN = Cell(".9", best=True), Cell(".8", among_best=True), Cell(".7")
TEST = "(paired t-test over at least 3 common seeds, Holm, 5 %)"
AMONG = "°: the best mean and the next ones, down to the first that is significantly worse"


def table(*cells: Cell, ranked: bool = True) -> Table:
    return Table("numbers", ("method", "accuracy"), tuple((Cell("er"), c) for c in cells), ranked)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, ".000"), (1.0, "1.000"), (0.9996, "1.000"), (-0.0001, ".000"), (-1.25, "−1.250")],
)
def test_format(value: float, text: str) -> None:
    assert format_value(value) == text


def test_markdown_marks_values_and_keeps_bars_apart() -> None:
    bars = Table("numbers", ("method",), ((Cell("fsw tasks=x|y"),),))
    assert as_markdown(table(PROVEN, OPEN, PLAIN)).splitlines() == [
        "| method | accuracy |", "|---|---|", "| er | **.9** |", "| er | .8 ° |", "| er | .7 |",
    ]  # fmt: skip
    assert as_markdown(bars).splitlines()[2] == r"| fsw tasks=x\|y |"


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([PROVEN, PLAIN], f"bold: significantly better than all others {TEST}"),
        ([OPEN, PLAIN], f"{AMONG} {TEST}"),
        (
            [PROVEN, OPEN],
            f"bold: significantly better than all others; {AMONG} {TEST}",
        ),
        (
            [PLAIN, PLAIN],
            "nothing is marked: methods are tested only over 3 or more common seeds",
        ),
    ],
)
def test_legend_explains_the_marks_that_are_there(cells: list[Cell], text: str) -> None:
    assert legend(table(*cells)) == text


def test_legend_names_the_mark_of_the_best() -> None:
    assert legend(table(PROVEN), best="*").startswith("*: significantly better than all others")


def test_table_that_ranks_nothing_has_no_legend() -> None:
    assert legend(table(PLAIN, ranked=False)) == ""


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        (
            Price(False, 0.21, 0.012, 0.006, 0.25, 0.214, 0.008),
            "disparity of losses .012 at mean loss .210; evening out further, with lam=0.25, would "
            "leave .008 and change the mean loss to .214",
        ),
        (
            Price(False, 0.21, 0.012, 0.0, 0.25, 0.21, 0.012),
            "disparity of losses .012 at mean loss .210: within its standard errors, so it is not "
            "evened out further",
        ),
        (
            Price(True, 0.21, 0.4, 0.39, 0.25, 0.21, 0.4),
            "largest loss of a group .400 at mean loss .210: a smaller lam does not make it "
            "smaller",
        ),
    ],
)
def test_what_more_evenness_costs_is_said_in_words(price: Price, expected: str) -> None:
    assert price_note(price) == expected


def test_names_from_data_are_plain_text_in_markdown() -> None:
    hostile = "<script>|[x](javascript:y)\\\n# no heading\x1b[31m"
    text = as_markdown(Table("t", (hostile,), ((Cell(hostile),), (Cell(hostile, best=True),))))
    shown = "&lt;script>\\|\\[x\\](javascript:y)\\\\ # no heading\ufffd\\[31m"
    assert text == f"| {shown} |\n|---|\n| {shown} |\n| **{shown}** |\n"


def test_groups_beyond_the_names_of_a_run_are_refused() -> None:
    names = Names(("a", "b"), attribute_values=("f", "m"))
    assert group_name(1, (0,), names) == "b, f"
    with pytest.raises(DataError, match=r"names 2 classes and 2 .* numbers 1, 7: its files were"):
        group_name(1, (7,), names)
