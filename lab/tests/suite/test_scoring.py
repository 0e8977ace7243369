from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cli_outcome import Cli
from faircil.auditing.rate_intervals import rate_limits
from faircil.report.statistics import interval
from faircil.results.folder import read_run
from faircil.results.over_time import lost_since_best, metric_matrix, read_timeline, timeline_of
from faircil_lab.suite.catalogue import SMALL
from faircil_lab.suite.entrants import ScoredRun, score_run
from faircil_lab.suite.scoring import (
    SCORES,
    Measured,
    SeedScore,
    combined,
    over_seeds,
    resampled_hits,
    score,
)
from suite_rows import STREAM, made_index, made_predictions

BY_NAME = {stream.dataset: stream for stream in SMALL.streams}


@pytest.mark.parametrize("dataset", ["toy", "biased-digits"])
def test_scores_of_a_run_are_its_own_metrics(cli: Cli, tmp_path: Path, dataset: str) -> None:
    settings = ("--set", "epochs=1", "hidden=8", "--quiet", "--no-model", "--out", "mine")
    assert cli("run", "--dataset", dataset, "--method", "er", *settings).code == 0
    stream, folder = BY_NAME[dataset], tmp_path / "mine" / "seed-0"
    found = score_run(ScoredRun(stream, 0, folder))
    assert isinstance(found, SeedScore), found
    run = read_run(folder)
    last = run.per_task[-1]
    wanted = {
        "accuracy": run.metrics["accuracy"],
        "final_accuracy": run.value("final_accuracy"),
        "disparity": last[stream.disparity],
        "worst_group": run.metrics["worst_group"],
        "fairness_forgetting": float(
            np.nanmean(
                lost_since_best(
                    metric_matrix(read_timeline(run), stream.disparity), higher_is_better=False
                )
            )
        ),
    }
    for name, value in wanted.items():
        measured = getattr(found, name)
        assert measured.value == pytest.approx(value, abs=1e-12), name
        assert measured.low <= measured.high


def test_another_test_set_is_not_scored(cli: Cli, tmp_path: Path) -> None:
    settings = ("--set", "epochs=1", "hidden=8", "--quiet", "--no-model", "--out", "mine")
    assert cli("run", "--dataset", "digits", "--method", "er", *settings).code == 0
    found = score_run(ScoredRun(BY_NAME["digits"], 1, tmp_path / "mine" / "seed-0"))
    assert "have digest 7ee9597e3e26ddf4, expected ae38b82cd3272066" in str(found)


def test_resampled_hits_are_those_of_drawn_rows() -> None:
    index = made_index(per_group=5)
    predicted = made_predictions(index, 0.6)
    label = np.array([index.codes[name] for name in index.label])
    value = np.array(["fm".index(one) for one in index.value or ()])
    columns = [
        {
            "y_true": label[: index.seen(after)],
            "y_pred": predicted[after - 1, : index.seen(after)],
            "task": index.task[: index.seen(after)],
            "sensitive": value[: index.seen(after)],
        }
        for after in (1, 2)
    ]
    timeline = timeline_of(columns)
    drawn = resampled_hits(timeline, label, value, predicted, draws=4000)
    # As many rows are drawn as there are, so hits are as many on average, and binomial.
    share = timeline.hits / np.maximum(timeline.samples, 1)
    error = np.sqrt(timeline.samples * share * (1 - share))
    assert np.abs(drawn.mean(axis=0) - timeline.hits).max() < 5 * error.max() / np.sqrt(4000)
    assert drawn.std(axis=0) == pytest.approx(error, rel=0.08, abs=1e-12)
    # Rows keep their predictions together: classes of task 1 vary alike in both evaluations.
    right = predicted == label
    own = (label == 0) & (value == 0)
    expected = np.cov(right[:, own].astype(float), bias=True)[0, 1] * own.sum()
    found = np.cov(drawn[:, 0, 0, 0], drawn[:, 1, 0, 0])[0, 1]
    assert found == pytest.approx(expected, abs=0.1)


def test_scores_have_limits_and_a_level_by_chance() -> None:
    index = made_index()
    found = score(STREAM, index, made_predictions(index, 0.8))
    assert found.disparity is not None
    assert found.by_chance is not None
    assert 0.02 < found.by_chance < 0.2
    assert found.disparity.low <= found.by_chance  # nobody is treated differently
    assert found.too_small == 0
    assert score(STREAM, made_index(4), made_predictions(made_index(4), 0.8)).too_small == 8


def test_intervals_hold_where_all_seeds_share_the_test_rows() -> None:
    """Models of seeds differ, and all are tested on the same rows: Student's t alone is too narrow.

    A model of seed s is right on row i if u_i < r + a_s, with u_i the difficulty of the row.
    """
    generator = np.random.default_rng(0)
    rate, rows, seeds, tries = 0.8, 300, 5, 400
    held = {"t": 0, "both": 0}
    for _ in range(tries):
        hardness = generator.random(rows)
        found = []
        for _ in range(seeds):
            hits = np.array([(hardness < rate + 0.01 * generator.standard_normal()).sum()])
            low, high = rate_limits(hits, np.array([rows]))
            found.append(Measured(float(hits[0]) / rows, float(low[0]), float(high[0])))
        alone, both = interval([one.value for one in found]), combined(found, (0.0, 1.0))
        for name, one in (("t", alone), ("both", both)):
            assert one.low is not None
            assert one.high is not None
            held[name] += one.low <= rate <= one.high
    assert held["t"] / tries < 0.75
    assert 0.94 < held["both"] / tries < 0.99


def test_widths_are_added_in_squares() -> None:
    same = [Measured(0.5, 0.4, 0.7)] * 3
    assert combined(same, (0.0, 1.0)).low == pytest.approx(0.4)
    assert combined(same, (0.0, 1.0)).high == pytest.approx(0.7)
    exact = [Measured(value, value, value) for value in (0.4, 0.5, 0.6)]
    half = interval([0.4, 0.5, 0.6]).high
    assert combined(exact, (0.0, 1.0)).high == pytest.approx(half)
    both = [Measured(value, value - 0.1, value + 0.2) for value in (0.4, 0.5, 0.6)]
    assert half is not None
    assert combined(both, (-1.0, 1.0)).high == pytest.approx(0.5 + np.hypot(half - 0.5, 0.2))
    # A gap that chance made larger than all that is likely: the interval is around its limit.
    gap = combined([Measured(0.3, 0.0, 0.2)] * 2, (0.0, 1.0))
    assert (gap.mean, gap.low, gap.high) == (pytest.approx(0.3), 0.0, pytest.approx(0.2))


def test_a_score_that_no_seed_has_is_none() -> None:
    nothing = SeedScore(None, None, None, None, None)
    assert all(over_seeds({0: nothing}, name) is None for name in SCORES)
