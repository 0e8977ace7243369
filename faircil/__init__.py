"""Fair class-incremental learning.

The public names load on first use, so that ``import faircil`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faircil.auditing import Audit as Audit, audit as audit
    from faircil.auditing.reading import audit_dask as audit_dask
    from faircil.buffer import ReplayBuffer as ReplayBuffer
    from faircil.data.stream import Task as Task, TaskStream as TaskStream
    from faircil.errors import FaircilError as FaircilError
    from faircil.metrics import evaluate as evaluate
    from faircil.model.estimator import (
        FairIncrementalClassifier as FairIncrementalClassifier,
    )
    from faircil.postprocess.epsilon_fair import EpsilonFair as EpsilonFair
    from faircil.ranks import Ranks as Ranks
    from faircil.registry import register as register
    from faircil.runs.config import RunConfig as RunConfig
    from faircil.runs.experiment import run as run
    from faircil.runs.preflight import diagnose as diagnose
    from faircil.sampler import FairSampler as FairSampler
    from faircil.samples import Samples as Samples
    from faircil.weighting.choice import WeightResult as WeightResult
    from faircil.weighting.forecast import forecast as forecast
    from faircil.weighting.measures import Measure as Measure
    from faircil.weighting.program import WeightProgram as WeightProgram
    from faircil.weighting.solver import solve as solve
    from faircil.weighting.weights import FairSampleWeights as FairSampleWeights

__version__ = "0.2.0"
_PUBLIC = {
    "Audit": "faircil.auditing",
    "EpsilonFair": "faircil.postprocess.epsilon_fair",
    "FairIncrementalClassifier": "faircil.model.estimator",
    "FairSampleWeights": "faircil.weighting.weights",
    "FairSampler": "faircil.sampler",
    "FaircilError": "faircil.errors",
    "Measure": "faircil.weighting.measures",
    "Ranks": "faircil.ranks",
    "ReplayBuffer": "faircil.buffer",
    "RunConfig": "faircil.runs.config",
    "Samples": "faircil.samples",
    "Task": "faircil.data.stream",
    "TaskStream": "faircil.data.stream",
    "WeightProgram": "faircil.weighting.program",
    "WeightResult": "faircil.weighting.choice",
    "audit": "faircil.auditing",
    "audit_dask": "faircil.auditing.reading",
    "diagnose": "faircil.runs.preflight",
    "evaluate": "faircil.metrics",
    "forecast": "faircil.weighting.forecast",
    "register": "faircil.registry",
    "run": "faircil.runs.experiment",
    "solve": "faircil.weighting.solver",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'faircil' has no attribute '{name}'")
    value = getattr(import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
