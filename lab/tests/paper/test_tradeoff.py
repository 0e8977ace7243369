from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil.tuning.request import SEED
from faircil_lab.paper import tradeoff
from faircil_lab.paper.comparison import beaten
from faircil_lab.paper.contenders import BALANCED, FSW, RANDOM, request
from faircil_lab.paper.exhibit import Page, Verdict
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.tradeoff import LAMBDAS, RIVALS, Tradeoff, front_of
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
    def make(fsw: Pairs, icarl: Pairs, der: Pairs, target: Target = MNIST) -> Page:
        monkeypatch.setattr(tradeoff, "TARGETS", (target, ABSENT))
        tuned = {}
        for contender, points in ((FSW, fsw), (ICARL, icarl), (DER, der)):
            wanted = request(contender, target.dataset, target.measure)
            trials = [
                (f"lr={number + 1}", {"accuracy": a, target.metric: d})
                for number, (a, d) in enumerate(points)
            ]
            if trials:
                tuned[wanted] = tuned_with(wanted, trials)
        exhibit = Tradeoff()
        return exhibit.page(results_of(exhibit, by_lambda, tuned))

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


def test_one_point_that_is_not_beaten_is_no_domination(page_of: Callable[..., Page]) -> None:
    """FSW's fairest point stands, but so does iCaRL's most accurate one: neither dominates."""
    page = page_of([(0.80, 0.01), (0.85, 0.06)], [(0.90, 0.05), (0.89, 0.06)], [])
    assert first_row(page)[1:4] == ("2", "1 of 2", "0 of 1")
    assert page.verdicts == (Verdict.DIFFERENT, Verdict.NOT_RUN)
    assert "on 0 of 1 panels and is beaten everywhere on 0" in page.answer


def test_it_dominates_where_it_beats_every_point_of_the_others(
    page_of: Callable[..., Page],
) -> None:
    page = page_of([(0.95, 0.04), (0.90, 0.01)], [(0.95, 0.05), (0.85, 0.01)], [])
    assert first_row(page)[1:] == ("2", "0 of 2", "2 of 2", "0 of 2 / 2 of 2", "same")
    assert "on 1 of 1 panels" in page.answer


def test_a_front_that_is_beaten_everywhere_is_worse(page_of: Callable[..., Page]) -> None:
    page = page_of([(0.9, 0.02)], [(0.97, 0.01)], [])
    assert first_row(page)[-1] == "worse"
    assert "is beaten everywhere on 1" in page.answer


def test_methods_that_the_paper_lacks_are_counted_beside_it(page_of: Callable[..., Page]) -> None:
    page = page_of([(0.9, 0.02)], [(0.8, 0.2)], [(0.97, 0.01)])
    assert first_row(page)[2:] == ("0 of 1", "1 of 1", "1 of 1 / 0 of 1", "same")
    assert "among the others, on 0 and 1" in page.answer


def test_budgets_are_equal_and_the_curve_takes_no_part(page_of: Callable[..., Page]) -> None:
    """FSW's third configuration would dominate, as would its curve; iCaRL has tried two."""
    page = page_of([(0.5, 0.5), (0.5, 0.4), (0.99, 0.0)], [(0.9, 0.1), (0.8, 0.2)], [])
    assert first_row(page)[1:4] == ("2", "1 of 1", "0 of 1")
    assert first_row(page)[-1] == "worse"
    text = page.sections[1].text
    assert text == "Configurations tried: FSW 3, iCaRL 2; compared are the first 2 of each."


def test_drug_is_shown_and_not_counted(page_of: Callable[..., Page]) -> None:
    page = page_of([(0.9, 0.02)], [(0.8, 0.2)], [], target=Target("drug", "eo"))
    assert first_row(page)[-1] == "same (not counted)"
    assert page.verdicts == (Verdict.NOT_RUN,)
    assert page.answer == "Not run yet."


def test_without_rivals_there_is_nothing_to_say(page_of: Callable[..., Page]) -> None:
    assert page_of([(0.9, 0.02)], [], []).verdicts == (Verdict.NOT_RUN, Verdict.NOT_RUN)


def test_controls_have_no_search_of_their_own() -> None:
    assert not {c.name for c in RIVALS} & {RANDOM.name, BALANCED.name}


def test_the_picture_and_the_commands(page_of: Callable[..., Page], tmp_path: Path) -> None:
    section = page_of([(0.9, 0.1)], [(0.8, 0.2)], [(0.93, 0.05)]).sections[1]
    assert len(section.commands) == 7
    assert all("--evaluate-on validation" in command for command in section.commands)
    assert section.picture is not None
    section.picture.draw(tmp_path / "trade.png")
    assert (tmp_path / "trade.png").stat().st_size > 5000


values = st.integers(0, 4).map(lambda number: number / 4)
points = st.lists(st.tuples(values, values), min_size=1, max_size=8).map(np.array)


@given(points, points)
def test_a_point_is_beaten_if_another_is_no_worse_in_both_and_better_in_one(
    some: NDArray[np.float64], others: NDArray[np.float64]
) -> None:
    def beats(b: NDArray[np.float64], a: NDArray[np.float64]) -> bool:
        return bool(b[0] >= a[0] and b[1] <= a[1] and tuple(a) != tuple(b))

    slow = [any(beats(other, point) for other in others) for point in some]
    assert beaten(some, others).tolist() == slow


@given(points)
def test_a_front_has_no_beaten_point_and_beats_all_others(
    some: NDArray[np.float64],
) -> None:
    kept = front_of(some)
    assert not beaten(kept, some).any()
    left = [point for point in some.tolist() if point not in kept.tolist()]
    assert beaten(np.array(left).reshape(-1, 2), kept).all()
    assert (np.diff(kept[:, 0]) >= 0).all()


def test_nothing_dominates_without_others() -> None:
    assert not beaten(np.array([[0.5, 0.5]]), np.empty((0, 2))).any()
