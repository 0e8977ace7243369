from __future__ import annotations

from faircil_lab.paper.exhibit import Page, Verdict
from faircil_lab.paper.render import index_markdown
from made_tables import TABLE

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
    assert "3 published values, 2 of them with one of ours beside it" in TEXT
    assert (
        "- **FSW against replay**: disparity is not significantly different on MNIST (EER)." in TEXT
    )


def test_it_names_the_published_rows_that_rest_on_defects_with_what_came_of_them():
    assert "- **iCaRL** (1 worse, 1 not run): The published code" in TEXT
    assert "- **GSS** (not shown): " in TEXT
    assert "**FSW** (" not in TEXT
