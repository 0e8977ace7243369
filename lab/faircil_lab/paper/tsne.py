"""Classes that look alike: training data in the plane, and how much three classes overlap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray
from scipy.spatial import KDTree
from threadpoolctl import threadpool_limits

from faircil.data.datasets import load_dataset
from faircil.report.plots import COLOURS
from faircil.samples import concatenate
from faircil.weighting.groups import Floats
from faircil_lab.paper.drawing import write_png
from faircil_lab.paper.exhibit import Grid, Page, Picture, Results, Section, WithoutRuns
from faircil_lab.paper.metrics import DATASET_NAMES
from faircil_lab.paper.store import Measurement, Statement, look_up, not_run, page_of, statement
from faircil_lab.wording import percent

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


# Not everybody can distinguish ten colours: every class has its name at its centre, too.
CLASS_COLOURS = (*COLOURS, "#999999", "#F0E442", "#882255")
MIXED = 0.5  # neighbours of other classes: beyond, a class has no centre to put its name in
MARKS = ("o", "x")  # of the attribute's values


def draw_planes(planes: Mapping[str, Plane]) -> Figure:
    """Draw a panel for each dataset, a colour and a name for each class."""
    rows = (len(planes) + 1) // 2
    figure = Figure(figsize=(11, 4.9 * rows), layout="constrained")
    panels = figure.subplots(rows, 2, squeeze=False).ravel()
    for axes in panels[len(planes) :]:
        axes.set_visible(False)
    for axes, (title, plane) in zip(panels, planes.items(), strict=False):
        _draw_plane(axes, plane)
        axes.set_title(title, fontsize=11)
    return figure


def _draw_plane(axes: Axes, plane: Plane) -> None:
    points, labels = np.array(plane.points), np.array(plane.labels)
    values = np.array(plane.attributes) if plane.attributes else np.zeros(len(labels))
    for label, name in enumerate(plane.names):
        colour = CLASS_COLOURS[label % len(CLASS_COLOURS)]
        axes.scatter([], [], s=25, color=colour, label=name)
        for value, mark in enumerate(MARKS):
            x, y = points[(labels == label) & (values == value)].T
            size = 7 if mark == "o" else 16
            axes.scatter(x, y, s=size, color=colour, marker=mark, linewidths=0.8, alpha=0.6)
    if strangers(plane).mean() > MIXED:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.06), ncols=3, frameon=False)
    else:
        _name_classes(axes, plane)
        axes.set_xlabel("$x_1$")
    axes.set_ylabel("$x_2$")
    axes.set_xticks([])
    axes.set_yticks([])


def _name_classes(axes: Axes, plane: Plane) -> None:
    points, labels = np.array(plane.points), np.array(plane.labels)
    for label, name in enumerate(plane.names):
        x, y = np.median(points[labels == label], axis=0).tolist()
        text = axes.annotate(name, (x, y), ha="center", va="center", fontsize=10)
        text.set(fontweight="bold", path_effects=[withStroke(linewidth=3, foreground="white")])


DATASETS = ("mnist", "fashion-mnist", "biased-mnist", "drug")
TRIOS: dict[str, Trio] = {"mnist": (3, 5, 8), "fashion-mnist": (5, 7, 9)}
TRIO_NAMES = {"mnist": "3, 5 and 8", "fashion-mnist": "Sandal, Sneaker and Ankle boot"}
COLOURED = "biased-mnist"
HIGH = 0.1  # a trio overlaps if it is among this share of all trios
OVERLAP_SAYS = "{}: the classes {} overlap"
COLOUR_SAYS = "Biased MNIST: samples on another class's colour lie apart from their class"
ABOUT = (
    f"{SAMPLES:,} training samples of each dataset (all of DRUG), reduced to {COMPONENTS} "
    "principal components and then to the plane by t-SNE. The overlap of three classes is the "
    f"share of the {NEIGHBOURS} nearest "
    "neighbours of their samples that belong to another one of the three. Three classes count as "
    f"overlapping if they are among the {percent(HIGH)} of all trios that overlap most."
)


@dataclass(frozen=True)
class Tsne(WithoutRuns):
    """t-SNE of four datasets."""

    title: str = "Classes that look alike (t-SNE)"
    paper: str = "Fig. 5"

    def page(self, results: Results) -> Page:
        """Measure, or read what was measured."""
        found = {name: look_up(DataInPlane(name), results) for name in DATASETS}
        planes = {name: one.values for name, one in found.items() if one.values is not None}
        problems = {name: one.problem for name, one in found.items() if one.problem is not None}
        statements = [
            _overlaps(name, planes[name])
            if name in planes
            else not_run(_overlap_says(name), problems[name])
            for name in TRIOS
        ]
        statements.append(
            _coloured(planes[COLOURED])
            if COLOURED in planes
            else not_run(COLOUR_SAYS, problems[COLOURED])
        )
        sections = [_section(planes)] if planes else []
        answer = " ".join(f"{s.says}: {s.ours}." for s in statements)
        return page_of(answer, statements, ABOUT, "faircil reproduce tsne", *sections)


def _overlap_says(dataset: str) -> str:
    return OVERLAP_SAYS.format(DATASET_NAMES[dataset], TRIO_NAMES[dataset])


def _overlaps(dataset: str, plane: Plane) -> Statement:
    trio, overlaps = TRIOS[dataset], trio_overlaps(plane)
    own = overlaps[trio]
    rank = 1 + sum(value > own for value in overlaps.values())
    others = [value for other, value in overlaps.items() if other != trio]
    most = max(overlaps, key=lambda other: overlaps[other])
    names = ", ".join(plane.names[label] for label in most)
    ours = (
        f"{percent(own)} of neighbours, against {percent(float(np.mean(others)))} for other trios; "
        f"rank {rank} of {len(overlaps)} (first: {names}, {percent(overlaps[most])})"
    )
    return statement(_overlap_says(dataset), ours, rank <= HIGH * len(overlaps))


def _coloured(plane: Plane) -> Statement:
    """Compare samples on their own colour with those on another."""
    shares, other = strangers(plane), np.array(plane.attributes) == 1
    ours = (
        f"{percent(float(shares[other].mean()))} of their neighbours are of other classes, against "
        f"{percent(float(shares[~other].mean()))} on their own colour"
    )
    return statement(COLOUR_SAYS, ours, bool(shares[other].mean() > 0.5))


def _section(planes: Mapping[str, Plane]) -> Section:
    rows = []
    for name, plane in planes.items():
        overlaps = trio_overlaps(plane)
        top = sorted(overlaps, key=lambda trio: -overlaps[trio])[:3]
        texts = [
            f"{', '.join(plane.names[label] for label in trio)} ({percent(overlaps[trio])})"
            for trio in top
        ]
        mean = percent(float(strangers(plane).mean()))
        rows.append((DATASET_NAMES[name], str(len(plane.labels)), mean, "; ".join(texts)))

    def draw(path: Path, planes: Mapping[str, Plane]) -> None:
        write_png(draw_planes({DATASET_NAMES[name]: plane for name, plane in planes.items()}), path)

    return Section(
        "All datasets",
        "How much the classes of a dataset mix in the plane.",
        Grid(
            ("dataset", "samples", "neighbours of other classes", "trios that overlap most"),
            tuple(rows),
        ),
        Picture(
            "tsne.png",
            "Training data in the plane by t-SNE, a colour and a name for each class; crosses are "
            "samples of the second attribute value (Biased MNIST: another class's colour).",
            partial(draw, planes=planes),
        ),
    )
