"""Where a run was made: versions, machine, and the code itself."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import torch

import faircil

PACKAGES = ("torch", "numpy", "scipy", "highspy", "scikit-learn")


def version() -> str:
    """Return the version of faircil."""
    return faircil.__version__


@cache
def code_digest() -> str:
    """Return a short hash of the package's code and shipped settings."""
    root = Path(faircil.__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def environment(command: str) -> dict[str, Any]:
    """Describe the machine and the libraries."""
    return {
        "command": command,
        "faircil": version(),
        "code": code_digest(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "threads": torch.get_num_threads(),
        "packages": {name: installed(name) for name in PACKAGES},
    }
