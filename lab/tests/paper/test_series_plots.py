from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faircil_lab.paper.drawing import (
    OTHERS,
    REFERENCE,
    LinePanel,
    Style,
    draw_lines,
    make_line,
    style_of,
    write_png,
)
from faircil_lab.paper.tradeoff import Cloud, LabelledCurve, draw_tradeoff
from faircil_lab.paper.weights_page import Bar, BarPanel, draw_bars


def test_a_line_is_the_mean_with_its_interval_and_a_gap_where_a_value_is_missing() -> None:
    line = make_line("a", style_of(0), (1, 2, 3), [[0.4, 0.6], [0.5, None], [0.7]])
    assert line.middle == pytest.approx([0.5, np.nan, 0.7], nan_ok=True)
    half = 12.706 * 0.1  # Student's t with one degree of freedom, times the standard error
    assert line.low == pytest.approx([0.5 - half, np.nan, np.nan], nan_ok=True, rel=1e-4)
    assert line.high == pytest.approx([0.5 + half, np.nan, np.nan], nan_ok=True, rel=1e-4)


def test_lines_that_are_compared_look_different() -> None:
    assert len({style_of(number) for number in range(12)}) == 12
    assert REFERENCE not in OTHERS


def test_every_row_has_a_legend_and_bounds_do_not_set_the_limits() -> None:
    low = make_line("bound", Style(REFERENCE, ""), (1, 2), [[0.1], [0.0]])
    line = make_line("method", style_of(0), (1, 2), [[0.9], [0.8]])
    panel = LinePanel("accuracy", "after task", (low, line))
    figure = draw_lines([[panel, panel], [panel, panel]], "title")
    assert len(figure.axes) == 4
    bottom, top = figure.axes[0].get_ylim()
    assert 0.7 < bottom < 0.8
    assert 0.9 < top < 1.0
    legends = [axes.get_legend() for axes in figure.axes]
    assert [legend is not None for legend in legends] == [False, True, False, True]
    assert legends[1] is not None
    assert [text.get_text() for text in legends[1].get_texts()] == ["bound", "method"]


def test_sizes_that_double_have_ticks_of_their_own() -> None:
    line = make_line("a", style_of(0), (16, 32, 128), [[1.0], [1.0], [1.0]])
    axes = draw_lines([[LinePanel("x", "size", (line,))]], "title", doubling=True).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["16", "32", "128"]


def test_the_same_figure_gives_the_same_file(tmp_path: Path) -> None:
    line = make_line("a", style_of(0), (1, 2), [[0.1, 0.2], [0.2, 0.3]])
    for name in ("a.png", "b.png"):
        write_png(draw_lines([[LinePanel("x", "task", (line,))]], "title"), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_labels_of_points_that_lie_together_are_one() -> None:
    points = np.array([[0.90, 0.030], [0.9001, 0.0301], [0.93, 0.045]])
    cloud = Cloud("other", style_of(0), np.array([[0.5, 0.2]]), ours=True)
    figure = draw_tradeoff(
        LabelledCurve("FSW", ("0", ".1", "1"), points), [cloud], "title", "disparity"
    )
    whole, near = figure.axes
    assert [text.get_text() for text in near.texts] == ["0, .1", "1"]
    assert whole.get_xlim()[0] < 0.5 < near.get_xlim()[0]
    assert near.get_ylim()[0] >= 0


def test_bars_stand_by_class_and_value_and_the_worse_ones_are_marked() -> None:
    bars = (
        Bar("2", "own", 0.2, 0.1, 0.3, worse=False),
        Bar("2", "other", 0.9, 0.6, 1.2, worse=True),
    )
    figure = draw_bars([BarPanel("task 2", bars), BarPanel("task 3", bars)], "title", "colour")
    axes = figure.axes[0]
    assert [patch.get_height() for patch in axes.patches] == [0.2, 0.9]  # type: ignore[attr-defined]
    marks = [line for line in axes.lines if line.get_marker() == "v"]
    assert [line.get_ydata()[0] for line in marks] == [pytest.approx(1.05)]  # type: ignore[index]
    assert max(line.get_ydata().max() for line in axes.lines if line not in marks) == 1.0  # type: ignore[union-attr]
    legend = figure.axes[-1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["own", "other", "larger loss"]
