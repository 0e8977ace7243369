"""Bars that are split into parts, with words beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure


@dataclass(frozen=True)
class Layer:
    """A part that all bars have: its name, its colour, and its length in each."""

    name: str
    colour: str
    lengths: Sequence[float]


def split_bars(
    names: Sequence[str], layers: Sequence[Layer], words: Sequence[str], unit: str
) -> Figure:
    """Draw a bar per name from its parts.

    Parameters
    ----------
    names : sequence of str, length n
        From top to bottom.
    layers : sequence of Layer
        From left to right.
    words : sequence of str, length n
        To the right of the bars.
    unit : str
        What the length of a bar is.
    """
    figure = Figure(figsize=(8.4, 1.6 + 0.45 * len(names)), layout="constrained")
    axes = figure.subplots()
    left = [0.0] * len(names)
    for layer in layers:
        axes.barh(names, layer.lengths, left=left, color=layer.colour, label=layer.name, height=0.6)
        left = [start + length for start, length in zip(left, layer.lengths, strict=True)]
    for position, (text, end) in enumerate(zip(words, left, strict=True)):
        axes.text(end, position, f"  {text}", va="center", fontsize=9)
    axes.set_xlim(0, 1.4 * max(left))  # room for the words
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="x", alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure
