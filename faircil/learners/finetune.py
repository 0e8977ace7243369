"""Fine-tuning: the current task and nothing else. Forgets; the lower bound."""

from __future__ import annotations

from faircil.learners.base import Learner


class FineTune(Learner):
    """Train on each task as it comes."""

    summary = "the current task alone (lower bound)"
    source = "–"
    no_weighting = "it keeps no buffer, so the losses of old groups cannot be measured"
