"""Models and tokenizers of transformers, loaded from files and checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from faircil.errors import DataError, FaircilError, shortened
from faircil.text.encoder_files import CONFIG
from faircil.text.extra import quiet, text_module

ANOTHER = "choose an encoder like BERT or MiniLM, with its own tokenizer"
FROM_HERE = {"local_files_only": True, "trust_remote_code": False}  # neither the net nor its code
LAYER = re.compile(r"(^|\.)(layers?|h|blocks?)\.\d+\.")  # in the name of a tensor
UNCHANGED = 1e-5  # of a vector: what rounding does to it
NO_LIMIT = 2**30  # places of a row: XLNet says -1


def load_model(folder: Path) -> Any:
    """Load the model of an encoder, in eval mode and float32."""
    transformers = text_module("transformers")
    with _understood(folder / CONFIG):
        config = transformers.AutoConfig.from_pretrained(folder, **FROM_HERE)
    # Layers that the files do not have draw their weights, although none of them is kept.
    with _understood(folder), torch.random.fork_rng(devices=[]):
        model, found = transformers.AutoModel.from_pretrained(
            folder,
            config=config,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # they are a mistake below
            **FROM_HERE,
        )
    mistakes = _tensor_mistakes(model, found)
    if mistakes:
        raise DataError(
            f"the weights in {folder} are not those of its {CONFIG}, or damaged: "
            f"{'; '.join(mistakes)}; get the files of the encoder again"
        )
    if hasattr(model, "pooler"):
        model.pooler = None  # unused, so it would be a part of the net that never trains
    return model.float().eval()


def _tensor_mistakes(model: Any, found: dict[str, Any]) -> list[str]:
    """Say what is wrong with the weights of a model, by what transformers found in the files."""
    wrong = {
        "are missing": [key for key in found["missing_keys"] if not key.startswith("pooler.")],
        # Heads for other tasks may be there, layers of the encoder that are not used may not.
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
        tokenizer("a ☃")  # a vocabulary without a token for what it does not know fails at this
    tokenizer.truncation_side = "right"  # what a text begins with is used, whatever the files say
    return tokenizer


def known_tokens(model: Any) -> int | None:
    """Return how many tokens a model has vectors for; None if it does not read tokens."""
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError):
        return None


def positions(model: Any) -> int:
    """Return how many places a row can have."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            # RoBERTa and its kin count places from behind that of the padding.
            first = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - first
    places = int(getattr(model.config, "max_position_embeddings", 512))
    return places if places > 0 else NO_LIMIT


def reads_ahead(model: Any) -> bool:
    """Tell whether the vector of the first token changes with the last token."""
    ids = torch.ones(2, min(4, positions(model)), dtype=torch.int64)
    ids[1, -1] = 2
    with torch.no_grad():
        first, other = model(input_ids=ids).last_hidden_state[:, 0]
    return bool((first - other).abs().max() > UNCHANGED * first.abs().max())


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
