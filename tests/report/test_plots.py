from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faircil.errors import FaircilError
from faircil.metrics import METRICS
from faircil.report import group_runs
from faircil.report.plots import GroupPanel, Plane, over_tasks, save
from run_summaries import make_run

RUNS = [
    make_run("er", accuracy=0.8),
    make_run("er", seed=1, accuracy=0.6),
    make_run("fsw", accuracy=0.9, eo=None),
]


def test_line_is_the_mean_and_band_the_deviation() -> None:
    (axes,) = over_tasks(group_runs(RUNS), ("accuracy",), "title").axes
    er, fsw = axes.get_lines()
    np.testing.assert_allclose(er.get_ydata(), [0.7, 0.7])
    np.testing.assert_allclose(er.get_xdata(), [1, 2])
    np.testing.assert_allclose(fsw.get_ydata(), [0.9, 0.9])
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([heights.min(), heights.max()], [0.7 - 0.02**0.5, 0.7 + 0.02**0.5])


def test_every_metric_has_a_panel_and_every_configuration_a_name() -> None:
    figure = over_tasks(group_runs(RUNS), list(METRICS), "all metrics")
    assert [axes.get_title() for axes in figure.axes] == [m.axis_title for m in METRICS.values()]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["er", "fsw"]


def test_metric_that_does_not_apply_is_a_gap(tmp_path: Path) -> None:
    figure = over_tasks(group_runs(RUNS), ("eo", "forgetting"), "gaps")
    eo, forgetting = figure.axes
    assert np.isnan(eo.get_lines()[1].get_ydata()).all()
    assert np.isnan(forgetting.get_lines()[0].get_ydata()).tolist() == [True, False]
    assert len(save(figure, tmp_path / "gaps")) == 2


def test_negative_forgetting_is_in_sight() -> None:
    rows = group_runs([make_run("er", forgetting=-0.2)])
    (axes,) = over_tasks(rows, ("forgetting",), "better").axes
    assert axes.get_ylim()[0] < -0.2


def test_levelling_down_is_hollow() -> None:
    """Fine-tuning has the lower gap, and the lower accuracy of the worst group."""
    made = [
        make_run("finetune", eo_gap=0.1, worst_group=0.0),
        make_run("er", eo_gap=0.3, worst_group=0.4),
    ]
    figure = over_tasks(group_runs(made), ("worst_group", "eo_gap"), "title")
    worst, gap = figure.axes
    assert len(worst.get_lines()) == 2
    hollow = [line for line in gap.get_lines() if line.get_markerfacecolor() == "white"]
    assert [line.get_ydata().tolist() for line in hollow] == [[0.1, 0.1]]
    assert "levelling down" in figure.legends[0].get_texts()[-1].get_text()
    honest = [make_run("er", eo_gap=0.3, worst_group=0.4), make_run("fsw", eo_gap=0.1)]
    figure = over_tasks(group_runs(honest), ("eo_gap",), "title")
    assert len(figure.axes[0].get_lines()) == 2


def test_points_are_drawn_above_with_those_predicted_wrong(tmp_path: Path) -> None:
    x = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]])
    plane = Plane("er", x, ["a", "a", "b"], ["a", "b", "b"])
    figure = over_tasks(group_runs(RUNS), ("accuracy", "eo_gap"), "title", [plane])
    assert len(figure.axes) == 3
    *classes, wrong = figure.axes[0].collections
    assert [len(some.get_offsets()) for some in classes] == [2, 1]
    np.testing.assert_array_equal(wrong.get_offsets(), [[1.0, 0.0]])
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text() == "class a: 50% right"
    # The region of a class is where it is predicted of the nearest sample.
    regions = np.asarray(figure.axes[0].get_images()[0].get_array())
    assert regions[0, 0] == 0
    assert regions[-1, -1] == regions[0, -1] == 1
    assert len(save(figure, tmp_path / "points")) == 2


def test_groups_are_drawn_class_by_class() -> None:
    accuracy = {("a", "women"): 0.9, ("a", "men"): 0.5, ("b", "men"): 0.7}
    figure = over_tasks(group_runs(RUNS), ("accuracy",), "title", [GroupPanel("er", accuracy)])
    axes = figure.axes[0]
    assert [line.get_ydata().tolist() for line in axes.get_lines()] == [[0.5, 0.9], [0.7, 0.7]]
    women, men = (some.get_offsets().tolist() for some in axes.collections)
    assert women == [[0.0, 0.9]]
    assert men == [[0.0, 0.5], [1.0, 0.7]]


def test_files(tmp_path: Path) -> None:
    figure = over_tasks(group_runs(RUNS), ("accuracy", "eo_gap"), "title")
    png, svg = save(figure, tmp_path / "new" / "v1.0")
    assert png.name == "v1.0.png"
    assert png.read_bytes().startswith(b"\x89PNG")
    content = svg.read_bytes()
    assert b"<svg" in content
    same = over_tasks(group_runs(RUNS), ("accuracy", "eo_gap"), "title")
    save(same, tmp_path / "new" / "v1.0")
    assert svg.read_bytes() == content


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    figure = over_tasks(group_runs(RUNS), ("accuracy",), "title")
    with pytest.raises(FaircilError, match="cannot write the figure"):
        save(figure, tmp_path / "file" / "figure")
