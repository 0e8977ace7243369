from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from faircil.errors import StorageError
from faircil_lab.paper.exhibit import Grid, Page, Picture, Section, Verdict
from faircil_lab.paper.render import as_markdown, index_markdown, write_page
from made_tables import TABLE

GRID = Grid(("method", "value"), (("a|b", "**.9**"), ("c", "–")))
PAGE = Page(
    "What came out.",
    (
        Section("First", "Words.", GRID, commands=("faircil run --dataset toy",)),
        Section(
            "Second", picture=Picture("a.png", "A picture.", lambda path: path.write_bytes(b"png"))
        ),
    ),
    (Verdict.SAME, Verdict.NOT_RUN),
    ("**This** against that.",),
)


def test_a_page_has_all_parts_in_order(tmp_path: Path):
    file = write_page(tmp_path / "deep" / "pages", "small", TABLE, PAGE)
    text = file.read_text("utf-8")
    parts = [
        "# A small table",
        f"In the paper: {TABLE.paper}.",
        "`faircil reproduce small`",
        "What came out.",
        "1 same, 1 not run",
        "- **This** against that.",
        "## First",
        "Words.",
        r"| a\|b | **.9** |",
        "<details><summary>Commands</summary>",
        "```\nfaircil run --dataset toy\n```",
        "## Second",
        "![A picture.](images/a.png)",
    ]
    positions = [text.index(part) for part in parts]
    assert positions == sorted(positions)
    assert (file.parent / "images" / "a.png").read_bytes() == b"png"


def test_the_same_page_gives_the_same_text_without_dates():
    text = as_markdown("small", TABLE, PAGE)
    assert text == as_markdown("small", TABLE, PAGE)
    assert not re.search(r"20\d\d-\d\d", text)
    assert "\n\n\n" not in text


def test_what_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot write .*small.md.*choose another folder"):
        write_page(tmp_path / "file", "small", TABLE, replace(PAGE, sections=()))
    with pytest.raises(StorageError, match=r"cannot write .*a.png"):
        write_page(tmp_path / "file", "small", TABLE, PAGE)


PAGES = {
    "one": Page(
        "Answer one.",
        (),
        (Verdict.SAME, Verdict.WORSE),
        ("**FSW against replay**: disparity is not significantly different on MNIST (EER).",),
        {"icarl": (Verdict.WORSE,), "fsw": (Verdict.SAME,)},
    ),
    "two": Page("Answer two.", (), (Verdict.NOT_RUN,), by_method={"icarl": (Verdict.NOT_RUN,)}),
}
TEXT = index_markdown({"one": TABLE, "two": TABLE}, PAGES)


def test_every_page_has_a_line_with_its_answer_counts_and_command():
    assert (
        f"| [A small table](one.md) | {TABLE.paper} | Answer one. | 1 same, 1 worse "
        "| `faircil reproduce one` |"
    ) in TEXT
    assert "| Answer two. | 1 not run | `faircil reproduce two` |" in TEXT


def test_it_says_what_the_reproduction_says_also_where_nothing_differs():
    assert "3 published values, 2 of them with a value of ours" in TEXT
    assert (
        "- **FSW against replay**: disparity is not significantly different on MNIST (EER)." in TEXT
    )


def test_it_names_the_published_rows_that_rest_on_defects_with_what_came_of_them():
    assert "- **iCaRL** (1 worse, 1 not run): The published code" in TEXT
    assert "- **GSS** (not shown): " in TEXT
    assert "**FSW** (" not in TEXT
