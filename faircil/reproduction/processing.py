"""Post-processing of finished runs, kept: it takes about a second each, and a page has many."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from faircil.reproduction.measurements.store import Measurement
from faircil.results import checksums
from faircil.results.folder import read_run
from faircil.results.processed import process_run
from faircil.results.summary import RunSummary


@dataclass(frozen=True)
class Processed:
    """All metrics of a run without post-processing, then with each ε."""

    metrics: tuple[dict[str, float | None], ...]


@dataclass(frozen=True)
class Processing(Measurement[Processed]):
    """A run and the ε to try.

    Parameters
    ----------
    folder : str
        Of the run; it may be moved.
    content : str
        SHA-256 of the run's list of checksums: other files, another measurement.
    epsilons : tuple of float
    """

    name: ClassVar[str] = "epsilon-fair"
    values: ClassVar[type[Processed]] = Processed

    folder: str
    content: str
    epsilons: tuple[float, ...]

    def identity(self) -> dict[str, Any]:
        """Return what was in the run and the ε, wherever the run is kept."""
        return {"content": self.content, "epsilons": self.epsilons}

    def compute(self) -> Processed:
        """Post-process the run; DataError where it has no probabilities."""
        found = process_run(read_run(Path(self.folder)), self.epsilons)
        return Processed(tuple(dict(one.metrics) for one in found))


def processing_of(run: RunSummary, epsilons: tuple[float, ...]) -> Processing:
    """Return the measurement of a finished run."""
    file = Path(run.dir) / checksums.FILE
    content = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
    return Processing(run.dir, content, epsilons)
