"""Build wheels and sources of product and laboratory, and try them where there is no repository.

    python .ci/release.py              build into dist/, try with the pinned versions
    python .ci/release.py --oldest     try with the oldest versions that pyproject.toml allows
    python .ci/release.py --no-tests   install and run the demo only

Each trial is a new environment in a folder of its own. In the first, the product is installed with
its extras and nothing of developers, and each extra is used once. In the second, the wheels are
installed, `faircil demo` is run, and then the tests out of both source archives, without the
packages that are in them. With the pinned versions, an SBOM of the product as installed without
extras, CycloneDX in JSON, is written to dist/ too.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess  # builds and trials, without a shell  # nosec B404
import sys
import tarfile
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
SBOM = "cyclonedx-bom>=5"
EXTRAS = ("cluster", "images", "text", "tune")  # that .ci/try_extras.py uses


def call(*command: object, folder: Path = ROOT) -> None:
    """Run a command in a folder, without variables that point to this one; stop if it fails."""
    words = [str(word) for word in command]
    print("$", " ".join(words), flush=True)  # noqa: T201
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "FAIRCIL_DATA")}
    subprocess.run(words, cwd=folder, env=kept, check=True)  # nosec B603


def build() -> None:
    """Build both packages into an empty folder."""
    if DIST.exists():
        shutil.rmtree(DIST)
    for folder in (ROOT, ROOT / "lab"):
        call(sys.executable, "-m", "hatchling", "build", "-d", DIST, folder=folder)


def oldest() -> str:
    """Return a constraint for every dependency with a least version: exactly that.

    Tools of the developers (linters and the like) are taken as they are pinned.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name in EXTRAS for one in extras[name])]
    found = {name: least for name, least in map(least_of, wanted) if least}
    return "".join(f"{name}=={least}\n" for name, least in found.items())


def least_of(requirement: str) -> tuple[str, str | None]:
    """Return the name and the least version of a requirement; constraints have no extras.

    >>> least_of("torch>=2.4"), least_of("dask[dataframe]>=2025.1"), least_of("scipy-stubs")
    (('torch', '2.4'), ('dask', '2025.1'), ('scipy-stubs', None))
    """
    name, *least = re.split(r"\s*>=\s*", requirement)
    return name.partition("[")[0], least[0] if least else None


def only(pattern: str) -> Path:
    """Return the one built file of that name."""
    (path,) = DIST.glob(pattern)
    return path


def environment(folder: Path, constraints: Path, packages: Sequence[object]) -> Path:
    """Make an environment with packages; return its folder of programs."""
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    call(programs / "pip", "install", "--quiet", "--constraint", constraints, *packages)
    return programs


def use_extras(folder: Path, constraints: Path) -> None:
    """Install the product with its extras alone, and use each of them."""
    wheel = f"{only('faircil-*.whl')}[{','.join(EXTRAS)}]"
    programs = environment(folder / "extras", constraints, [wheel])
    empty = folder / "with-extras"
    empty.mkdir()
    call(programs / "python", ROOT / ".ci" / "try_extras.py", folder=empty)


def trial(folder: Path, constraints: Path, *, tests: bool) -> None:
    """Install the wheels somewhere else, and try them."""
    wheels = [f"{only('faircil-*.whl')}[dev]", only("faircil_lab-*.whl")]
    programs = environment(folder / "env", constraints, wheels)
    empty = folder / "empty"
    empty.mkdir()
    call(programs / "faircil", "demo", folder=empty)
    if tests:
        for name in ("faircil-[0-9]*.tar.gz", "faircil_lab-*.tar.gz"):
            with tarfile.open(only(name)) as archive:
                archive.extractall(folder, filter="data")
        (sources,) = folder.glob("faircil-[0-9]*")
        (laboratory,) = folder.glob("faircil_lab-*")
        shutil.rmtree(sources / "faircil")  # only what is installed can be tested
        shutil.rmtree(sources / "lab")
        shutil.rmtree(laboratory / "faircil_lab")
        shutil.move(laboratory, sources / "lab")
        of_both = ("tests", "lab/tests", "--ignore=lab/tests/test_house.py")  # counts the sources
        call(programs / "pytest", "-n", "2", "--dist", "loadfile", *of_both, folder=sources)


def bill(folder: Path) -> None:
    """Write what the product brings along, and nothing of developers, as an SBOM."""
    pinned = ROOT / "constraints.txt"
    programs = environment(folder / "product", pinned, [only("faircil-*.whl")])
    tool = environment(folder / "tool", pinned, [SBOM])
    out = DIST / f"{only('faircil-*.whl').name.split('-py3')[0]}.cdx.json"
    # Of what the bill is: without these it is a list of packages, the product one among them.
    about = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "library")
    call(tool / "cyclonedx-py", "environment", *about, programs / "python", "-o", out)


def main() -> None:
    """Build, and try what was built."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--oldest", action="store_true", help="try the oldest versions")
    parser.add_argument("--no-tests", action="store_true", help="install and run the demo only")
    arguments = parser.parse_args()
    build()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        constraints = ROOT / "constraints.txt"
        if arguments.oldest:
            constraints = folder / "oldest.txt"
            constraints.write_text(oldest(), "utf-8")
            print(constraints.read_text("utf-8"))  # noqa: T201
        use_extras(folder, constraints)
        trial(folder, constraints, tests=not arguments.no_tests)
        if not arguments.oldest:
            bill(folder)
    built = "\n".join(f"  {path.relative_to(ROOT)}" for path in sorted(DIST.iterdir()))
    print(f"tried, and built:\n{built}")  # noqa: T201


if __name__ == "__main__":
    main()
