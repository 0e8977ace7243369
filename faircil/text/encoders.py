"""Encoders of texts: a model of transformers with its tokenizer, from files on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from faircil.errors import DataError, FaircilError, raise_all, shortened
from faircil.text.encoder_files import CONFIG, content_digest, find_folder, missing_files
from faircil.text.extra import quiet, text_module


@dataclass(frozen=True, eq=False)
class Encoder:
    """A pre-trained encoder.

    Parameters
    ----------
    name : str
        As the user gave it.
    folder : Path
        Where its files are.
    model : Module
        In eval mode, in float32, on the CPU; without a layer behind the tokens' last vectors.
    tokenizer : object
        A tokenizer of transformers that rests on the tokenizers package.
    hidden_size : int
        Length of a token's vector.
    max_length : int
        Tokens that the model can take in a row.
    pad_id : int
        The token that fills rows up.
    digest : str
        Of the content of its files: equal for equal encoders, wherever they are.
    """

    name: str
    folder: Path
    model: nn.Module
    tokenizer: Any
    hidden_size: int
    max_length: int
    pad_id: int
    digest: str


def load_encoder(name: str | Path) -> Encoder:
    """Load an encoder by its name or from its folder; never from the network.

    Parameters
    ----------
    name : str or Path
        See :func:`faircil.text.encoder_files.find_folder`.
    """
    text_module("transformers")
    folder = find_folder(name)
    raise_all(missing_files(folder), DataError)
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    config, table = model.config, model.get_input_embeddings()
    mistakes = []
    if config.is_encoder_decoder:
        mistakes.append(f"{folder} has a model of kind {config.model_type}, which writes texts")
    if not tokenizer.is_fast:
        mistakes.append(f"{folder} has a tokenizer in pure Python; expected a tokenizer.json")
    if tokenizer.pad_token_id is None:
        mistakes.append(f"the tokenizer of {folder} has no token to fill rows up with")
    if len(tokenizer) > table.num_embeddings:
        mistakes.append(
            f"the tokenizer of {folder} has {len(tokenizer)} tokens and the model "
            f"{table.num_embeddings}: they do not belong together"
        )
    if mistakes:
        mistakes[-1] += "; choose an encoder like BERT or MiniLM, with its own tokenizer"
    raise_all(mistakes, DataError)
    return Encoder(
        str(name),
        folder,
        model,
        tokenizer,
        config.hidden_size,
        min(_positions(model), tokenizer.model_max_length),
        tokenizer.pad_token_id,
        content_digest(folder),
    )


def load_model(folder: Path) -> Any:
    """Load the model of an encoder, in eval mode and float32."""
    transformers = text_module("transformers")
    with _understood(folder / CONFIG):
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    # Layers that the files do not have draw their weights, although none of them is kept.
    with _understood(folder), torch.random.fork_rng(devices=[]):
        model, found = transformers.AutoModel.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    missing = sorted(key for key in found["missing_keys"] if not key.startswith("pooler."))
    if missing:
        raise DataError(
            f"the weights in {folder} are not those of its {CONFIG}: {len(missing)} tensors are "
            f"missing ({shortened(missing, 3)}); get the files of the encoder again"
        )
    if hasattr(model, "pooler"):
        model.pooler = None  # unused, so it would be a part of the net that never trains
    return model.float().eval()


def load_tokenizer(folder: Path) -> Any:
    """Load the tokenizer of an encoder."""
    with _understood(folder, "tokenizer"):
        return text_module("transformers").AutoTokenizer.from_pretrained(
            folder, local_files_only=True
        )


@contextmanager
def _understood(path: Path, part: str = "model") -> Iterator[None]:
    """Turn whatever transformers says about files it does not understand into one message."""
    try:
        with quiet():
            yield
    except FaircilError:
        raise
    except Exception as error:  # of many kinds, some of which are plain Exceptions
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(
            f"the {part} in {path} cannot be loaded ({reason}): it is damaged, or transformers "
            f"{text_module('transformers').__version__} does not know its kind; get the files of "
            "the encoder again, or upgrade transformers"
        ) from error


def _positions(model: Any) -> int:
    """Return how many places a row can have."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its kin count places from behind that of the padding.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - first
    return int(getattr(model.config, "max_position_embeddings", 512))
