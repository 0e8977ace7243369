"""Texts as rows of token ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from faircil.errors import DataError, UsageError, shortened
from faircil.text.encoders import Encoder

MAX_TOKENS = 128  # as in the paper
ROWS, CHARACTERS = 1024, 2**20  # maximum size of texts tokenised together
BEGINNING = 50  # characters kept per token, ten times the usual number
LONG, EMPTY, UNKNOWN = 1, 2, 4
ODD = {
    LONG: "texts longer than {} tokens, truncated",
    EMPTY: "texts that are empty, so the encoder cannot distinguish them",
    UNKNOWN: "texts of which the encoder knows less than half (another language?)",
}
Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Tokens:
    """Tokens of n texts, with flags of unusual texts.

    Parameters
    ----------
    ids : Tensor of int32, shape (n, L)
        Padded; L is the length of the longest row.
    odd : ndarray of uint8, shape (n,)
        Bits of ``ODD``; 0 for an ordinary text.
    """

    ids: Tensor
    odd: Bits


def odd_notes(odd: Bits, max_tokens: int) -> list[str]:
    """Return notes for the user about the flags of texts, (n,)."""
    counts = {what: np.count_nonzero(odd & bit) for bit, what in ODD.items()}
    return [
        f"{what.format(max_tokens)}: {count:,} of {len(odd):,}"
        for what, count in counts.items()
        if count
    ]


def tokenize(texts: Sequence[str], encoder: Encoder, max_tokens: int = MAX_TOKENS) -> Tokens:
    """Turn texts into rows of tokens.

    Parameters
    ----------
    texts : sequence of str
        May be empty, long, and in any script.
    encoder : Encoder
    max_tokens : int
        Maximum length of a row, including special tokens.
    """
    tokenizer = encoder.tokenizer
    around = tokenizer.num_special_tokens_to_add()
    if encoder.max_length <= around:
        raise DataError(
            f"encoder '{encoder.name}' puts {around} tokens of its own around a text and takes no "
            f"more than {encoder.max_length}: its files are wrong; choose another encoder"
        )
    if not around < max_tokens <= encoder.max_length:
        raise UsageError(
            f"max_tokens is {max_tokens}, expected {around + 1} to {encoder.max_length}: encoder "
            f"'{encoder.name}' puts {around} tokens of its own around a text and takes no more "
            f"than {encoder.max_length}"
        )
    check_texts(texts)
    parts = [np.empty((0, 1), dtype=np.int32)]
    odd = np.zeros(len(texts), dtype=np.uint8)
    begin = 0
    for batch in _batches(texts):
        rows = []
        for number, (row, more) in enumerate(_tokens(batch, tokenizer, max_tokens), begin):
            strange = 2 * np.count_nonzero(row == tokenizer.unk_token_id) > len(row) - around
            odd[number] |= LONG * more | EMPTY * (len(row) <= around) | UNKNOWN * bool(strange)
            rows.append(row)
        parts.append(_filled(rows, encoder.pad_id))
        begin += len(rows)
    longest = max(part.shape[1] for part in parts)
    ids = np.full((len(texts), longest), encoder.pad_id, dtype=np.int32)
    end = 0
    for part in parts:
        ids[end : end + len(part), : part.shape[1]] = part
        end += len(part)
    return Tokens(torch.from_numpy(ids), odd)


def check_texts(texts: Sequence[object]) -> None:
    """Raise a DataError that lists the texts that are not strings, if there are any."""
    wrong = [number for number, text in enumerate(texts) if not isinstance(text, str)]
    if wrong:
        example = texts[wrong[0]]
        raise DataError(
            f"{len(wrong)} of {len(texts)} texts are not strings: rows "
            f"{shortened([str(number) for number in wrong])} (from 0), the first is "
            f"{example!r:.40} of type {type(example).__name__}; fill in what is missing, with '' "
            "for no text"
        )


def _tokens(
    texts: Sequence[str], tokenizer: Any, max_tokens: int
) -> Iterator[tuple[NDArray[np.int32], bool]]:
    """Yield the tokens of each text, and whether it was truncated.

    Only the beginning of a very long text is tokenised at first, since tokenising needs a multiple
    of its memory. The rest is used if this gives too few tokens, for example for blanks.
    """

    def encode(some: Sequence[str]) -> list[tuple[NDArray[np.int32], bool]]:
        found = tokenizer(list(some), truncation=True, max_length=max_tokens, verbose=False)
        parts = zip(found["input_ids"], found.encodings, strict=True)
        return [(np.array(row, dtype=np.int32), bool(each.overflowing)) for row, each in parts]

    enough = BEGINNING * max_tokens
    for text, (row, more) in zip(
        texts, encode([_beginning(text, enough) for text in texts]), strict=True
    ):
        yield (row, more) if more or len(text) <= enough else encode([text])[0]


def _beginning(text: str, length: int) -> str:
    """Truncate a long text after a word; a text without blanks is unchanged."""
    if len(text) <= length:
        return text
    end = max(text.rfind(blank, 0, length) for blank in " \t\n")
    return text[:end] if end > 0 else text


def _filled(rows: Sequence[np.ndarray], pad_id: int) -> np.ndarray:
    length = np.array([len(row) for row in rows])
    filled = np.full((len(rows), max(1, length.max())), pad_id, dtype=np.int32)
    filled[np.arange(filled.shape[1]) < length[:, None]] = np.concatenate(rows)
    return filled


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Yield the texts in small batches, since tokenising needs a multiple of their memory."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == ROWS or size + len(text) > CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(_valid(text))
        size += len(text)
    if batch:
        yield batch


def _valid(text: str) -> str:
    """Return the text with lone surrogates, which tokenizers reject, replaced by �."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
