"""Classes that look alike: training data in the plane, and how much three classes overlap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from faircil.reproduction.drawing import write_png
from faircil.reproduction.exhibit import Results
from faircil.reproduction.measurement_plots.tsne import draw_planes
from faircil.reproduction.measurements.statements import (
    Statement,
    look_up,
    not_run,
    page_of,
    percent,
    statement,
)
from faircil.reproduction.measurements.tsne import (
    DataInPlane,
    Plane,
    Trio,
    strangers,
    trio_overlaps,
)
from faircil.reproduction.measurements.without_runs import WithoutRuns
from faircil.reproduction.page import Grid, Page, Picture, Section
from faircil.reproduction.targets import DATASET_NAMES

DATASETS = ("mnist", "fashion-mnist", "biased-mnist", "drug")
TRIOS: dict[str, Trio] = {"mnist": (3, 5, 8), "fashion-mnist": (5, 7, 9)}
TRIO_NAMES = {"mnist": "3, 5 and 8", "fashion-mnist": "Sandal, Sneaker and Ankle boot"}
COLOURED = "biased-mnist"
HIGH = 0.1  # a trio overlaps if it is among this share of all trios
OVERLAP_SAYS = "{}: the classes {} overlap"
COLOUR_SAYS = "Biased MNIST: samples on another class's colour lie apart from their class"
ABOUT = (
    "2,000 training samples of each dataset (all of DRUG), reduced to 50 principal components and "
    "then to the plane by t-SNE. The overlap of three classes is the share of the 10 nearest "
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
