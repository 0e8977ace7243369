"""Fairness-aware sample weighting: statistics → measure → program → solver → weights."""

from faircil.weighting.program import WeightProgram as WeightProgram
from faircil.weighting.solver import Solution as Solution
from faircil.weighting.solver import solve as solve
from faircil.weighting.weights import FairSampleWeights as FairSampleWeights
from faircil.weighting.weights import WeightResult as WeightResult
