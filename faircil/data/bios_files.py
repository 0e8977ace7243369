"""The files of Bias in Bios: as Hugging Face's ``LabHC/bias_in_bios`` has them or as CSV; a sample.

Nothing downloads them: one is large and has no fixed hash, the other is not on the net.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from faircil.data.by_hand import ByHand
from faircil.data.sources import DataFile, FileStatus, data_folder, unpack
from faircil.errors import DataError, raise_all, shortened

FOLDER = "biasbios"
ABOUT = "De-Arteaga et al. 2019, without the 1 % that Ravfogel et al. 2020 could not get, MIT"
SPLITS = ("train", "test")  # the third, dev, is not used
LAYOUTS = ("data/{}-*.parquet", "{}-*.parquet", "{}.parquet", "{}.csv", "{}.csv.gz")
SAMPLE = DataFile(
    "bios_sample.csv", "f4de636c7207a5216e5a9c44ed2482894e2be5f4d34615bc8cd0ade423159bd0"
)
SHARD = re.compile(r"-(\d+)-of-(\d+)")  # as in train-00000-of-00002-0ab65b32c47407e8.parquet


def bios_folder() -> Path:
    """Return the folder of the biographies."""
    return data_folder() / FOLDER


def split_files() -> dict[str, list[Path]]:
    """Return the files of each split; DataError if they are not all there, or there twice."""
    states = check_splits()
    problems = dict.fromkeys(state.message for state in states if state.state != "ok")
    raise_all(list(problems), DataError)
    return {split: _found(split)[0] for split in SPLITS}


def check_splits() -> list[FileStatus]:
    """Return the state of each split's files; their content is not looked at."""
    return [_status(split) for split in SPLITS]


def _status(split: str) -> FileStatus:
    found = _found(split)
    if not found:
        return FileStatus(bios_folder() / LAYOUTS[0].format(split), "missing", _how_to_get())
    path = found[0][0]
    if problem := _problem(found):
        return FileStatus(path, "corrupt", f"the {split} split of biasbios {problem}")
    return FileStatus(path, "ok", f"{path} is there")


def _found(split: str) -> list[list[Path]]:
    """Return the files of a split, for each layout that has some."""
    found = (sorted(bios_folder().glob(layout.format(split))) for layout in LAYOUTS)
    return [files for files in found if files]


def _how_to_get() -> str:
    folder = bios_folder()
    absent = " and ".join(split for split in SPLITS if not _found(split))
    return (
        f"{folder} has no {absent} split of biasbios: looked for "
        f"{', '.join(layout.format('SPLIT') for layout in LAYOUTS)}. Get the files with `hf "
        "download LabHC/bias_in_bios --repo-type dataset --local-dir "
        f"{shlex.quote(str(folder))}`, or set FAIRCIL_DATA to the folder that has {FOLDER}/"
    )


def _problem(found: list[list[Path]]) -> str | None:
    """Say that a split is there several times, or that parts of it are missing."""
    if len(found) > 1:
        several = " and ".join(str(files[0]) for files in found)
        return f"is there {len(found)} times, {several}; keep one of them"
    files = found[0]
    marks = [SHARD.search(path.name) for path in files]
    if len(files) == 1 and marks[0] is None:
        return None
    parts = sorted((int(mark[1]), int(mark[2])) for mark in marks if mark)
    total = parts[0][1] if parts else 0
    if len(parts) == len(files) and parts == [(number, total) for number in range(total)]:
        return None
    names = shortened([path.name for path in files])
    return (
        f"is not whole: expected each of its {total or 'numbered'} parts once in "
        f"{files[0].parent}, found {names}; get what is missing, remove what is not of it"
    )


def sample_file() -> Path:
    """Return the path of the sample; DataError if it is not there or another file."""
    (status,) = check_sample()
    if status.state != "ok":
        raise DataError(status.message)
    return status.path


def check_sample() -> list[FileStatus]:
    """Return the state of the sample's file, by its hash."""
    path = bios_folder() / SAMPLE.name
    where = f"put the file there, or set FAIRCIL_DATA to the folder that has {FOLDER}/{SAMPLE.name}"
    try:
        unpack(SAMPLE, path.read_bytes())
    except FileNotFoundError:
        return [FileStatus(path, "missing", f"{path} is missing: {where}")]
    except OSError as error:
        return [FileStatus(path, "corrupt", f"{path} cannot be read ({error.strerror}): {where}")]
    except DataError as error:
        return [FileStatus(path, "corrupt", f"{path} is corrupt: {error}; {where}")]
    return [FileStatus(path, "ok", f"{path} is there and intact")]


FULL_BY_HAND = ByHand(FOLDER, ABOUT, check_splits)
SAMPLE_BY_HAND = ByHand(FOLDER, "rows of public samples of Bias in Bios, MIT", check_sample)
