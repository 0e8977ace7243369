"""The registry of datasets, and loading one as a stream of tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faircil.data.sources import FileStatus, ManualFiles, check_source, data_folder, find_source
from faircil.registry import Loaded, Registry, summary_of

if TYPE_CHECKING:
    from faircil.data.stream import Parts, TaskStream


@dataclass(frozen=True)
class Dataset:
    """A dataset: how it is loaded, and where its files are.

    Parameters
    ----------
    load : callable
        Maps a seed to the dataset; the seed only affects random splits and attributes.
    summary : str
        One-line description.
    attribute : str or None
        The sensitive attribute.
    source : str or None
        Name of its downloadable files in :data:`faircil.data.sources.SOURCES`.
    classes_per_task : int
        Default number of classes per task.
    texts : bool
        Whether inputs are texts, which need an encoder.
    manual_files : ManualFiles or None
        Files that the user has to provide. Without these and without a source, the dataset is
        embedded in its code.
    base : str or None
        The dataset that it is a variant of: its shipped settings are those of that one.
    arrange : callable or None
        Maps the stream of tasks and the seed to the stream that a learner meets: rows that come in
        other tasks, classes that come back. None: the stream as it is.
    """

    load: Loaded[Callable[[int], Parts]] = Loaded()
    summary: str = ""
    attribute: str | None = None
    source: str | None = None
    classes_per_task: int = 2
    texts: bool = False
    manual_files: ManualFiles | None = None
    base: str | None = None
    arrange: Callable[[TaskStream, int], TaskStream] | None = None

    def variant(self, base: str, **changes: Any) -> Dataset:
        """Return a variant of this dataset, whose name is ``base``."""
        # Reading `load` as an attribute would import it.
        return replace(self, load=vars(self)["load"], base=base, **changes)

    @property
    def folder(self) -> str | None:
        """Name of the folder of its files; None if it is embedded."""
        return self.manual_files.folder if self.manual_files else self.source

    def check_files(self) -> list[FileStatus]:
        """Return the state of each file; contents are checked if a hash is known."""
        if self.manual_files:
            return self.manual_files.check()
        return check_source(self.source) if self.source else []

    def missing_files(self) -> list[Path]:
        """Return the missing files; contents are not read."""
        if self.manual_files:
            return [file.path for file in self.manual_files.check() if file.state == "missing"]
        files = find_source(self.source).files if self.source else ()
        paths = (data_folder() / (self.source or "") / file.name for file in files)
        return [path for path in paths if not path.is_file()]


def as_dataset(piece: Any) -> Dataset:
    """Build a registry row from a function of a seed; its docstring is the summary."""
    if isinstance(piece, Dataset):
        return piece
    if not callable(piece):
        raise TypeError(f"expected a Dataset or a function from a seed to Parts, got {piece!r}")
    return Dataset(piece, summary_of(piece))


_IMAGES, _BIOS = "faircil.data.images", "faircil.data.bios"
_BUILT_IN = {
    "digits": Dataset(f"{_IMAGES}:digits", "scikit-learn's digits with distorted copies, 16 × 16"),
    "biased-digits": Dataset(
        f"{_IMAGES}:biased_digits",
        "the same digits on coloured backgrounds, as in Biased MNIST",
        attribute="colour",
    ),
    "toy": Dataset(f"{_IMAGES}:toy", "three clusters in the plane, 2 + 1 classes"),
    "toy-groups": Dataset(
        f"{_IMAGES}:toy_groups",
        "the same clusters as groups of two classes",
        attribute="z",
        classes_per_task=1,
    ),
    "mnist": Dataset(f"{_IMAGES}:mnist", "handwritten digits", source="mnist"),
    "fashion-mnist": Dataset(f"{_IMAGES}:fashion_mnist", "clothes", source="fashion-mnist"),
    "biased-mnist": Dataset(
        f"{_IMAGES}:biased_mnist",
        "MNIST on backgrounds whose colour correlates with the class",
        attribute="colour",
        source="mnist",
    ),
    "drug": Dataset(
        f"{_IMAGES}:drug",
        "cannabis use from 12 traits, 1,885 people",
        attribute="gender",
        source="drug",
    ),
    "biasbios": Dataset(
        f"{_BIOS}:biasbios",
        "biographies, the 25 largest of 28 professions",
        attribute="gender",
        classes_per_task=5,
        texts=True,
        manual_files=ManualFiles(
            "biasbios",
            "De-Arteaga et al. 2019, without the 1 % that Ravfogel et al. 2020 could not get, MIT",
            f"{_BIOS}:check_splits",
        ),
    ),
    "biasbios-sample": Dataset(
        f"{_BIOS}:biasbios_sample",
        "a small sample of these biographies, six professions",
        attribute="gender",
        texts=True,
        manual_files=ManualFiles(
            "biasbios",
            "rows of public samples of Bias in Bios, MIT",
            f"{_BIOS}:check_sample",
        ),
    ),
}
DATASETS: Registry[Dataset] = Registry("dataset", "faircil.datasets", as_dataset, _BUILT_IN)


def load_dataset(
    name: str, seed: int, *, shuffle_classes: bool = False, classes_per_task: int | None = None
) -> TaskStream:
    """Load a dataset as a stream of tasks.

    Parameters
    ----------
    name : str
        A name in :data:`DATASETS`.
    seed : int
        Seed of splits, colours and class order.
    shuffle_classes : bool
        Whether the order of classes is drawn from the seed; else 0, 1, 2, ….
    classes_per_task : int, optional
        Default: that of the dataset.
    """
    from faircil.data.stream import (
        TaskStream,
        classes_in_tasks,
        cut_into_tasks,
        shuffled_classes,
    )

    row = DATASETS.find(name)
    parts = row.load(seed)
    n_classes = len(parts.class_names)
    tasks = classes_in_tasks(
        n_classes,
        classes_per_task or row.classes_per_task,
        shuffled_classes(n_classes, seed) if shuffle_classes else None,
    )
    stream = TaskStream(
        name,
        cut_into_tasks(parts.train, parts.test, tasks),
        parts.class_names,
        parts.attribute,
        parts.attribute_values,
        parts.notes,
        parts.texts,
        parts.copies,
        parts.image,
    )
    return stream if row.arrange is None else row.arrange(stream, seed)
