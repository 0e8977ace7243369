"""Models as folders: a text that people can read, and tensors; no pickle."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from faircil import __version__
from faircil.errors import DataError, StorageError, UsageError
from faircil.files import file_digest, read_json, write_json
from faircil.learners import LEARNERS
from faircil.model.model import Model
from faircil.packing import Packed, name_of, pack, unpack
from faircil.registry import implementation

FORMAT = 1
CONTENT, TENSORS = "model.json", "tensors.safetensors"
FILES = (CONTENT, TENSORS)


def save_model(model: Model, folder: Path) -> None:
    """Write a model to a folder, whole or not at all.

    A model that is there is replaced; anything else that is there is left alone, and an error.
    Files are for the owner alone: they hold sums over people, and with replay rows of them.
    """
    check_place(folder)
    packed = pack(model)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    with _written(folder, partial):
        partial.mkdir(parents=True, mode=0o700)
        save_file(packed.tensors, partial / TENSORS)
        content = {
            "format": FORMAT,
            "faircil": __version__,
            "summary": summary_of(model),
            "tensors_sha256": file_digest(partial / TENSORS),
            "content": packed.document,
        }
        write_json(partial / CONTENT, content)
        for name in FILES:
            (partial / name).chmod(0o600)
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def _written(folder: Path, partial: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write the model {folder}: {error.strerror or error}; free space, or choose "
            "another folder"
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_place(folder: Path) -> None:
    """Refuse a folder that holds anything but a model."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder for the model")
    others = sorted(path.name for path in folder.iterdir() if path.name not in FILES)
    if others:
        raise UsageError(
            f"{folder} has other files, such as {others[0]}; name a new folder for the model"
        )


def load_model(folder: Path, device: torch.device | str = "cpu") -> Model:
    """Read a model.

    Raises
    ------
    DataError
        If there is none, or it is damaged, altered, or of a newer version.
    """
    if not (folder / CONTENT).is_file():
        raise DataError(
            f"there is no model in {folder}: {CONTENT} is missing; make one with `faircil fit`"
        )
    content = read_json(folder / CONTENT)
    version = content.get("format") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise DataError(f"{folder / CONTENT} is damaged: it names no format; save the model again")
    if version > FORMAT:
        raise DataError(
            f"{folder} has format {version}, of faircil {content.get('faircil')}, and this faircil "
            f"({__version__}) reads format {FORMAT}; update faircil"
        )
    if file_digest(folder / TENSORS) != content.get("tensors_sha256"):
        raise DataError(
            f"{folder / TENSORS} is not what was saved with {CONTENT}: it is damaged or altered; "
            "save the model again"
        )
    try:
        tensors = load_file(folder / TENSORS)
        model = unpack(Packed(content["content"], tensors), device=device, registered=_registered)
    except (SafetensorError, OSError, KeyError) as error:
        raise DataError(f"{folder} is damaged: {error}; save the model again") from None
    except DataError as error:
        raise DataError(f"{folder}: {error}") from None
    if not isinstance(model, Model):
        raise DataError(f"{folder / CONTENT} holds no model; save the model again")
    return model


def _registered(name: str) -> type | None:
    """Return the class of a registered learner."""
    kinds = (implementation(row) for row in LEARNERS.values())
    return next((kind for kind in kinds if name_of(kind) == name), None)


def summary_of(model: Model) -> dict[str, Any]:
    """Return what people want to know of a model without loading it, as JSON."""
    return {
        "method": model.config.label,
        "measure": model.config.measure,
        "classes": list(model.names),
        "attribute": " × ".join(model.config.own.sensitive) if model.config.own else None,
        "attribute_values": model.values,
        "inputs": model.inputs,
        "groups": [vars(group) for group in model.seen],
        "rows_kept": model.rows_kept,
        "lessons": [
            {"at": one.at, "rows": one.rows, "new_classes": list(one.new_classes)}
            for one in model.lessons
        ],
    }


def size_of(folder: Path) -> int:
    """Return the bytes of a model's files."""
    return sum((folder / name).stat().st_size for name in FILES)
