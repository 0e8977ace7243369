from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from faircil.auditing.audit_files import read_audit
from faircil.auditing.audit_page import audit_part
from faircil.report.page import Cells, escaped, named, table
from faircil.report.sections import AuditRow, findings, report_page
from faircil.report.study import Study, studies_of
from faircil.results.folder import read_run, write_run
from faircil.results.record import RunSummary
from hostile_runs import SCRIPT, write_hostile, write_hostile_audit
from run_results import make_result

SHOWN = {"eo": "eo_gap"}
VOID = {"meta", "br", "img", "input", "link"}
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "h3", "h4", "p",
    "nav", "ul", "ol", "li", "main", "section", "div", "span", "strong", "em", "b", "i", "bdi",
    "code", "pre", "figure", "figcaption", "details", "summary", "table", "caption", "thead",
    "tbody", "tr", "th", "td", "dl", "dt", "dd", "svg", "path", "circle", "polygon", "text",
}  # fmt: skip


class Checker(HTMLParser):
    """Notes elements, attributes and text, and that all are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.said = ""
        self.pictures_without_name = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] = self.elements.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}
        given = dict(attrs)
        if tag == "svg" and not (given.get("aria-label") or given.get("aria-hidden")):
            self.pictures_without_name += 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said += data


def study(runs: Sequence[RunSummary]) -> Study:
    (found,) = studies_of(runs, SHOWN)
    return found


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    return report_page([study(write_hostile(tmp_path_factory.mktemp("hostile")))])


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> str:
    kept = read_audit(write_hostile_audit(tmp_path_factory.mktemp("audited")))
    return report_page([], besides=[audit_part(kept)])


@pytest.mark.parametrize("page", ["hostile", "audited"])
def test_names_are_never_markup(page: str, request: pytest.FixtureRequest) -> None:
    hostile = request.getfixturevalue(page)
    checked = Checker(hostile)
    assert checked.open == []
    assert checked.elements.keys() <= ALLOWED
    assert not any(name.startswith("on") for name in checked.attributes)
    assert SCRIPT in checked.said
    assert "(no name)" in checked.said
    assert "$^$" in checked.said
    assert "\x07" not in hostile


@pytest.mark.parametrize("page", ["hostile", "audited"])
def test_nothing_is_asked_from_outside(page: str, request: pytest.FixtureRequest) -> None:
    hostile = request.getfixturevalue(page)
    # A name may contain what looks like an address of a picture, but only as text.
    assert not re.search(r"https?:|url\(|@import|<link|<script", hostile)
    assert "default-src 'none'" in hostile
    assert {"src", "srcset", "action"}.isdisjoint(Checker(hostile).attributes)


@pytest.mark.parametrize("page", ["hostile", "audited"])
def test_every_picture_says_what_it_shows(page: str, request: pytest.FixtureRequest) -> None:
    hostile = request.getfixturevalue(page)
    checked = Checker(hostile)
    assert checked.elements["svg"] > 20
    assert checked.pictures_without_name == 0
    assert checked.elements["figcaption"] == checked.elements["figure"]


def test_colours_phone_print_and_keyboard_are_thought_of(hostile: str) -> None:
    for text in ("prefers-color-scheme: dark", "@media print", "max-width: 34rem", "focus-visible"):
        assert text in hostile
    assert 'name="viewport"' in hostile
    assert 'lang="en"' in hostile


def test_all_questions_are_answered(hostile: str) -> None:
    for title in (
        "In short", "What was learned when", "Who was forgotten", "How fairness changed",
        "Bias from one task to the next", "What was done about it", "The methods side by side",
        "How certain this is", "How to run it again", "What the words mean",
    ):  # fmt: skip
        assert title in hostile
    assert "What fairness costs" in hostile
    assert "faircil run &lt;script&gt;" in hostile


def test_an_audit_answers_its_questions(audited: str) -> None:
    for title in (
        "In short", "How each group fares", "What was measured", "Before and after", "The gate",
        "How certain this is", "How to repeat it", "What the words mean",
    ):  # fmt: skip
        assert f"<h2>{title}</h2>" in audited
    said = Checker(audited).said
    assert "900 predictions were audited." in said
    assert "levelled down" in said
    assert "in class $^$" in said
    assert "Worst off is" in said
    assert "task" not in said.partition("What the words mean")[2].split("accuracy (")[0]


def test_fifty_runs_are_a_small_page(tmp_path: Path) -> None:
    runs = write_hostile(tmp_path, seeds=1, tasks=5, methods=50, samples=2)
    page = report_page([study(runs)])
    assert len(page.encode()) < 5e6
    assert "44 more methods" in page
    assert 'class="band' not in page  # bands of so many would hide the lines
    said = Checker(page).said
    assert "; 44 more are in the data. " in said
    assert "Without group weights: " in said
    assert " and 28 more." in said


def test_one_run_without_attribute_tells_what_it_can(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(attribute=False), {})
    page = report_page(studies_of([read_run(tmp_path / "seed-0")], {"eo": "eer"}))
    said = Checker(page).said
    assert "The data has no sensitive attribute: classes are compared." in said
    assert "There is no plain replay (er) to compare with" in said
    assert "no group of an earlier task has the 10 test samples needed to judge it" in said
    assert "Bias from one task to the next" not in said


def test_a_run_on_validation_data_has_no_groups_over_time(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(evaluate_on="validation"), {})
    page = report_page(studies_of([read_run(tmp_path / "seed-0")], SHOWN))
    assert "These runs keep no predictions" in page
    assert "Who was forgotten" not in page


def test_runs_on_other_data_have_parts_of_their_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / name / "seed-0", make_result(dataset=name), {})
    runs = [read_run(tmp_path / name / "seed-0") for name in ("one", "two")]
    page = report_page(studies_of(runs, SHOWN))
    for name in ("one", "two"):
        assert f"<h2><bdi>{name}</bdi>: in short</h2>" in page
    assert len(set(re.findall(r'<section id="([^"]+)"', page))) == page.count("<section id=")


def test_findings_of_an_audit() -> None:
    rows = [
        AuditRow("eo_gap", "sex × race", 0.2, 0.1, 0.3, 0.05, "differs"),
        AuditRow("dp", "", None, None, None, None, "n = 7: cannot tell"),
    ]
    said = Checker(findings(rows)).said
    for text in ("sex × race", "20.0\u202f%", "10.0\u202f% to 30.0\u202f%", "n = 7: cannot tell"):
        assert text in said
    page = report_page([], audits={"people.csv": rows})
    assert "What the audit found" in page


def test_long_tables_are_cut_and_say_so() -> None:
    text = table(Cells(("a",), [("x",)] * 7), most=5)
    assert text.count("<tr>") == 6
    assert "2 further rows are not shown" in text


def test_text_is_harmless() -> None:
    assert escaped("a\ud800b") == "a\ufffdb"
    assert named("  ") == "<i>(no name)</i>"
