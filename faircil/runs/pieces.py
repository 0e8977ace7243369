"""The code that a run depends on: the run loop and the components that its configuration names."""

from __future__ import annotations

from faircil.buffer import RULES
from faircil.data.datasets import DATASETS
from faircil.data.own import load_own
from faircil.learners import LEARNERS
from faircil.postprocess import POSTPROCESSES
from faircil.results.code import digest_code
from faircil.runs.config import RunConfig
from faircil.weighting.losses import LOSSES
from faircil.weighting.measures import MEASURES
from faircil.weighting.selection import WEIGHTINGS
from faircil.weighting.solver import DEFAULT, SOLVERS

LOOP = ("faircil.runs.experiment",)
# Tables of pieces: a run depends on the rows that it uses, not on the others.
TABLES = (
    "faircil.learners:_BUILT_IN",
    "faircil.data.datasets:_BUILT_IN",
    "faircil.weighting.measures:_BUILT_IN",
    "faircil.weighting.losses:_BUILT_IN",
    "faircil.weighting.solver:_BUILT_IN",
    "faircil.weighting.selection:WEIGHTINGS",
    "faircil.buffer:_BUILT_IN",
    "faircil.postprocess:POSTPROCESSES",
)


def pieces_of(config: RunConfig) -> list[object]:
    """Return the rows of the tables that a run uses."""
    weights = config.settings.weights
    loss, solver = str(weights.loss), str(weights.solver)  # functions are for own loops only
    pieces: list[object] = [
        load_own if config.own is not None else DATASETS[config.dataset],
        LEARNERS[config.method],
        WEIGHTINGS[config.weighting],
        MEASURES[config.measure],
        LOSSES[loss],
        SOLVERS[DEFAULT if solver == "auto" else solver],
    ]
    if (rule := getattr(config.settings.learner, "buffer_rule", None)) is not None:
        pieces.append(RULES[rule])
    if config.postprocess != "none":
        pieces.append(POSTPROCESSES[config.postprocess])
    return pieces


def code_digest(config: RunConfig) -> str:
    """Return a short hash of the code that can change the result of a run."""
    return digest_code(LOOP, pieces_of(config), TABLES)
