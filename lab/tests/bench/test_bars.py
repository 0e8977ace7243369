from __future__ import annotations

from faircil_lab.bench.benchmark import BarPart, split_bars


def test_parts_follow_each_other_and_words_stand_at_the_end() -> None:
    layers = [BarPart("first", "#000000", [1.0, 2.0]), BarPart("second", "#FF0000", [3.0, 0.5])]
    (axes,) = split_bars(["a", "b"], layers, ["four", "two"], "seconds").axes
    bars = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert bars == [(0, 1), (0, 2), (1, 3), (2, 0.5)]
    assert [(text.get_position(), text.get_text().strip()) for text in axes.texts] == [
        ((4, 0), "four"),
        ((2.5, 1), "two"),
    ]
    assert axes.get_xlim()[1] > 4
    assert axes.yaxis_inverted()
