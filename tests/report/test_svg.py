from __future__ import annotations

import re

import pytest

from faircil.report.svg import Axis, Point, Series, fall_bar, front_chart, line_chart, marker


def test_ticks_are_round_and_within_the_scale() -> None:
    assert Axis(0.0, 0.37, 0, 1).ticks == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert Axis(-0.1, 1.0, 0, 1).ticks == pytest.approx([0.0, 0.5, 1.0])


def test_a_line_has_gaps_where_values_are_missing() -> None:
    drawn = line_chart([Series("a", (0.1, None, 0.3, 0.4))], title="t")
    (path,) = re.findall(r'class="line s0" d="([^"]+)"', drawn)
    assert re.sub(r"[\d. ]+", "", path) == "MML"


def test_nothing_is_drawn_outside() -> None:
    wide = Series("a", (0.1, 0.2), (-1.0, -1.0), (3.0, 3.0))
    drawn = line_chart([wide], title="t", size=(340, 210))
    (band,) = re.findall(r'class="band s0" points="([^"]+)"', drawn)
    heights = [float(pair.split(",")[1]) for pair in band.split()]
    assert min(heights) >= 0
    assert max(heights) <= 210


@pytest.mark.parametrize("values", [(0.0,), (0.0, 0.0), (1.0,) * 30])
def test_odd_lines(values: tuple[float, ...]) -> None:
    assert "<svg" in line_chart([Series("a", values)], title="t")


def test_marks_of_the_same_colour_differ() -> None:
    shapes = {re.sub(r"<title>.*", "", marker(style, 0, 0)) for style in range(49)}
    assert len(shapes) == 49


def test_one_point_makes_no_line() -> None:
    one = Point("a", (0.1, None, None), (0.5, 0.4, 0.6), on_front=True)
    drawn = front_chart([one], title="t", across_title="gap")
    assert 'class="front"' not in drawn
    two = Point("b", (0.2, 0.1, 0.3), (0.9, None, None), style=1, on_front=True)
    assert 'class="front"' in front_chart([one, two], title="t", across_title="gap")


def test_a_fall_goes_from_the_best_to_the_end() -> None:
    drawn = fall_bar(1.0, 0.0, 2, "all lost")
    assert 'class="fall s2" d="M154.0 9H6.0"' in drawn
    assert "<title>all lost</title>" in drawn
