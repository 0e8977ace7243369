from __future__ import annotations

from pathlib import Path

import pytest

from faircil.results.record import RunSummary
from faircil.sweep.work import Work
from faircil_lab.paper import metrics
from faircil_lab.paper.buffer_size import SIZES, BufferSize
from faircil_lab.paper.exhibit import Page, Verdict
from figure_runs import results_of, run_of


@pytest.fixture(autouse=True)
def _kept_without_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """FSW keeps fewer samples on mnist the larger the buffer; on biased-mnist by chance."""

    def kept(run: RunSummary) -> float:
        size = SIZES.index(run.config["settings"]["buffer_size"])
        falls = run.config["dataset"] == "mnist"
        return 3000.0 - size if falls else 3000.0 + (size * (run.seed + 2) * 3) % 5

    row = metrics.METRICS["samples kept"]
    monkeypatch.setitem(metrics.METRICS, "samples kept", row.__class__(row.title, kept, None, 1))  # type: ignore[arg-type]


def improves(work: Work) -> RunSummary:
    size = SIZES.index(work.config.settings.training.buffer_size)
    step = 0.01 * size + 0.001 * work.seed
    return run_of(work, accuracy=0.9 + step, eer_task=0.1 - step, eo_gap=0.2 + step)


def page_of(seeds: tuple[int, ...] = (0, 1, 2)) -> Page:
    exhibit = BufferSize(seeds=seeds)
    return exhibit.page(results_of(exhibit, improves))


def test_it_runs_fsw_and_replay_at_all_sizes_with_shipped_settings() -> None:
    exhibit = BufferSize(seeds=(0,))
    assert exhibit.requests() == []
    works = exhibit.works({})
    found = {
        (w.config.label, w.config.dataset, w.config.settings.training.buffer_size) for w in works
    }
    assert len(found) == len(works) == 2 * 2 * 4


def test_claims_are_held_against_the_runs() -> None:
    page = page_of()
    table = page.sections[0].table
    assert table is not None
    of_fsw = {(row[0], row[2]): (row[3], row[-1]) for row in table.rows if row[1] == "FSW"}
    assert of_fsw == {
        ("MNIST (EER)", "accuracy"): ("grows", "same"),
        ("MNIST (EER)", "EER disparity between tasks"): ("falls", "same"),
        ("MNIST (EER)", "samples with a weight above 0"): ("no clear relation", "different"),
        ("Biased MNIST (EO)", "accuracy"): ("grows", "same"),
        ("Biased MNIST (EO)", "equalized-odds gap"): ("falls", "different"),
        ("Biased MNIST (EO)", "samples with a weight above 0"): ("no clear relation", "same"),
    }
    assert page.verdicts.count(Verdict.SAME) == 4
    assert page.answer == (
        "4 of 6 claims about the buffer size hold. Exceptions: MNIST (EER), FSW, samples with a "
        "weight above 0: falls; Biased MNIST (EO), FSW, equalized-odds gap: grows."
    )


def test_values_are_shown_size_by_size(tmp_path: Path) -> None:
    claims, mnist, _ = page_of().sections
    assert mnist.table is not None
    assert mnist.table.rows[0] == ("FSW", "16", ".901 ± .001", ".099 ± .001", "3,000.0 ± 0.0")
    assert "--set buffer_size=128" in mnist.commands[3]
    assert claims.picture is not None
    claims.picture.draw(tmp_path / "buffer.png")
    assert (tmp_path / "buffer.png").stat().st_size > 5000


def test_with_nothing_run_the_page_says_so() -> None:
    exhibit = BufferSize(seeds=(0, 1))
    page = exhibit.page(results_of(exhibit, lambda _: None, diverged=False))
    assert page.answer == "Not run yet."
    assert page.sections[0].picture is None
    assert set(page.verdicts) == {Verdict.NOT_RUN}
    assert page.sections[1].text == "Not run: out of memory (all)."
