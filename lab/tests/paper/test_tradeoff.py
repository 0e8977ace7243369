from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil.tuning.request import SEED
from faircil_lab.paper import tradeoff
from faircil_lab.paper.contenders import FSW, request
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.page import Page, Verdict
from faircil_lab.paper.tradeoff import LAMBDAS, RIVALS, Tradeoff
from figure_runs import results_of, run_of, tuned_with

MNIST, ABSENT = Target("mnist", "eer"), Target("biasbios", "eo")
ICARL = next(c for c in RIVALS if c.method == "icarl")
DER = next(c for c in RIVALS if c.method == "der++")
Pairs = list[tuple[float, float]]


def by_lambda(work: Work) -> RunSummary:
    """More accurate and less fair with λ: .9/.02 at 0 to .96/.08 at 10."""
    place = [float(lam) for lam in LAMBDAS].index(work.config.settings.weights.lam)
    return run_of(work, accuracy=0.9 + 0.01 * place, eer_task=0.02 + 0.01 * place)


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Page]:
    monkeypatch.setattr(tradeoff, "TARGETS", (MNIST, ABSENT))

    def make(icarl: Pairs, der: Pairs, run: object = by_lambda) -> Page:
        tuned = {}
        for contender, points in ((FSW, [(0.5, 0.5)]), (ICARL, icarl), (DER, der)):
            wanted = request(contender, "mnist", "eer")
            trials = [
                (f"lr={number + 1}", {"accuracy": a, "eer_task": d})
                for number, (a, d) in enumerate(points)
            ]
            if trials:
                tuned[wanted] = tuned_with(wanted, trials)
        exhibit = Tradeoff()
        return exhibit.page(results_of(exhibit, run, tuned))  # type: ignore[arg-type]

    return make


def first_row(page: Page) -> tuple[str, ...]:
    table = page.sections[0].table
    assert table is not None
    return table.rows[0]


def test_the_curve_is_the_choice_with_lambda_alone_varied_on_validation_data() -> None:
    wanted = request(FSW, "mnist", "eer")
    works = Tradeoff().works({wanted: tuned_with(wanted, [("lr=0.3", {})])})
    assert [work.config.settings.weights.lam for work in works] == [0, 0.01, 0.1, 0.5, 1, 5, 10]
    assert {work.config.settings.learner.lr for work in works} == {0.3}
    assert {work.config.evaluate_on for work in works} == {"validation"}
    assert {work.seed for work in works} == {SEED}


def test_it_asks_for_the_searches_of_all_but_the_bounds() -> None:
    methods = {wanted.method for wanted in Tradeoff().requests()}
    assert {"fsw", "icarl", "er", "der++"} <= methods
    assert not {"joint", "finetune"} & methods
    assert Tradeoff(settings="shipped").requests() == []


def test_points_that_stand_and_points_that_are_beaten(page_of: Callable[..., Page]) -> None:
    # iCaRL's second point is beaten by its own first; DER++ beats FSW but for its two ends.
    page = page_of([(0.935, 0.045), (0.92, 0.06)], [(0.955, 0.025)])
    assert first_row(page) == ("MNIST (EER)", "6 of 7", "2 of 7", "0 of 1", "same")
    assert page.verdicts == (Verdict.SAME, Verdict.NOT_RUN)
    assert "On 1 of 1 panels" in page.answer


def test_a_curve_that_is_beaten_everywhere_is_worse(page_of: Callable[..., Page]) -> None:
    page = page_of([(0.97, 0.01)], [])
    assert first_row(page)[1:] == ("0 of 7", "0 of 7", "0 of 1", "worse")
    assert "On 0 of 1 panels" in page.answer


def test_a_curve_that_only_ours_beats_is_told_apart(page_of: Callable[..., Page]) -> None:
    page = page_of([(0.8, 0.2)], [(0.97, 0.01)])
    assert first_row(page)[1:] == ("7 of 7", "0 of 7", "1 of 1", "same")
    assert "on 0 with replay, the controls and DER++" in page.answer


def test_without_rivals_there_is_nothing_to_say(page_of: Callable[..., Page]) -> None:
    assert page_of([], []).verdicts == (Verdict.NOT_RUN, Verdict.NOT_RUN)


def test_a_diverged_point_is_left_out(page_of: Callable[..., Page]) -> None:
    def run(work: Work) -> RunSummary | None:
        return None if work.config.settings.weights.lam == 0 else by_lambda(work)

    page = page_of([(0.8, 0.2)], [], run)
    assert first_row(page)[1] == "6 of 6"
    table = page.sections[1].table
    assert table is not None
    assert [row[0] for row in table.rows][:1] == ["FSW, λ = 0.01"]
    nothing = page_of([(0.8, 0.2)], [], lambda _: None)
    assert first_row(nothing)[-1] == "not run: it diverged"
    assert nothing.answer == "Not run yet."


def test_the_picture_and_the_commands(page_of: Callable[..., Page], tmp_path: Path) -> None:
    section = page_of([(0.8, 0.2)], [(0.93, 0.05)]).sections[1]
    assert len(section.commands) == 7
    assert all("--evaluate-on validation" in command for command in section.commands)
    assert section.picture is not None
    section.picture.draw(tmp_path / "trade.png")
    assert (tmp_path / "trade.png").stat().st_size > 5000
