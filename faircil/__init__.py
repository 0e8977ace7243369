"""Fair class-incremental learning.

The public names load on first use, so that ``import faircil`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faircil.samples import Samples as Samples
    from faircil.weighting.weights import FairSampleWeights as FairSampleWeights

__version__ = "0.1.0"
_PUBLIC = {
    "Samples": "faircil.samples",
    "FairSampleWeights": "faircil.weighting.weights",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'faircil' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
