"""Encoders of texts: a model of transformers with its tokenizer, from files on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from faircil.errors import DataError, raise_all
from faircil.text.encoder_files import content_digest, find_folder, missing_files
from faircil.text.extra import text_module
from faircil.text.models import (
    ANOTHER,
    known_tokens,
    load_model,
    load_tokenizer,
    positions,
    reads_ahead,
)


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
    reads_ahead : bool
        Whether its first token knows of those that follow. Models that write texts from left to
        right do not.
    """

    name: str
    folder: Path
    model: nn.Module
    tokenizer: Any
    hidden_size: int
    max_length: int
    pad_id: int
    digest: str
    reads_ahead: bool = True


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
    config, mistakes = model.config, list[str]()
    if config.is_encoder_decoder:
        mistakes.append(f"{folder} has a model of kind {config.model_type}, which writes texts")
    if not tokenizer.is_fast:
        mistakes.append(f"{folder} has a tokenizer in pure Python; expected a tokenizer.json")
    if tokenizer.pad_token_id is None:
        mistakes.append(f"the tokenizer of {folder} has no token to fill rows up with")
    elif tokenizer.pad_token_id in tokenizer("")["input_ids"]:
        mistakes.append(
            f"the tokenizer of {folder} puts {tokenizer.pad_token!r} around texts and fills rows "
            "up with it, so that the two cannot be told apart"
        )
    known = known_tokens(model)
    if known is None:
        mistakes.append(f"{folder} has a model of kind {config.model_type}, which reads no texts")
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
        reads_ahead(model),
    )
