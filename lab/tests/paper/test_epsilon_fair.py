from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faircil.postprocess.tasks import TaskProbabilities
from faircil.results.folder import write_run
from faircil.results.processed import process_run
from faircil.results.record import RunResult, RunSummary
from faircil.sweep.work import Work
from faircil_lab.paper import epsilon_fair
from faircil_lab.paper.epsilon_fair import EPSILONS, EpsilonFairTable, Processed, processing_of
from faircil_lab.paper.exhibit import Page, Section
from faircil_lab.paper.store import Measured, file_of, measured
from figure_runs import results_of, run_of
from made_tables import put_files
from run_results import make_result


def make(work: Work) -> RunSummary:
    noise = 0.001 * (work.seed * (3 + len(work.config.label)) % 5)
    dp = 0.05 + noise + 0.01 * (work.config.held_out == 0)
    return run_of(work, accuracy=0.9 - noise, dp=dp, dp_predicted=dp)


def after_each_epsilon(run: RunSummary, _: object) -> Measured[Processed]:
    """Parity is as good as ε allows, and costs a little."""
    found: list[dict[str, float | None]] = [dict(run.metrics)]
    for epsilon in EPSILONS:
        dp = (run.metrics["dp"] or 0.0) * min(1.0, 0.2 + 8 * epsilon)
        accuracy = (run.metrics["accuracy"] or 0.0) - 0.01 * (0.1 - epsilon)
        found.append({**run.metrics, "dp": dp, "dp_predicted": dp, "accuracy": accuracy})
    return Measured(processing_of(run, EPSILONS), Processed(tuple(found)))


@pytest.fixture
def page(monkeypatch, tmp_path: Path) -> Page:
    put_files(tmp_path), put_files(tmp_path, "drug")
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))
    monkeypatch.setattr(epsilon_fair, "_measured", after_each_epsilon)
    exhibit = EpsilonFairTable()
    return exhibit.page(results_of(exhibit, make))


def section(page: Page, heading: str) -> Section:
    return next(part for part in page.sections if part.heading.startswith(heading))


def test_it_needs_runs_with_held_out_samples_and_two_with_the_buffer():
    works = EpsilonFairTable(seeds=(0,)).works({})
    assert {work.config.postprocess for work in works} == {"none"}
    held_out = [work for work in works if work.config.held_out == 32]
    assert {work.config.label for work in held_out} == {
        *("icarl", "wa", "clad", "gss", "ocs", "fsw", "er", "der++")
    }
    assert {w.config.label for w in works if w.config.held_out == 0} == {"fsw", "er"}


def test_a_method_stands_without_and_with_post_processing_beside_the_paper(page: Page):
    table = section(page, "Biased MNIST (DP)").table
    assert table is not None
    rows = {row[0]: row for row in table.rows}
    assert rows["FSW"][1] == ".904 ± .004"
    assert rows["FSW, ε-fair"][1] == ".906 ± .006"
    assert rows["FSW, ε-fair fitted on the buffer"][1] == "–"
    assert table.header[-1] == "dp: ours"
    before, after = rows["iCaRL"][-1], rows["iCaRL, ε-fair"][-1]
    assert before.startswith(".052")
    assert after.startswith(".010")  # a fifth, the strictest ε
    assert rows["replay, ε-fair fitted on the buffer"][-1].startswith(".012")


def test_commands_give_the_lines(page: Page):
    commands = section(page, "DRUG (DP)").commands
    assert (
        "faircil run --dataset drug --method fsw --measure dp --held-out 32 --seeds 0-4"
        " --postprocess eps-fair --epsilon 0"
    ) in commands
    assert (
        "faircil run --dataset drug --method fsw --measure dp --seeds 0-4"
        " --postprocess eps-fair --epsilon 0"
    ) in commands


def test_published_post_processing_rests_on_a_defect_and_absent_data_is_named(page: Page):
    assert len(page.by_method["eps-fair"]) == 2 * (6 + 6 + 5)
    table = section(page, "BiasBios (DP)").table
    assert table is not None
    assert table.rows[0][2] == "not run: files absent"


