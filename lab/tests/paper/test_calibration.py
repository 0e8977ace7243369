from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from faircil_lab.paper import calibration
from faircil_lab.paper.calibration import (
    FITTED,
    PLAIN,
    Calibration,
    CalibrationOfRun,
    Fit,
    Fits,
    GroupFit,
    bin_count,
    calibration_error,
    error_by_chance,
    fit_of,
)
from faircil_lab.paper.exhibit import Results
from faircil_lab.paper.store import NOT_MADE, Measured


def test_the_error_is_that_of_a_loop_over_bins() -> None:
    generator = np.random.default_rng(0)
    certain = generator.random(157)
    right = generator.random(157) < certain**2
    rows = sorted(range(157), key=lambda row: certain[row])
    sizes = [11] * 7 + [10] * 8  # of 15 bins; the first are one larger
    slow, start = 0.0, 0
    for size in sizes:
        part = rows[start : start + size]
        start += size
        mean = sum(certain[row] for row in part) / size
        accuracy = sum(bool(right[row]) for row in part) / size
        slow += size / 157 * abs(mean - accuracy)
    assert calibration_error(certain, right) == pytest.approx(slow, rel=1e-12)
    assert [bin_count(n) for n in (3, 19, 20, 149, 150, 9000)] == [1, 1, 2, 14, 15, 15]


def test_chance_leaves_less_with_more_rows() -> None:
    certain = np.full(4000, 0.8)
    # The distance of a bin's accuracy from .8 has the mean √(2/π · .16/m), for m rows of a bin.
    for n in (300, 4000):
        expected = np.sqrt(2 / np.pi * 0.16 / (n / 15))
        # 200 draws of 15 bins: the standard error is below .76/√3000 = 1.4 % of it.
        assert error_by_chance(certain[:n]) == pytest.approx(expected, rel=0.06)
    assert error_by_chance(np.ones(100)) == 0


def test_groups_are_measured_on_their_own_rows() -> None:
    scores = torch.log(torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.7, 0.3]]))
    fit = fit_of(scores, torch.tensor([0, 1, 1, 1]), ["a", "b", "b", "b"], 2.0)
    assert (fit.whole.group, fit.whole.n, fit.whole.accuracy) == ("", 4, 0.5)
    first, second = fit.groups
    assert (first.group, first.n, first.accuracy) == ("a", 1, 1.0)
    assert first.error == pytest.approx(0.1)
    assert second.error == pytest.approx((0.6 + 0.8 + 0.7) / 3 - 1 / 3)
    assert second.log_loss == pytest.approx(-np.log([0.4, 0.8, 0.3]).mean())
    assert fit.judged == []


@pytest.mark.parametrize("dataset", ["toy", "toy-groups"])
def test_a_run_is_measured(dataset: str) -> None:
    fits = CalibrationOfRun(dataset, "moments", ("width=20",), 0).compute().kinds
    assert list(fits) == [FITTED, PLAIN]
    fitted, plain = fits[FITTED], fits[PLAIN]
    assert fitted.temperature != plain.temperature == 1.0
    assert fitted.whole.accuracy == plain.whole.accuracy
    assert fitted.whole.log_loss < plain.whole.log_loss
    assert sum(group.n for group in fitted.groups) == fitted.whole.n
    names = [group.group for group in fitted.groups]
    assert names == (["0", "1", "2"] if dataset == "toy" else ["0, 0", "0, 1", "1, 1"])


def made(measurement: CalibrationOfRun, _: Results) -> Measured[Fits]:
    if measurement.dataset == "drug":
        return Measured(measurement, None, "not run: files absent (x)")

    def fit(error: float, t: float | None) -> Fit:
        groups = tuple(
            GroupFit(name, n, 0.9, error + off, 0.01, 3 * error + off)
            for name, n, off in (("a, F", 50, 0.0), ("a, M", 20, 0.1), ("b, M", 2, 0.7))
        )
        return Fit(t, GroupFit("", 72, 0.9, error, 0.01, 3 * error), groups)

    if measurement.method == "moments":
        # Files have names in the order of the alphabet.
        return Measured(measurement, Fits({PLAIN: fit(0.3, 1.0), FITTED: fit(0.02, 0.5)}))
    return Measured(measurement, Fits({FITTED: fit(0.1, None)}))


def test_the_page_has_all_groups_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "look_up", made)
    page = Calibration(seeds=(0, 1)).page(Results({}, {}, tmp_path))
    assert page.verdicts == ()
    assert page.answer.startswith(
        "digits: ECE / log loss of `moments` .020 / .060 with the temperature from its sums, "
        ".300 / .900 without; er .100 / .300,"
    )
    headings = [section.heading for section in page.sections]
    assert headings[1:4] == ["digits", "digits, by group", "Biased digits"]
    assert page.sections[headings.index("DRUG")].text == "Not run: files absent (x)."
    assert "DRUG, by group" not in headings
    table, groups = page.sections[1].table, page.sections[2].table
    assert table is not None
    assert groups is not None
    assert table.rows[0] == (
        "moments, as predicted",
        *(".900 ± .000", ".020 ± .000", ".010 ± .000"),
        *(".070 ± .000", ".010 ± .000", ".060 ± .000", ".160 ± .000"),
    )
    assert [row[0] for row in table.rows] == [
        "moments, as predicted", "moments, T = 1", "er", "der++", "gdumb",
    ]  # fmt: skip
    # A group of two rows is not judged.
    assert [row[:2] for row in groups.rows] == [("a, F", ".020 / .060"), ("a, M", ".120 / .160")]
    assert page.sections[1].text == "T of `moments`: 0.5, 0.5."


def test_nothing_is_run_where_that_is_not_wanted(tmp_path: Path) -> None:
    page = Calibration().page(Results({}, {}, tmp_path, run_missing=False))
    assert page.answer == "Nothing was measured."
    assert NOT_MADE.capitalize() in page.sections[1].text
