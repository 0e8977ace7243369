from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from faircil.files import write_rows
from faircil.results.record import EpochRecord, WeightRecord
from faircil_lab.paper.claims import Column
from faircil_lab.paper.exhibit import Page, Section, Verdict
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.table import ComparisonTable
from faircil_lab.paper.tables import APART
from figure_runs import results_of, run_of, tuned_with
from made_tables import ABSENT, DISPARITY, ICARL, MNIST, TABLE, make, put_files
from run_summaries import in_folder


@pytest.fixture(autouse=True)
def _files(monkeypatch, tmp_path):
    put_files(tmp_path)
    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path))


def page_of(table: ComparisonTable = TABLE, run=make, *, diverged: bool = True) -> Page:
    return table.page(results_of(table, run, diverged=diverged))


def section(page: Page, heading: str) -> Section:
    return next(part for part in page.sections if part.heading == heading)


def rows(page: Page, heading: str) -> dict[str, tuple[str, ...]]:
    table = section(page, heading).table
    assert table is not None
    return {row[0]: row[1:] for row in table.rows}


def test_a_line_has_the_paper_ours_the_difference_and_the_verdict():
    page = page_of()
    table = section(page, "MNIST (EER)").table
    assert table is not None
    assert table.header == (
        *("method", "accuracy: paper", "ours", "difference", "verdict"),
        *("eer_task: paper", "ours", "difference", "verdict"),
    )
    found = rows(page, "MNIST (EER)")
    assert found["FSW"][:4] == (".925 ± .004", ".925 ± .002 °", "+.000", "same")
    assert found["iCaRL"][4:] == (".048 ± .003", ".090 ± .002", "+.042", "worse")
    assert found["replay"][::2] == ("–", "–", "–", "–")


def test_a_row_that_stands_apart_takes_no_part_in_the_marks():
    far_ahead = replace(TABLE, rows=(*TABLE.rows, *APART))
    page = page_of(
        far_ahead,
        lambda work: (
            run_of(work, accuracy=0.99, eer_task=0.0, eo_gap=0.0)
            if work.config.method == "moments"
            else make(work)
        ),
    )
    found = rows(page, "MNIST (EER)")
    assert found["moments"] == ("–", ".990 ± .000", "–", "–", "–", ".000 ± .000", "–", "–")
    assert {name: row for name, row in found.items() if name != "moments"} == rows(
        page_of(), "MNIST (EER)"
    )
    apart = "`moments` is a different kind of method from the paper's"
    assert apart in section(page, "How to read it").text
    assert apart not in section(page_of(), "How to read it").text


def test_verdicts_stand_for_published_values_only_and_are_kept_by_method():
    page = page_of()
    assert len(page.verdicts) == 2 * 4  # two methods, two metrics, two columns
    assert page.by_method["fsw"] == (Verdict.SAME,) * 2 + (Verdict.NOT_RUN,) * 2
    assert page.by_method["icarl"][1] is Verdict.WORSE
    assert "er" not in page.by_method


def test_what_is_not_run_keeps_the_published_value_and_says_why():
    found = rows(page_of(), "BiasBios (EO)")
    assert found["FSW"][:4] == (".808 ± .002", "not run: files absent", "–", "not run")
    failed = page_of(
        run=lambda work: None if work.config.label == "icarl" else make(work), diverged=False
    )
    assert rows(failed, "MNIST (EER)")["iCaRL"][1] == "not run"
    assert section(failed, "MNIST (EER)").text == "Not run: out of memory (iCaRL)."


def test_missing_seeds_are_counted():
    page = page_of(run=lambda work: make(work) if work.seed < 3 else None, diverged=False)
    assert "(3 of 5 seeds)" in rows(page, "MNIST (EER)")["FSW"][1]


def test_diverged_seeds_count_against_a_method():
    """Four perfect seeds are neither the best nor better than published if the fifth diverged."""

    def run(work):
        if work.config.label != "icarl":
            return make(work)
        perfect = run_of(work, accuracy=0.999 - 0.0001 * work.seed, eer_task=0.001)
        return perfect if work.seed else None

    page = page_of(run=run)
    cells = rows(page, "MNIST (EER)")["iCaRL"]
    assert cells[1] == ".999 ± .000 (1 of 5 seeds diverged)"
    assert cells[2:4] == ("–", "diverged")
    assert page.by_method["icarl"][:2] == (Verdict.DIVERGED,) * 2
    assert section(page, "MNIST (EER)").text.startswith("1 of 5 seeds diverged: iCaRL.")


