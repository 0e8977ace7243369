"""Where a run was made: versions, machine, and the code itself."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import faircil

PACKAGES = ("torch", "numpy", "scipy", "highspy", "scikit-learn")
EXTRAS = ("transformers", "tokenizers")  # that a run may use, where they are installed
# What only shows results: a change there does not make a finished run another run.
SHOWS_ONLY = ("cli", "tuning", "sweep", "report", "__main__.py")


def version() -> str:
    """Return the version of faircil."""
    return faircil.__version__


@cache
def code_digest() -> str:
    """Return a short hash of the code and the shipped settings that results depend on."""
    root = Path(faircil.__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
        name = path.relative_to(root)
        if name.parts[0] not in SHOWS_ONLY:
            digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _is_there(package: str) -> bool:
    try:
        return bool(installed(package))
    except PackageNotFoundError:
        return False


def environment(command: str, device: str) -> dict[str, Any]:
    """Describe the machine and the libraries.

    Parameters
    ----------
    command : str
        What the user typed, to run it again.
    device : str
        Where the run computed.
    """
    import torch  # here, so that reading results does not load it

    return {
        "command": command,
        "faircil": version(),
        "code": code_digest(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "device": device,
        "gpu": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        "threads": torch.get_num_threads(),
        "packages": {name: installed(name) for name in (*PACKAGES, *filter(_is_there, EXTRAS))},
    }
