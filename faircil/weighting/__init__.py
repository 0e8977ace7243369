"""Fairness-aware sample weighting: statistics → measure → program → solver → weights.

The names are imported on first use, so that listing measures or solvers does not need torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faircil.registry import load_reference

if TYPE_CHECKING:
    from faircil.weighting.choice import WeightResult as WeightResult
    from faircil.weighting.program import Solution as Solution, WeightProgram as WeightProgram
    from faircil.weighting.solver import solve as solve
    from faircil.weighting.weights import FairSampleWeights as FairSampleWeights

_PUBLIC = {
    "FairSampleWeights": "faircil.weighting.weights",
    "Solution": "faircil.weighting.program",
    "WeightProgram": "faircil.weighting.program",
    "WeightResult": "faircil.weighting.choice",
    "solve": "faircil.weighting.solver",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'faircil.weighting' has no attribute '{name}'")
    return load_reference(f"{_PUBLIC[name]}:{name}")