def test_a_control_has_all_settings_of_fsw_and_differs_in_the_weighting_alone():
    table = replace(TABLE, settings="tuned", columns=(MNIST,))
    tuned = {
        one: tuned_with(one, [("lr=0.05" if one.method == "fsw" else "lr=0.1", {})])
        for one in table.requests()
    }
    configs = {work.config.label: work.config for work in table.works(tuned)}
    fsw, control = configs["fsw"], configs["er+random"]
    assert fsw.model_copy(update={"weighting": "random"}) == control
    assert control.settings.learner.lr == 0.05
    assert configs["er"].settings.learner.lr == 0.1


def test_a_dataset_that_ranks_nothing_has_no_marks_and_shows_what_chance_gives(tmp_path):
    put_files(tmp_path, "drug")
    drug = Column(Target("drug", "eo"), ("accuracy", "eo_gap"))
    groups = {(c, z): 0.5 for c in "ab" for z in "01"}

    def run(work):
        made = make(work)
        made = replace(made, metrics=made.metrics | {"eo_gap": DISPARITY[work.config.label]})
        return in_folder(made, tmp_path / work.key, groups)

    page = page_of(replace(TABLE, columns=(drug,)), run)
    assert not any("*" in cell or "°" in cell for cell in rows(page, "DRUG (EO)")["FSW"])
    assert page.findings == ()
    chance = rows(page, "DRUG (EO): what chance alone gives")
    # Ten of twenty right, spread over two groups of ten: the mean absolute difference.
    assert chance["FSW"][0] == ".032 ± .000"
    assert 0.17 < float(chance["FSW"][1].split()[0]) < 0.19


def test_only_a_proven_best_is_bold_and_bounds_take_no_part():
    better = {"fsw": 0.0, "er": 0.1, "er+random": 0.2, "icarl": 0.3}

    def run(work):
        value = better[work.config.label] + 0.001 * (work.seed * len(work.config.label) % 5)
        return run_of(work, accuracy=1 - value, eer_task=value)

    found = rows(page_of(run=run), "MNIST (EER)")
    assert found["FSW"][1].startswith("**")
    assert not any("°" in cell or "*" in cell for cell in found["replay"])
    joint = replace(TABLE.rows[1], contender=replace(ICARL, name="joint training", method="joint"))
    table = replace(TABLE, rows=(*TABLE.rows, joint))
    better["joint"] = -0.1
    assert rows(page_of(table, run), "MNIST (EER)")["FSW"][1].startswith("**")


def test_claims_are_paired_over_seeds_and_become_findings():
    page = page_of()
    found = section(page, "Which differences are significant").table
    assert found is not None
    readings = {(row[0], row[2]): row[-1] for row in found.rows}
    assert readings["FSW − replay", "eer_task"] == "better"
    assert readings["FSW − replay, random weights", "eer_task"] == "not significantly different"
    assert page.findings[0].startswith("**FSW against replay**: disparity is better on MNIST (EER)")
    assert "disparity is not significantly different on MNIST (EER)" in page.findings[1]
    assert "FSW against replay: disparity better on 1 of 1, worse on 0" in page.answer


def test_with_one_seed_nothing_is_claimed():
    page = page_of(replace(TABLE, seeds=(0,)))
    assert page.findings == ()
    assert all(part.heading != "Which differences are significant" for part in page.sections)


def test_a_page_without_runs_says_what_is_missing_and_how_to_get_it():
    page = page_of(run=lambda _: None, diverged=False)
    assert page.answer == "Not run yet: 8 published values have no value of ours yet."
    assert set(page.verdicts) == {Verdict.NOT_RUN}
    assert len(section(page, "MNIST (EER)").commands) == 4


