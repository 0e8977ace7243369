"""The datasets by name, and how they become streams of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from faircil.data import downloaded, embedded
from faircil.data.parts import Parts
from faircil.data.stream import TaskStream, classes_in_tasks, cut_into_tasks, shuffled_classes
from faircil.errors import UsageError, unknown_name


@dataclass(frozen=True)
class Dataset:
    """A row of the table.

    Parameters
    ----------
    load : callable
        From a seed to the dataset; the seed matters only where something is drawn.
    summary : str
        One line for people.
    attribute : str or None
        The sensitive attribute.
    source : str or None
        Name of its files in :data:`faircil.data.sources.SOURCES`; None: embedded.
    classes_per_task : int
        Unless the user says otherwise.
    """

    load: Callable[[int], Parts]
    summary: str
    attribute: str | None = None
    source: str | None = None
    classes_per_task: int = 2


DATASETS: dict[str, Dataset] = {
    "digits": Dataset(embedded.digits, "scikit-learn's digits with distorted copies, 16 × 16"),
    "biased-digits": Dataset(
        embedded.biased_digits, "the same on coloured ground, as Biased MNIST", attribute="colour"
    ),
    "toy": Dataset(embedded.toy, "three clusters in the plane, 2 + 1 classes"),
    "toy-groups": Dataset(
        embedded.toy_groups,
        "the same clusters as groups of two classes",
        attribute="z",
        classes_per_task=1,
    ),
    "mnist": Dataset(downloaded.mnist, "handwritten digits", source="mnist"),
    "fashion-mnist": Dataset(downloaded.fashion_mnist, "clothes", source="fashion-mnist"),
    "biased-mnist": Dataset(
        downloaded.biased_mnist,
        "MNIST on ground whose colour goes with the class",
        attribute="colour",
        source="mnist",
    ),
    "drug": Dataset(
        downloaded.drug,
        "cannabis use from 12 traits, 1,885 people",
        attribute="gender",
        source="drug",
    ),
}


def load_dataset(
    name: str, seed: int, *, shuffle_classes: bool = False, classes_per_task: int | None = None
) -> TaskStream:
    """Load a dataset as a stream of tasks.

    Parameters
    ----------
    name : str
        A name in :data:`DATASETS`.
    seed : int
        For what is drawn: splits, colours, class order.
    shuffle_classes : bool
        Whether the order of classes is drawn from the seed; else 0, 1, 2, ….
    classes_per_task : int, optional
        Two, unless the dataset says otherwise.
    """
    if name not in DATASETS:
        raise UsageError(unknown_name("dataset", name, DATASETS))
    row = DATASETS[name]
    parts = row.load(seed)
    n_classes = len(parts.class_names)
    tasks = classes_in_tasks(
        n_classes,
        classes_per_task or row.classes_per_task,
        shuffled_classes(n_classes, seed) if shuffle_classes else None,
    )
    return TaskStream(
        name,
        cut_into_tasks(parts.train, parts.test, tasks),
        parts.class_names,
        parts.attribute,
        parts.attribute_values,
    )
