"""Where the time of an epoch goes, as a picture."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from faircil.bench.bars import Layer, split_bars
from faircil.bench.text.summary import Epoch
from faircil.bench.text.tables import percent
from faircil.plots import COLOURS

# Fields of an epoch, what people call them, and their colours.
PARTS = (
    ("training", "training", COLOURS[0]),
    ("forward", "one pass of the encoder", COLOURS[4]),
    ("beyond", "statistics beyond it", COLOURS[1]),
    ("lp", "linear program", COLOURS[6]),
)


def epoch_bars(epochs: Sequence[Epoch]) -> Figure:
    """Draw a bar per epoch, split into its parts."""
    layers = [
        Layer(name, colour, [getattr(epoch, field) for epoch in epochs])
        for field, name, colour in PARTS
    ]
    words = [
        f"{percent(epoch.share_beyond)} beyond the pass" if epoch.forward > 0 else ""
        for epoch in epochs
    ]
    return split_bars([epoch.name for epoch in epochs], layers, words, "seconds of an epoch")
