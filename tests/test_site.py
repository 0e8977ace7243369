"""The site has every page, and what it is made of holds; `make site` builds it and checks it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import faircil
from build_site import FENCE, LINK, shown, unbroken, wrapped, write_sources
from check_site import faults_of
from executed import check_shown, code_blocks, find_lines, module_of, renewed
from faircil.cli import all_commands
from gallery import EXAMPLES, PAGES as GALLERY, page_of, read_example
from navigation import DOCS, INDEX, listed, read_sections


def test_every_page_is_in_the_navigation() -> None:
    missing = sorted(set(DOCS.rglob("*.md")) - set(listed()) - {INDEX})
    lines = "\n".join(f"- [Title]({page.relative_to(DOCS)}): what it is about" for page in missing)
    assert not missing, f"add to a section of docs/README.md, which is the navigation:\n{lines}"


def test_no_page_is_in_the_navigation_twice_or_absent() -> None:
    pages = listed()
    assert sorted(set(pages)) == sorted(pages)
    assert [page for page in pages if not page.is_file()] == []


def test_sections_have_pages_below_pages(tmp_path: Path) -> None:
    index = tmp_path / "README.md"
    index.write_text(
        "# Home\n- [Not in a section](no.md)\n## [One](one.md)\n- [A](a.md): first\n"
        "  - [B](b/c.md)\n- [D](d.md)\n- no link\n## Two\n- [Up](../E.md): last, see [A](a.md)\n"
    )
    one, two = read_sections(index)
    assert (one.title, one.path) == ("One", tmp_path / "one.md")
    assert [(page.title, page.summary) for page in one.pages] == [("A", "first"), ("D", "")]
    assert [page.path for page in one.pages[0].pages] == [tmp_path / "b/c.md"]
    assert (two.title, two.path) == ("Two", None)
    assert [page.path for page in two.pages] == [tmp_path.parent / "E.md"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    write_sources(folder)
    return folder


def test_every_public_name_and_every_command_has_a_page(sources: Path) -> None:
    names = {path.stem for path in (sources / "pages/api").iterdir()}
    assert names == set(faircil._PUBLIC)
    index = (sources / "pages/api.md").read_text("utf-8")
    missing = [name for name in names if f"| [`{name}`](api/{name}.md) |" not in index]
    assert missing == [], "add a row for each to a table of docs/api.md"
    commands = {path.stem for path in (sources / "pages/commands").iterdir()}
    assert commands == set(all_commands())
    listed = (sources / "pages/command-line.md").read_text("utf-8").partition("\n## ")[0]
    missing = [name for name in commands if f"`](commands/{name}.md)" not in listed]
    assert missing == [], "add each to the table of docs/command-line.md"
    assert "--holdout" in (sources / "pages/commands/fit.md").read_text("utf-8")
    assert "## data fetch" in (sources / "pages/commands/data.md").read_text("utf-8")


def test_the_search_knows_every_page_and_ranks_every_section(sources: Path) -> None:
    script = (sources / "search.js").read_text("utf-8")
    found = json.loads(script.partition("const PAGES = ")[2].partition(";\n")[0])
    pages = {page.relative_to(sources / "pages") for page in (sources / "pages").rglob("*.md")}
    assert set(found) == {page.with_suffix("").as_posix() for page in pages} - {"index"}
    assert found["metrics"][0] == found["api/audit"][0] == "Reference"
    assert "equalized odds" in found["metrics"][1]
    assert found["commands/forget"][1].startswith("remove rows from a model")
    assert [text for _, text in found.values() if "`" in text and ":" in text] == []
    ranked = set(re.findall(r"\b([A-Z][a-z ]+)\"?: -?\d", script.partition("BONUS")[2]))
    assert ranked == {section for section, _ in found.values()}


def test_links_of_the_sources_stay_inside(sources: Path) -> None:
    targets = [
        (page, match[2])
        for page in (sources / "pages").rglob("*.md")
        for match in LINK.finditer(FENCE.sub("", page.read_text("utf-8")))
    ]
    inside = [(page, target) for page, target in targets if target and ":" not in target]
    assert len(inside) > 300
    for page, target in inside:
        assert (page.parent / target).resolve().is_relative_to(sources), f"{page}: {target}"
        assert (page.parent / target).is_file(), f"{page.relative_to(sources)} links to {target}"
    home = (sources / "pages/index.md").read_text("utf-8")
    assert "(CONTRIBUTING.md)" in home  # ../CONTRIBUTING.md, in the repository
    assert (sources / "files/reports/biased-digits.html").is_file()
    assert '<a href="reports/biased-digits.html">' in (sources / "pages/start.md").read_text()


def test_lines_that_begin_with_a_percent_sign_are_shown(sources: Path) -> None:
    assert shown("7\n% of\n  % it, 5 %") == "7\n\\% of\n  \\% it, 5 %"
    for page in (sources / "pages").rglob("*.md"):
        hidden = re.findall(r"^\s*%.*", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
        assert hidden == [], page.name


def test_intervals_in_tables_are_not_broken() -> None:
    table = "| a | .93 (−.01 … .94) |\n| b | 1 / 2 / 1 |\n| c | .5 ± .1 |"
    spaces = unbroken(table).count("\xa0")
    assert spaces == 2 + 4 + 2
    assert unbroken("from .1 … .2 or 1 / 2") == "from .1 … .2 or 1 / 2"  # sentences break


def test_long_sentences_of_output_are_wrapped_and_tables_are_not() -> None:
    table, sentence = "│" + " a" * 60, "word " * 30
    block = f"```text\n{table}\n{sentence}\n```"
    lines = wrapped(block).splitlines()
    assert lines[1] == table
    assert len(lines) == 5
    assert all(len(line) <= 84 for line in lines[2:])
    assert " ".join(" ".join(lines[2:4]).split()) == sentence.strip()
    code = block.replace("text", "python")
    assert wrapped(code) == code


GOOD = (
    '<h1 id="top">A</h1><a href="b.html#there">b</a><a href="https://elsewhere">c</a>'
    '<img src="i.png">'
)


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ('<a href="none.html">', "links to none.html: there is no such file"),
        (
            '<a href="b.html#nowhere">',
            "links to b.html#nowhere: there is no 'nowhere' on that page",
        ),
        ('<a href="#nowhere">', "links to #nowhere: there is no 'nowhere' on that page"),
        ('<img src="none.png">', "links to none.png: there is no such file"),
        ('<script src="https://cdn/x.js">', "fetches https://cdn/x.js from elsewhere"),
        ('<link rel="stylesheet" href="//fonts/x">', "fetches //fonts/x from elsewhere"),
        ('<img srcset="i.png 1x, http://x/i.png 2x">', "fetches http://x/i.png from elsewhere"),
        ("<style>p { src: url('https://x/f') }</style>", "fetches https://x/f from elsewhere"),
        ('<p style="background: url(//x/y)">', "fetches //x/y from elsewhere"),
    ],
)
def test_faults_of_built_pages_are_found(tmp_path: Path, page: str, fault: str) -> None:
    (tmp_path / "b.html").write_text('<p id="there">')
    (tmp_path / "i.png").write_text("")
    (tmp_path / "a.html").write_text(GOOD)
    (tmp_path / "fine.css").write_text("@import 'other.css'; p { background: url(data:image/png) }")
    assert faults_of(tmp_path) == []
    (tmp_path / "a.html").write_text(GOOD + page)
    assert faults_of(tmp_path) == [f"a.html {fault}"]


def test_styles_from_elsewhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(GOOD.replace("b.html#there", "#top").replace("<img", "<br"))
    (tmp_path / "a.css").write_text('@import "https://fonts/x";')
    assert faults_of(tmp_path) == ["a.css fetches https://fonts/x from elsewhere"]
    assert faults_of(tmp_path / "empty") == [f"{tmp_path / 'empty'} has no pages"]


PRINTED = "of 1,200 rows\n│ a │ .50 │\n│ b │ .70 │\nin 3 s\ndone"


@pytest.mark.parametrize(
    "shown",
    [
        PRINTED,
        "of 1,190 rows\n│ b │ .72 │\n│ a │ .46 │\nin … s\ndone",  # another order, rounded otherwise
        "…\n│ b │ .70 │\n…\ndone",
        "…\ndone",
        "of 1,200 rows\n…",
    ],
)
def test_what_is_shown_may_leave_lines_out(shown: str) -> None:
    check_shown(shown, PRINTED)


@pytest.mark.parametrize(
    ("shown", "why"),
    [
        ("of 1,200 rows", "is printed, but not shown"),
        ("of 1,200 rows\n│ a │ .50 │\nin 3 s\ndone", "is printed where 'in 3 s' is shown"),
        ("of 1,200 rows\n│ a │ .60 │\n…\ndone", "'│ a │ .60 │' is shown, but '│ a │ .50 │'"),
        ("…\nfailed", "'failed' is shown, but"),
        ("of 900 rows\n…", "'of 900 rows' is shown, but"),
        ("…\ndone\n│ a │ .50 │", "is shown, but what is printed"),
    ],
)
def test_what_is_shown_must_be_printed(shown: str, why: str) -> None:
    with pytest.raises(ValueError, match="shown") as caught:
        check_shown(shown, PRINTED)
    assert why in str(caught.value)


def test_a_page_is_one_module_and_is_renewed() -> None:
    page = "```python\nprint(1)\n```\n\n```text\n0\n```\n\n```\nfaircil x\nls\n```\n"
    blocks = code_blocks(page)
    assert [block.shown for block in blocks] == ["0\n", None]
    assert "faircil x" not in module_of(blocks)  # only read, since what it prints is not shown
    shown = page + "\n```text\n…\n```\n"
    assert "call('faircil x')" in module_of(code_blocks(shown))
    assert renewed(shown, ["1\n", "long"]) == shown.replace("\n0\n", "\n1\n")
    assert find_lines("…", "anything") == ["…"]


EXAMPLE_FILES = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLE_FILES, ids=lambda path: path.stem)
def test_the_page_of_an_example_is_made_from_it(path: Path) -> None:
    # tests/test_docs.py runs the page.
    example = read_example(path)
    page = GALLERY / f"{example.name}.md"
    text = page.read_text("utf-8")
    (block,) = code_blocks(text)
    assert block.shown is not None
    assert text == page_of(example, block.shown), "run `make gallery`"
    assert (GALLERY / f"images/{example.name}.png").is_file()
    assert f"[{example.title}]({page.name})" in (GALLERY / "README.md").read_text("utf-8")
    assert len(example.code.splitlines()) <= 60


def test_figures_of_the_guide_are_those_of_the_reproduction() -> None:
    page = (DOCS / "reproduction/moments.md").read_text("utf-8")
    rows = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| ")}
    costs = page.partition("## What fairness costs")[2].partition("\n## ")[0].splitlines()
    guide = (DOCS / "guides/cost.md").read_text("utf-8")
    measured, knob = (part.splitlines() for part in guide.split("## The knob")[:2])
    quoted = [line for line in measured if line.startswith("| ") and "…" in line]
    assert len(quoted) == 7
    assert [line for line in quoted if line not in costs] == []

    everything = page.partition("## All methods on all data")[2].partition("\n## ")[0]
    rows = {line.split(" | ")[0]: line.split(" | ") for line in everything.splitlines()}
    shown = [line.strip(" |").split(" | ") for line in knob if line.startswith("| m")]
    titles = [rows["| method"].index(title) for title in shown[0][1:]]
    for method, *cells in shown[1:]:
        assert cells == [rows[f"| {method}"][place] for place in titles], method