def test_metrics_beside_have_no_claim_and_many_metrics_several_tables():
    many = replace(MNIST, metrics=("accuracy", "eer_task"), besides=("dp", "eo_gap"))
    page = page_of(replace(TABLE, columns=(many,)))
    table = section(page, "MNIST (EER)").table
    assert table is not None
    assert table.header[-2:] == ("dp: ours", "eo_gap: ours")
    layers = replace(
        TABLE,
        topic="layers",
        rows=TABLE.rows[1:2],
        pairs=(),
        columns=(
            replace(MNIST, metrics=("accuracy", "eo_gap", "seconds lp"), key="biased-mnist eo"),
        ),
    )
    headings = [part.heading for part in page_of(layers).sections]
    assert headings[1:4] == ["MNIST", "Times on MNIST", "Machines"]


def test_times_stand_apart_without_a_verdict():
    """A faster machine is no result of the method."""
    layers = replace(
        TABLE,
        topic="layers",
        rows=TABLE.rows[1:2],
        pairs=(),
        columns=(replace(MNIST, metrics=("accuracy", "seconds lp"), key="biased-mnist eo"),),
    )
    page = page_of(layers)
    assert len(page.verdicts) == 1  # of the accuracy
    times = section(page, "Times on MNIST").table
    assert times is not None
    assert times.header == ("method", "seconds lp: paper", "ours", "share")
    assert times.rows[0] == ("FSW", "507 ± 4", "0.1 ± 0.0", "0.000197")
    alone = replace(layers, columns=(replace(layers.columns[0], metrics=("seconds lp",)),))
    assert page_of(alone).answer.startswith("Times alone, which have no verdict")
    lost = page_of(layers, lambda work: make(work) if work.seed else None)
    times = section(lost, "Times on MNIST").table
    assert times is not None
    assert times.rows[0][2] == "0.1 ± 0.0 (1 of 5 seeds diverged)"


def test_the_number_of_samples_decides_whether_a_gain_is_one_of_choice(tmp_path):
    """Which and not how many is said only where FSW and its control had as many samples."""

    def page(control: int) -> Page:
        def run(work):
            label = work.config.label
            made = replace(make(work), dir=str(tmp_path / f"{control}-{work.key}"))
            if label == "er+random":
                made = replace(made, metrics=made.metrics | {"eer_task": 0.5 + 0.001 * work.seed})
            kept = {"fsw": 1000, "er+random": control}.get(label)
            weights = kept and WeightRecord(kept, 0, 0, 0.0, 0.0, 0.0, 0.0)
            Path(made.dir).mkdir()
            epoch = EpochRecord(2, 1, 5000, 1000, 10, 0.1, weights or None)
            write_rows(Path(made.dir) / "epochs.jsonl", [asdict(epoch)])
            return made

        return page_of(replace(TABLE, columns=(MNIST,)), run)

    same, more = page(1020), page(1500)
    text = "With the same number of samples, FSW is better than replay, random weights on MNIST"
    assert any(text in finding for finding in same.findings)
    assert not any("which" in finding for finding in more.findings)
    heading = "FSW and its controls: how many samples"
    assert rows(same, heading)["MNIST (EER)"][1:] == ("1,000", "1,020", "yes")
    assert rows(more, heading)["MNIST (EER)"][-1] == "no"


def test_reasons_name_the_defects_of_published_rows():
    reasons = rows(page_of(), "Why published rows may differ")
    assert reasons["iCaRL"][0] == "yes"
    assert reasons["FSW"][0] == "no"


def test_settings_say_how_they_were_chosen():
    assert "shipped" in section(page_of(), "Settings").text
    table = replace(TABLE, settings="tuned")
    tuned = {request: tuned_with(request) for request in table.requests()}
    page = table.page(results_of(table, make, tuned))
    settings = section(page, "Settings")
    assert "at most 12 configurations (random) on seed 10" in settings.text
    assert "test data was not used" in settings.text
    assert settings.table is not None
    assert settings.table.rows[1] == (
        *("MNIST (EER)", "FSW", "`lr=0.1`", "accuracy - eer", ".500", "1"),
    )
    assert "DRUG" not in settings.text
    assert "--set lr=0.1" in section(page, "MNIST (EER)").commands[1]


def test_where_the_seed_draws_the_split_the_page_says_what_that_means():
    drug = replace(ABSENT, target=replace(ABSENT.target, dataset="drug"))
    table = replace(TABLE, settings="tuned", columns=(drug,))
    tuned = {request: tuned_with(request) for request in table.requests()}
    page = table.page(results_of(table, make, tuned))
    assert "test rows under other seeds" in section(page, "Settings").text
