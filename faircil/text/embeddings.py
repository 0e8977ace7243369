"""Embeddings of texts by a frozen encoder, cached on disk.

Rows are embedded shard by shard, in order: beyond the result, memory does not grow with the
corpus, and an interrupted process loses at most one shard.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from faircil.cache import EmbeddingProgress, Index, Keys, Recipe, Rows, cached_rows
from faircil.errors import DataError
from faircil.text.encoders import Encoder
from faircil.text.passes import FROZEN, TOKEN_BUDGET, Passing, encode, row_lengths
from faircil.text.tokens import MAX_TOKENS, Bits, check_texts, tokenize

SHARD_ROWS = 1024  # half a minute of work of a small encoder on one core
GPU_SHARD_ROWS = 16384  # one second; with fewer rows, large GPU chunks would be mostly padding


@dataclass(frozen=True)
class TextRecipe(Recipe):
    """Everything except the text that determines its embedding.

    Parameters
    ----------
    encoder : str
        Digest of the encoder's weights and tokenizer.
    width : int
        Dimension of an embedding, plus one for its flags.
    pooling : str
    max_tokens : int
        Longer texts are truncated.
    precision : str
        Number format of the forward pass.
    token_budget : int
        It affects the shapes of products in the encoder, and thus the last bits.
    version : int
        Version of the code that computes an embedding; incremented manually when it changes.
    """

    pooling: str
    max_tokens: int
    precision: str
    token_budget: int
    version: int = 2

    def keys_of(self, texts: Iterable[str]) -> Keys:
        """Return the keys of texts, shape (n,); lone surrogates are allowed."""
        return self.keys(text.encode("utf-8", "surrogatepass") for text in texts)


@dataclass(frozen=True)
class Embeddings:
    """Embeddings of n texts.

    Parameters
    ----------
    vectors : ndarray of float32, shape (n, hidden size of the encoder)
    odd : ndarray of uint8, shape (n,)
        Flags of unusual texts; see :class:`faircil.text.tokens.Tokens`.
    """

    vectors: Rows
    odd: Bits


def embed(
    texts: Sequence[str],
    encoder: Encoder,
    *,
    pooling: str = FROZEN,
    max_tokens: int = MAX_TOKENS,
    token_budget: int = TOKEN_BUDGET,
    precision: str = "auto",
    device: torch.device | str = "cpu",
    cache: Path | None,
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> Embeddings:
    """Return an embedding for each text.

    The same text has the same embedding, bit for bit, whether it is computed or read.

    Parameters
    ----------
    texts : sequence of str
        A text that occurs several times is embedded once.
    encoder : Encoder
        Not modified.
    pooling, precision : str
        See :class:`faircil.text.passes.Passing`. Embeddings of different precision are cached
        separately; with ``auto``, CPU and GPU do not share them.
    token_budget : int
        Maximum number of tokens per pass; since it affects the last bits, embeddings of different
        budgets are cached separately.
    max_tokens : int
        Longer texts are truncated.
    device : torch.device or str
    cache : Path or None
        Folder of all embeddings, see :func:`faircil.cache.cache_folder`; None: no cache.
    progress : callable
        Called after each shard of new embeddings.
    report : callable
        Receives messages about damaged parts of the cache.

    Raises
    ------
    StorageError
        If embeddings cannot be stored, for example on a full disk.
    """
    texts, device = list(texts), torch.device(device)
    check_texts(texts)
    how = Passing(encoder.pad_id, pooling, token_budget, precision, steady=max_tokens)
    number = "bfloat16" if how.mixed(device) else "float32"
    # Flags are stored with the vector, since computing them again needs the tokenizer.
    recipe = TextRecipe(
        encoder.digest, encoder.hidden_size + 1, pooling, max_tokens, number, token_budget
    )

    def compute(missing: Index, out: Rows, keep: Callable[[Index], None]) -> None:
        start, tokens = time.perf_counter(), 0
        with _frozen(encoder.model, device):
            size = shard_rows(device)
            for begin in range(0, len(missing), size):
                rows = missing[begin : begin + size]
                found = tokenize([texts[row] for row in rows], encoder, max_tokens)
                out[rows, :-1] = _vectors(encoder, found.ids.to(device), how)
                out[rows, -1] = found.odd
                keep(rows)
                tokens += int(row_lengths(found.ids, encoder.pad_id).sum())
                seconds = time.perf_counter() - start
                progress(EmbeddingProgress(begin + len(rows), len(missing), tokens, seconds))

    out = cached_rows(recipe, recipe.keys_of(texts), cache, compute, report)
    return Embeddings(out[:, :-1], out[:, -1].astype(np.uint8))


def shard_rows(device: torch.device) -> int:
    """Return the number of texts per shard."""
    return SHARD_ROWS if device.type == "cpu" else GPU_SHARD_ROWS


def _vectors(encoder: Encoder, ids: Tensor, how: Passing) -> Rows:
    with torch.inference_mode():
        vectors: Rows = encode(encoder.model, ids, how).cpu().numpy()
    if not np.isfinite(vectors).all():  # must not be stored
        raise DataError(
            f"encoder '{encoder.name}' gives NaN or infinite embeddings; its weights are damaged"
            + ", or too large for precision bfloat16: try float32" * how.mixed(ids.device)
        )
    return vectors


@contextmanager
def _frozen(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Move the model to the device in eval mode, and restore it afterwards."""
    before, training = next(model.parameters()).device, model.training
    try:
        model.to(device).eval()
        yield
    finally:
        model.to(before).train(training)