def test_curves_go_from_no_post_processing_to_the_strictest(page: Page, tmp_path: Path):
    curve = section(page, "The cost of parity on DRUG (DP)")
    assert curve.table is not None
    assert curve.table.header == ("method", "none", "ε = 0", "ε = .01", "ε = .05", "ε = .1")
    assert {row[0] for row in curve.table.rows} == {"iCaRL", "WA", "FSW", "replay", "DER++"}
    assert curve.table.rows[0][2].endswith("/ .010")
    assert curve.picture is not None
    curve.picture.draw(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_runs_without_probabilities_are_not_run(monkeypatch, tmp_path: Path):
    put_files(tmp_path), put_files(tmp_path, "drug")
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))

    def failed(run: RunSummary, _: object) -> Measured[Processed]:
        return Measured(processing_of(run, EPSILONS), None, "not run: no probabilities")

    monkeypatch.setattr(epsilon_fair, "_measured", failed)
    exhibit = EpsilonFairTable()
    page = exhibit.page(replace(results_of(exhibit, make), root=tmp_path))
    assert page.answer.startswith("Not run yet")
    assert all(part.picture is None for part in page.sections)
    assert "Not run: no probabilities (all)." in section(page, "DRUG (DP)").text


def with_probabilities() -> RunResult:
    result, kept = make_result(), []
    generator = np.random.default_rng(0)
    for predictions in result.predictions:
        classes = np.unique(predictions.y_true)
        test, pool = (
            generator.dirichlet(np.ones(len(classes)), size).astype(np.float32)
            for size in (len(predictions.y_true), 40)
        )
        z, counts = np.arange(40) % 2, np.array([20, 20])
        kept.append(TaskProbabilities(classes, test, pool, z, np.ones(40), z[:2], counts))
    return replace(result, probabilities=tuple(kept))


@pytest.fixture
def run(tmp_path: Path) -> RunSummary:
    return write_run(tmp_path / "run" / "seed-0", with_probabilities(), {})


def test_it_is_what_post_processing_gives_and_kept(run: RunSummary, tmp_path: Path, monkeypatch):
    values = measured(processing_of(run, (0.0, 0.1)), tmp_path).values
    expected = [dict(one.metrics) for one in process_run(run, (0.0, 0.1))]
    assert values is not None
    assert list(values.metrics) == expected
    monkeypatch.setattr(epsilon_fair, "process_run", None)  # would fail if it were called
    again = measured(processing_of(run, (0.0, 0.1)), tmp_path).values
    assert again == values


def test_other_epsilons_or_another_run_are_another_measurement(run: RunSummary, tmp_path: Path):
    first = file_of(processing_of(run, (0.0,)), tmp_path)
    assert first != file_of(processing_of(run, (0.1,)), tmp_path)
    other = write_run(tmp_path / "other" / "seed-0", make_result(), {})
    assert first != file_of(processing_of(other, (0.0,)), tmp_path)


def test_a_run_that_is_moved_without_its_probabilities_keeps_what_was_measured(
    run: RunSummary, tmp_path: Path
):
    values = measured(processing_of(run, (0.0,)), tmp_path).values
    moved = Path(run.dir).rename(tmp_path / "moved")
    (moved / "probabilities.npz").unlink()
    again = measured(processing_of(replace(run, dir=str(moved)), (0.0,)), tmp_path).values
    assert again == values is not None


def test_altered_probabilities_are_not_measured(run: RunSummary, tmp_path: Path):
    (Path(run.dir) / "probabilities.npz").write_bytes(b"other")
    found = measured(processing_of(run, (0.0,)), tmp_path)
    assert found.values is None
    assert "altered" in (found.problem or "")


def test_a_run_without_probabilities_has_a_problem(tmp_path: Path):
    run = write_run(tmp_path / "run" / "seed-0", make_result(), {})
    found = measured(processing_of(run, (0.0,)), tmp_path)
    assert found.values is None
    assert "cannot be post-processed" in (found.problem or "")
