from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from faircil.cli import parse
from faircil.errors import StorageError
from faircil.runs.config import resolve
from faircil.tuning.request import TuneRequest
from faircil.tuning.tune import tune, tune_each
from faircil.tuning.tuning_files import as_page, folder_name, front, run_command, write_tuning

REQUEST = TuneRequest(
    "biased-digits", "der++", "dp", "fsw", fixed=("epochs=1",), tried=("lr=0.1,0.01", "tau=1,2,3")
)


def metrics(config, _):
    if config.settings.learner.lr == 0.1 and config.settings.learner.tau == 3:
        return "training diverged in task 1\nlower the rate"
    return {
        "accuracy": 0.5 + 0.1 * config.settings.learner.tau,
        "dp": 0.1 * config.settings.learner.tau**2,
    }


@pytest.fixture
def tuned(pretend):
    return tune(REQUEST, pretend(metrics))


def test_files(tuned, tmp_path):
    write_tuning(tuned, tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"tuning.json", "tuning.md", "pareto.png", "pareto.svg"}
    document = json.loads((tmp_path / "out/tuning.json").read_text())
    assert document["request"]["objective"] == "accuracy - dp"
    assert document["configurations"] == len(document["trials"]) == 6
    assert document["best"] == document["trials"][0]
    assert document["best"]["overrides"] == ["lr=0.1", "tau=1"]
    assert document["best"]["score"] == pytest.approx(0.5)
    assert document["best"]["metrics"]["accuracy"] == pytest.approx(0.6)
    assert document["best"]["runs"] == [run.dir for run in tuned.best.runs]
    assert document["trials"][2]["score"] is None
    assert document["command"] == run_command(REQUEST, ("lr=0.1", "tau=1"))


def test_page_has_the_best_first_and_what_failed_last(tuned):
    lines = as_page(tuned).splitlines()
    table = [line for line in lines if line.startswith("| ")]
    assert table[1] == "| 1 | lr=0.1 tau=1 | .500 | .600 | .500 | .500 | .100 | chosen |"
    assert table[-1].startswith(
        "| 6 | lr=0.1 tau=3 | – | – | – | – | – | training diverged in task 1 lower"
    )
    assert "6 of 6 configurations tried, strategy random, budget 12, seed 10" in as_page(tuned)
    assert "10% of each group's training data, held out" in as_page(tuned)


def test_page_of_the_paper_s_way_says_that_it_is_too_good(pretend):
    tuned = tune(replace(REQUEST, select_on="test"), pretend(metrics))
    assert "these figures are too optimistic" in as_page(tuned)
    assert "chosen on test data" in as_page(tuned).splitlines()[0]


def test_without_a_choice_there_is_a_record_and_no_command(pretend, tmp_path):
    request = replace(REQUEST, objective="accuracy with dp <= 0.05")
    (failed,) = tune_each([request], pretend(metrics))
    write_tuning(failed, tmp_path)
    document = json.loads((tmp_path / "tuning.json").read_text())
    assert document["best"] is document["command"] is None
    assert "none of 6 configurations" in document["problem"]
    assert "Nothing was chosen." in (tmp_path / "tuning.md").read_text()
    assert "| 1 | lr=0.1 tau=1 | −.050 | .600 | .500 | .500 | .100 | dp .050 too much |" in as_page(
        failed
    )
    assert (tmp_path / "pareto.png").exists()


def test_nothing_to_draw(pretend, tmp_path):
    (failed,) = tune_each([REQUEST], pretend(lambda *_: "training diverged"))
    write_tuning(failed, tmp_path)
    assert not (tmp_path / "pareto.png").exists()
    assert "pareto.png" not in (tmp_path / "tuning.md").read_text()


@pytest.mark.parametrize("method", ["fsw", "er"])
def test_the_command_runs_what_was_chosen_on_test_data(pretend, method):
    request = TuneRequest("biased-digits", method, "eo", fixed=("granularity=group",))
    tuned = tune(request, pretend(lambda c, _: {"accuracy": c.settings.learner.tau / 10}))
    typed = run_command(request, tuned.best.overrides)
    arguments = parse(shlex.split(typed)[1:])
    config = resolve(
        dataset=arguments.dataset,
        method=arguments.method,
        weighting=arguments.weighting,
        measure=arguments.measure,
        overrides=arguments.set,
    )
    assert config == replace(request, select_on="test").config(tuned.best.overrides)
    assert arguments.seeds == "0-4"


def test_names_of_folders():
    assert folder_name(REQUEST).startswith("der+++fsw-dp-")
    assert folder_name(REQUEST) == folder_name(replace(REQUEST))
    assert folder_name(REQUEST) != folder_name(replace(REQUEST, budget=3))


def test_a_folder_that_cannot_be_written(tuned, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="choose another folder"):
        write_tuning(tuned, tmp_path / "file")


values = st.sampled_from([0.0, 0.1, 0.5, 0.9])


@given(st.lists(st.tuples(values, values), max_size=12))
def test_front_is_what_nothing_beats(points):
    def beaten(one):
        return any(other != one and other[0] >= one[0] and other[1] <= one[1] for other in points)

    found = front(points)
    assert {points[i] for i in found} == {point for point in points if not beaten(point)}
    assert len(found) == len({points[i] for i in found})
    assert all(points[i] not in points[:i] for i in found)
    assert [points[i][1] for i in found] == sorted(points[i][1] for i in found)
