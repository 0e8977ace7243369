"""Training data in the plane by t-SNE, and how much classes overlap there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from threadpoolctl import threadpool_limits

from faircil.data.datasets import load_dataset
from faircil.reproduction.measurements.store import Measurement
from faircil.samples import concatenate
from faircil.weighting.groups import Floats

SAMPLES = 2000
COMPONENTS = 50  # principal ones that t-SNE starts from
NEIGHBOURS = 10

Integers = NDArray[np.int64]
Trio = tuple[int, int, int]


@dataclass(frozen=True)
class Plane:
    """Samples in the plane.

    Parameters
    ----------
    points : tuple
        x₁ and x₂ of n samples.
    labels, attributes : tuple of int
        Class and attribute value of each; no attributes where there are none.
    names : tuple of str
        Of the classes.
    """

    points: tuple[tuple[float, float], ...]
    labels: tuple[int, ...]
    attributes: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class DataInPlane(Measurement[Plane]):
    """t-SNE of a part of a dataset's training data, drawn at random."""

    name: ClassVar[str] = "tsne"
    values: ClassVar[type[Plane]] = Plane

    dataset: str
    samples: int = SAMPLES
    seed: int = 0

    def compute(self) -> Plane:
        """Load, reduce and embed."""
        # Imported here: it takes a second, and what is kept does not need it.
        from sklearn.decomposition import PCA
        from sklearn.manifold import TSNE

        stream = load_dataset(self.dataset, self.seed)
        data = concatenate([task.train for task in stream.tasks])
        size = min(self.samples, len(data))
        rows = np.random.default_rng(self.seed).choice(len(data), size=size, replace=False)
        x = data.x.numpy()[rows].reshape(size, -1)
        components = min(COMPONENTS, x.shape[1])
        # One thread: the sums of several would differ in the last bits, and those grow.
        with threadpool_limits(1):
            reduced = PCA(components, random_state=self.seed).fit_transform(x)
            points = TSNE(random_state=self.seed).fit_transform(reduced)
        return Plane(
            points=tuple((x, y) for x, y in points.astype(float).round(2).tolist()),
            labels=tuple(data.y.numpy()[rows].tolist()),
            attributes=() if data.z is None else tuple(data.z.numpy()[rows].tolist()),
            names=stream.class_names,
        )


def neighbour_labels(plane: Plane, k: int = NEIGHBOURS) -> Integers:
    """Return the classes of the k nearest others of each sample, (n, k)."""
    points = np.array(plane.points)
    nearest = np.asarray(KDTree(points).query(points, k + 1)[1])
    # A sample is its own nearest, unless another lies on the same point.
    own = nearest == np.arange(len(points))[:, None]
    own[~own.any(axis=1), -1] = True
    others = nearest[~own].reshape(len(points), k)
    labels: Integers = np.array(plane.labels, dtype=np.int64)[others]
    return labels


def trio_overlaps(plane: Plane, k: int = NEIGHBOURS) -> dict[Trio, float]:
    """Return, for any three classes, how much of their neighbourhood is of the other two.

    With N[a, b] the number of neighbours of class b that samples of class a have, this is the sum
    of N over unequal pairs of the three, over the number of all neighbours of their samples.
    """
    labels, classes = np.array(plane.labels), len(plane.names)
    counts = np.zeros((classes, classes))
    np.add.at(counts, (labels[:, None], neighbour_labels(plane, k)), 1)

    def overlap(trio: Trio) -> float:
        inside = counts[np.ix_(trio, trio)]
        return float((inside.sum() - np.trace(inside)) / counts[list(trio)].sum())

    return {trio: overlap(trio) for trio in combinations(range(classes), 3)}


def strangers(plane: Plane, k: int = NEIGHBOURS) -> Floats:
    """Return, for each sample, the share of its neighbours that are of another class, (n,)."""
    labels = np.array(plane.labels, dtype=np.int64)
    shares: Floats = (neighbour_labels(plane, k) != labels[:, None]).mean(axis=1)
    return shares
