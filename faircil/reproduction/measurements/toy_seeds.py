"""What the seeds of the toy say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from faircil.reproduction.measurements.statements import (
    Statement,
    above_zero,
    not_run,
    statement,
    written,
)
from faircil.reproduction.measurements.toy import ToySeed
from faircil.reproduction.published import Value, published
from faircil.statistics import interval
from faircil.weighting.groups import Floats

ANGLES = {"neighbour": "angle g2 g1", "far": "angle g2 g0"}  # by our name, the published ones
LAYERS = {"last": "last layer", "every": "all layers"}
ANGLE_SAYS = {
    "neighbour": "Angle between the new class and its neighbour, g₂ and g₁ ({})",
    "far": "Angle between the new class and the far one, g₂ and g₀ ({})",
}
SAYS = (
    "Replay alone forgets the neighbour, class 1",
    "Replay alone does not forget class 0",
    "Weights turn g₂ towards g₁",
    "FSW forgets less of class 1",
    "FSW costs class 2 less than it gives class 1",
)


def published_angle(which: str) -> Value:
    """Return an angle as the paper prints it."""
    value = published("toy").value("toy", "fsw", ANGLES[which])
    assert value is not None
    return value


@dataclass(frozen=True)
class ToySeeds:
    """What all seeds have measured."""

    seeds: Sequence[ToySeed]

    def angles(self, layers: str, which: str) -> list[float]:
        """Return an angle, seed by seed."""
        return [getattr(getattr(seed, layers), which) for seed in self.seeds]

    def accuracy(self, method: str) -> Floats:
        """Return the accuracy of each class over epochs, (seeds, 1 + epochs, 3)."""
        return np.array([getattr(seed, method) for seed in self.seeds])

    def statements(self) -> list[Statement]:
        """Check what the paper says."""
        angles = [
            self._angle(which, layers, name) for which in ANGLES for layers, name in LAYERS.items()
        ]
        replay, fsw = self.accuracy("replay"), self.accuracy("fsw")
        lost, lost_fsw = replay[:, 0] - replay[:, -1], fsw[:, 0] - fsw[:, -1]
        turned = [s.turns[0].before.neighbour - s.turns[0].after.neighbour for s in self.seeds]
        after = [seed.turns[0].after.neighbour for seed in self.seeds]
        gained = fsw[:, -1] - replay[:, -1]
        lost_1, lost_0 = (interval(lost[:, label].tolist()) for label in (1, 0))
        less, balance = (
            interval(values.tolist())
            for values in (lost[:, 1] - lost_fsw[:, 1], gained[:, 1] + gained[:, 2])
        )
        return [
            *angles,
            statement(SAYS[0], f"accuracy lost {written(lost_1)}", above_zero(lost_1)),
            statement(SAYS[1], f"accuracy lost {written(lost_0, 3)}", not above_zero(lost_0)),
            statement(
                SAYS[2],
                f"by {written(interval(turned), 0, '°')}, to {written(interval(after), 0, '°')}",
                above_zero(interval(turned)),
            ),
            statement(SAYS[3], f"by {written(less)}", above_zero(less)),
            statement(
                SAYS[4],
                f"class 1 {gained[:, 1].mean():+.2f}, class 2 {gained[:, 2].mean():+.2f}; "
                f"sum {written(balance)}".replace("-", "−"),
                above_zero(balance),
            ),
        ]

    def _angle(self, which: str, layers: str, name: str) -> Statement:
        """Compare an angle with the published one, taken as that of a single run.

        One of ours lies within √(n + 1) times the half-width of the interval of the mean over n.
        """
        paper, found = published_angle(which), interval(self.angles(layers, which))
        half = 0.0 if found.high is None else found.high - found.mean
        reach = half * sqrt(len(self.seeds) + 1) + paper.rounding
        same = abs(found.mean - paper.mean) <= reach
        says, ours = ANGLE_SAYS[which].format(name), written(found, 1, "°")
        return statement(says, ours, same, f"{paper}°")

    def answer(self) -> str:
        """Say what came out."""
        near, far = (
            f"{written(interval(self.angles('last', which)), 1, '°')}, published "
            f"{published_angle(which)}°,"
            for which in ANGLES
        )
        replay, fsw = (self.accuracy(method)[:, -1].mean(axis=0) for method in ("replay", "fsw"))
        return (
            f"At the start of the second task the new class is {near} from its neighbour and {far} "
            f"from the far class. Replay alone ends at an accuracy of {replay[1]:.2f} on the "
            f"neighbour, FSW at {fsw[1]:.2f}; the new class has {replay[2]:.2f} and {fsw[2]:.2f}."
        )


def without_seeds(problem: str) -> list[Statement]:
    """Return the statements where nothing was measured."""
    angles = [
        not_run(ANGLE_SAYS[which].format(name), problem, f"{published_angle(which)}°")
        for which in ANGLES
        for name in LAYERS.values()
    ]
    return [*angles, *(not_run(says, problem) for says in SAYS)]
