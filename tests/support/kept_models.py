"""Use of a model in another process (importable by processes)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from faircil import FairIncrementalClassifier


def predict_beside(models: Sequence[Path], inputs: Path) -> None:
    """Read models and inputs, and write the probabilities of all classes next to each model."""
    for model in models:
        found = FairIncrementalClassifier.load(model).predict_proba(np.load(inputs))
        np.save(model.with_suffix(".npy"), found)
