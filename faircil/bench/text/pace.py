"""How long the benchmark would take on a CPU."""

from __future__ import annotations

import torch

from faircil.bench.text.cases import EMBEDDINGS, TRAININGS
from faircil.bench.text.workload import BATCH, TASKS, Workload
from faircil.bench.timing import medians

SIZE = 512  # rows and columns of the product that is timed
BACKWARD = 2  # passes that a backward pass is worth
PATIENCE = 600.0  # seconds that nobody has to be asked about


def flops(workload: Workload) -> float:
    """Return the products and sums of the whole benchmark, roughly."""
    task = workload.rows / TASKS * workload.tokens
    step = 2 * BATCH * workload.tokens
    # A way to train with a smaller budget goes forward twice.
    passes = sum(1 + BACKWARD + (step > way.token_budget) for way in TRAININGS)
    steps = min(workload.steps, -(-workload.rows // TASKS // BATCH))
    tokens = (1 + workload.repeats) * (2 * task + steps * step * passes)
    for case in EMBEDDINGS:
        times = 1 if case.part == 1 else workload.repeats
        tokens += times * case.part * workload.rows * workload.tokens
    return tokens * workload.flops_per_token


def cpu_seconds(workload: Workload) -> float:
    """Return how long this CPU would take, from the time of a matrix product."""
    matrix = torch.ones(SIZE, SIZE)
    seconds = medians({"product": lambda: matrix @ matrix}, 5)["product"]
    return flops(workload) / (2 * SIZE**3 / seconds)


def spoken(seconds: float) -> str:
    """Write a long time as people would say it.

    Examples
    --------
    >>> spoken(90), spoken(5400), spoken(400_000)
    ('2 minutes', '1.5 hours', '4.6 days')
    """
    if seconds < 3600:
        return f"{seconds / 60:.0f} minutes"
    hours = seconds / 3600
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.1f} days"
