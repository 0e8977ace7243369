"""The identity of a stored run, and the environment that produced it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from typing import Any

import faircil

PACKAGES = ("torch", "numpy", "scipy", "highspy", "scikit-learn")
EXTRAS = ("transformers", "tokenizers")  # that a run may use, where they are installed


def version() -> str:
    """Return the version of faircil."""
    return faircil.__version__


def environment(command: str, device: str, code: str = "") -> dict[str, Any]:
    """Describe the machine and the libraries.

    Parameters
    ----------
    command : str
        What the user typed, to run it again.
    device : str
        Where the run computed.
    code : str
        Hash of the code that the result depends on, where it is known.
    """
    import torch  # here, so that reading results does not load it

    return {
        "command": command,
        "faircil": version(),
        "code": code,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "device": device,
        "gpu": torch.cuda.get_device_name(device) if device.startswith("cuda") else None,
        "threads": torch.get_num_threads(),
        "packages": {name: installed(name) for name in (*PACKAGES, *filter(_is_there, EXTRAS))},
    }


def _is_there(package: str) -> bool:
    try:
        return bool(installed(package))
    except PackageNotFoundError:
        return False


# Parts of an identity that two runs must share to be the same, as messages call them.
PARTS = {"config": "configuration", "code": "code", "seed": "seed"}


def identity(config: Mapping[str, Any], seed: int, code: str) -> dict[str, Any]:
    """Return what makes two runs the same: configuration, seed and code. The version is a note."""
    return {"faircil": version(), "code": code, "seed": seed, "config": dict(config)}


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Name the parts in which two identities differ."""
    return [name for key, name in PARTS.items() if one.get(key) != other.get(key)]
