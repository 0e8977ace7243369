"""What a sweep is made of: runs to be made, and what became of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property

from faircil.config import RunConfig
from faircil.results.summary import RunSummary
from faircil.sweep.spent import Spent


@dataclass(frozen=True)
class Work:
    """One run to be made: a configuration and a seed."""

    config: RunConfig
    seed: int

    @cached_property
    def key(self) -> str:
        """What two pieces of work share only if they are the same run."""
        content = json.dumps([self.config.model_dump(mode="json"), self.seed], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def data(self) -> str:
        """What two pieces of work share only if they train on the same data."""
        config, settings = self.config, self.config.settings
        source = (config.dataset, config.own, config.data_sha256, config.evaluate_on)
        encoding = (config.encoder_sha256, config.text)
        order = (settings.class_order, settings.classes_per_task)
        return repr((*source, *encoding, *order, self.seed))

    @property
    def name(self) -> str:
        """What to call it in a message."""
        config = self.config
        part = " (validation)" * (config.evaluate_on == "validation")
        return f"{config.dataset} {config.label} {config.measure}{part} seed {self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What became of a piece of work: a finished run, or the problem that there is none.

    ``diverged`` says that the problem is the training itself: these settings do not work. ``spent``
    is what the time went to, where the run was made now.
    """

    work: Work
    run: RunSummary | None
    problem: str | None = None
    diverged: bool = False
    spent: Spent | None = field(default=None, compare=False)
