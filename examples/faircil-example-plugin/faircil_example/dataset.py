"""A dataset: rings around the origin, which no straight line parts."""

import numpy as np

from faircil.data.datasets import Dataset
from faircil.data.stream import Part, Parts


def rings(seed: int) -> Parts:
    """Draw four rings; the attribute is the side of the plane, with fewer samples on the left."""
    generator = np.random.default_rng(seed)

    def part(n: int) -> Part:
        y = np.arange(n) % 4
        z = (generator.random(n) < 0.25).astype(np.int64)
        angle = generator.uniform(-np.pi / 2, np.pi / 2, n) + np.pi * z
        radius = 1 + y + generator.normal(0, 0.1, n)
        x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32)
        return Part(y, z, lambda rows: x[rows])

    return Parts(
        part(800), part(400), ("first", "second", "third", "fourth"), "side", ("right", "left")
    )


RINGS = Dataset(rings, "four rings around the origin, fewer samples on the left", attribute="side")
