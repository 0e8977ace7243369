from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil_lab.paper.biographies import TRAINED
from faircil_lab.paper.contenders import CONTENDERS
from faircil_lab.paper.exhibit import Page, Results
from faircil_lab.paper.exhibits import EXHIBITS
from figure_runs import results_of, run_of, tuned_with
from tiny_bios import in_place_of_the_sample

AFTER_TASKS = (0.9, 0.8)


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    with in_place_of_the_sample(tmp_path):
        yield


def make(work: Work, after: tuple[float, ...] = AFTER_TASKS) -> RunSummary:
    run = run_of(work, accuracy=sum(after) / len(after), eo_gap=0.1, dp=0.02)
    return replace(run, per_task=[{"accuracy": accuracy} for accuracy in after])


def page_of(run=make) -> Page:  # type: ignore[no-untyped-def]
    tuned = {request: tuned_with(request) for request in TRAINED.requests()}
    return TRAINED.page(results_of(TRAINED, run, tuned))


def test_all_methods_train_the_encoder_at_rates_for_that() -> None:
    assert EXHIBITS["biographies-trained"] is TRAINED
    assert len(TRAINED.requests()) == len([c for c in CONTENDERS if not c.settings_of])
    assert all(work.config.trains_encoder for work in TRAINED.works({}))
    for request in TRAINED.requests():
        assert request.config(()).trains_encoder
        assert request.config(()).settings.learner.lr == 0.001 or request.method in (
            "icarl",
            "fairl",
        )


def test_the_answer_has_accuracies_and_what_is_significant() -> None:
    answer = page_of().answer
    assert "joint training .850 ± .000, FSW .850 ± .000, replay .850 ± .000." in answer
    assert "0 are significant" in answer
    assert "fell below" not in answer


def test_runs_that_fall_behind_the_other_seeds_are_named() -> None:
    def fallen(work: Work) -> RunSummary:
        behind = work.config.label == "er" and work.seed == 3
        return make(work, (0.9, 0.3) if behind else AFTER_TASKS)

    answer = page_of(fallen).answer
    assert "1 of 75 runs fell below half" in answer
    assert ": replay, seed 3, task 2." in answer


def test_without_runs_the_page_says_so(tmp_path: Path) -> None:
    assert TRAINED.page(Results({}, {}, tmp_path)).answer == "Not run yet."
