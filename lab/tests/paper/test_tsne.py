from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faircil_lab.paper import tsne
from faircil_lab.paper.exhibit import Results, Verdict
from faircil_lab.paper.store import NOT_MADE, Measured
from faircil_lab.paper.tsne import (
    DataInPlane,
    Plane,
    Tsne,
    neighbour_labels,
    strangers,
    trio_overlaps,
)


def made_plane(overlapping: tuple[int, ...], classes: int = 10, each: int = 30) -> Plane:
    """Clusters in a row; some of them in the same place, and half of the samples set apart."""
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), each)
    centres = np.where(np.isin(np.arange(classes), overlapping), 200, 20 * np.arange(classes))
    points = generator.standard_normal((len(labels), 2))
    points[:, 0] += centres[labels]
    other = np.arange(len(labels)) % 10 == 0
    points[other] = generator.standard_normal((other.sum(), 2)) + np.array([0, 300])
    return Plane(
        tuple((x, y) for x, y in points.tolist()),
        tuple(labels.tolist()),
        tuple(other.astype(int).tolist()),
        tuple(str(label) for label in range(classes)),
    )


def test_neighbours_and_overlaps_are_those_of_a_loop() -> None:
    plane, k = made_plane((0, 2), classes=4, each=12), 5
    points, labels = np.array(plane.points), np.array(plane.labels)
    inside = {trio: [0, 0] for trio in trio_overlaps(plane, k)}
    assert list(inside) == [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]
    for i in range(len(labels)):
        distance = np.linalg.norm(points - points[i], axis=1)
        distance[i] = np.inf
        nearest = labels[np.argsort(distance)[:k]]
        assert sorted(neighbour_labels(plane, k)[i]) == sorted(nearest)
        assert strangers(plane, k)[i] == (nearest != labels[i]).mean()
        for trio, counts in inside.items():
            if labels[i] in trio:
                counts[0] += sum(other in trio and other != labels[i] for other in nearest)
                counts[1] += k
    expected = {trio: found / everything for trio, (found, everything) in inside.items()}
    assert trio_overlaps(plane, k) == pytest.approx(expected)


def test_samples_on_the_same_point_are_not_their_own_neighbours() -> None:
    plane = Plane(((0.0, 0.0),) * 4, (0, 0, 1, 1), (), ("a", "b"))
    labels = neighbour_labels(plane, k=3)
    assert labels.shape == (4, 3)


def test_the_plane_is_the_same_each_time_and_keeps_classes() -> None:
    measurement = DataInPlane("toy", samples=120)
    plane = measurement.compute()
    assert plane == measurement.compute()
    assert len(plane.points) == len(plane.labels) == 120
    assert plane.attributes == ()
    # Class 0 of the toy is far from the two others, which touch.
    overlap = trio_overlaps(plane)[0, 1, 2]
    assert 0 < overlap < 0.2
    assert strangers(plane)[np.array(plane.labels) == 0].mean() < 0.1


@pytest.mark.parametrize("overlap", [True, False])
def test_the_page_draws_and_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overlap: bool
) -> None:
    def found(measurement: DataInPlane, _results: Results) -> Measured:  # type: ignore[type-arg]
        if measurement.dataset == "drug":
            return Measured(measurement, None, "not run: files absent (drug)")
        trio = tsne.TRIOS.get(measurement.dataset, ()) if overlap else (0, 1, 2)
        return Measured(measurement, made_plane(trio))

    monkeypatch.setattr(tsne, "look_up", found)
    page = Tsne().page(Results({}, {}, tmp_path))
    expected = Verdict.SAME if overlap else Verdict.DIFFERENT
    assert page.verdicts == (expected, expected, Verdict.SAME)
    assert ("rank 1 of 120" in page.answer) == overlap
    grid = page.sections[1].table
    assert grid is not None
    assert [row[0] for row in grid.rows] == ["MNIST", "Fashion-MNIST", "Biased MNIST"]
    picture = page.sections[1].picture
    assert picture is not None
    picture.draw(tmp_path / picture.file)
    assert (tmp_path / picture.file).stat().st_size > 10_000


def test_nothing_is_run_where_that_is_not_wanted(tmp_path: Path) -> None:
    page = Tsne().page(Results({}, {}, tmp_path, run_missing=False))
    assert page.verdicts == (Verdict.NOT_RUN,) * 3
    assert NOT_MADE in page.answer
    assert len(page.sections) == 1
