"""Tables with times: gradients of the last layer against all, and the methods' whole runs."""

from __future__ import annotations

from faircil.reproduction.contenders import FSW, REPLAY, Contender
from faircil.reproduction.exhibits.tables import ALL_METHODS
from faircil.reproduction.layout import Column, Pair, Row
from faircil.reproduction.table_page import ComparisonTable
from faircil.reproduction.targets import Target

SPLIT = ("seconds gradient", "seconds lp", "seconds train")
ABOUT = (
    "Published times are of an Intel Xeon Silver 4114 with an NVIDIA RTX A6000. Ours are of the "
    "machines named below, and of runs side by side where the sweep made several at a time."
)
BIASED_EO = Target("biased-mnist", "eo")
ALL_LAYERS = Contender("FSW, all layers", "fsw", fixed=("gradient=all",))
LAYERS = ComparisonTable(
    "Gradients of the last layer, and of all layers",
    "layers",
    (Row(FSW, "fsw"), Row(ALL_LAYERS, "fsw all layers")),
    (Column(BIASED_EO, ("accuracy", "eo_gap", *SPLIT, "samples kept")),),
    (Pair(ALL_LAYERS.name, FSW.name),),
    f"{ABOUT} Samples kept are those with a weight above 0, per optimisation.",
)
TIMES = ("seconds total", *SPLIT)
RUNTIME = ComparisonTable(
    "Seconds of whole runs, and where those of FSW go",
    "runtime",
    (
        *(row for row in ALL_METHODS if row.published not in (None, "joint", "finetune")),
        Row(REPLAY),
    ),
    (
        Column(BIASED_EO, TIMES),
        Column(Target("biased-mnist", "dp"), TIMES, only=(FSW.name, REPLAY.name)),
        Column(Target("mnist", "eer"), TIMES, only=(FSW.name, REPLAY.name)),
    ),
    about=ABOUT,
)
