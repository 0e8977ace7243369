"""Whether the data of a target is there."""

from __future__ import annotations

from faircil.data.datasets import DATASETS
from faircil.data.sources import data_folder, find_source


def files_absent(dataset: str) -> bool:
    """Tell whether a dataset is not known, or a file of it is missing."""
    if dataset not in DATASETS:
        return True
    source = DATASETS[dataset].source
    folder = data_folder() / (source or "")
    files = find_source(source).files if source else ()
    return not all((folder / file.name).is_file() for file in files)
