"""The datasets by name, and how they become streams of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faircil.data import bios
from faircil.data import images as downloaded
from faircil.data import images as embedded
from faircil.data.bios import FULL_BY_HAND, SAMPLE_BY_HAND
from faircil.data.sources import ByHand, FileStatus, check_source, data_folder, find_source
from faircil.data.stream import (
    Parts,
    TaskStream,
    classes_in_tasks,
    cut_into_tasks,
    shuffled_classes,
)
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
        Name of its files in :data:`faircil.data.sources.SOURCES`.
    classes_per_task : int
        Unless the user says otherwise.
    texts : bool
        Whether its inputs are texts, for an encoder.
    by_hand : ByHand or None
        Its files, where a user has to put them in place. With neither these nor a source, the
        dataset is embedded.
    """

    load: Callable[[int], Parts]
    summary: str
    attribute: str | None = None
    source: str | None = None
    classes_per_task: int = 2
    texts: bool = False
    by_hand: ByHand | None = None

    @property
    def folder(self) -> str | None:
        """Name of the folder of its files; None if it is embedded."""
        return self.by_hand.folder if self.by_hand else self.source

    def check_files(self) -> list[FileStatus]:
        """Return the state of each of its files, with their content where a hash is known."""
        if self.by_hand:
            return self.by_hand.check()
        return check_source(self.source) if self.source else []

    def missing_files(self) -> list[Path]:
        """Return those of its files that are not there; what was fetched is not read for it."""
        if self.by_hand:
            return [file.path for file in self.by_hand.check() if file.state == "missing"]
        files = find_source(self.source).files if self.source else ()
        paths = (data_folder() / (self.source or "") / file.name for file in files)
        return [path for path in paths if not path.is_file()]


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
    "biasbios": Dataset(
        bios.biasbios,
        "biographies, the 25 largest of 28 professions",
        attribute="gender",
        classes_per_task=5,
        texts=True,
        by_hand=FULL_BY_HAND,
    ),
    "biasbios-sample": Dataset(
        bios.biasbios_sample,
        "a small sample of these biographies, six professions",
        attribute="gender",
        texts=True,
        by_hand=SAMPLE_BY_HAND,
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
        parts.notes,
        parts.texts,
        parts.copies,
    )
