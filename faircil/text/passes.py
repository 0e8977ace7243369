"""Any number of texts through an encoder, in bounded memory.

With gradients, and with more tokens than the budget allows, a chunk keeps nothing of its way
through the encoder but its tokens: the backward pass goes through the encoder again, chunk by
chunk. This is gradient accumulation that is exact for any loss, also for one that is no mean over
samples. Within the budget, activations are kept as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from faircil.compute import map_tasks
from faircil.errors import raise_all, unknown_name

Pooling = Callable[[Tensor, Tensor], Tensor]
FINE_TUNED = "cls"  # what training can make of the first token, it makes of it
FROZEN = "mean"  # without training, the first token of most encoders says little
STEP = 16  # tokens: widths of steady chunks are multiples of it
TOKEN_BUDGET = 16384  # a batch of 64 and as many replayed, of 128 tokens each: still one chunk
CPU_CHUNK = 1024  # tokens: a CPU gains nothing from larger chunks, which have more padding
PRECISIONS = ("auto", "float32", "bfloat16")


def first_token(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the vector of the first token, which BERT and its kin train for this: (n, d).

    Parameters
    ----------
    hidden : Tensor, shape (n, L, d)
        Vectors of the tokens.
    mask : Tensor of bool, shape (n, L)
        Which of them are tokens and not padding; at least one in each row.
    """
    del mask
    return hidden[:, 0].clone()  # a view would keep the vectors of all tokens in memory


def mean_token(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean vector of the tokens, (n, d); arguments as in :func:`first_token`."""
    weight = mask.to(hidden)[:, :, None]
    return (hidden * weight).sum(dim=1) / weight.sum(dim=1)


POOLINGS: dict[str, Pooling] = {"cls": first_token, "mean": mean_token}


@dataclass(frozen=True)
class Chunk:
    """Rows that go through an encoder together.

    Parameters
    ----------
    rows : Tensor of int64, shape (r,)
    width : int
        Length of the longest, or more: columns beyond hold nothing but padding.
    spare : int
        Rows that are added, whatever they hold, for the chunk to have a certain shape.
    """

    rows: Tensor
    width: int
    spare: int = 0


def row_lengths(ids: Tensor, pad_id: int) -> Tensor:
    """Return the number of tokens of each row of ids, (n, L), up to the last that is no padding.

    A row of padding counts as one token: an encoder has to look at something.

    Returns
    -------
    Tensor of int32, shape (n,)
    """
    place = torch.arange(1, ids.shape[1] + 1, dtype=torch.int32, device=ids.device)
    return torch.where(ids != pad_id, place, 1).amax(dim=1)


def cut(lengths: Tensor, token_budget: int) -> list[Chunk]:
    """Share all rows among chunks of at most ``token_budget`` tokens, padding included.

    A row that is longer than the budget has a chunk of its own.

    Parameters
    ----------
    lengths : Tensor of int, shape (n,)
        On the CPU; at least 1.
    token_budget : int
    """
    order = torch.argsort(lengths, descending=True, stable=True)
    widths = lengths[order].tolist()
    chunks, start = [], 0
    while start < len(widths):
        end = start + max(1, token_budget // widths[start])
        chunks.append(Chunk(order[start:end], widths[start]))
        start = end
    return chunks


def cut_steady(lengths: Tensor, token_budget: int, longest: int) -> list[Chunk]:
    """Share rows among chunks such that what becomes of a row depends on no other row.

    How a product of matrices is rounded depends on their shapes. Here the shape of a row's chunk is
    told by the length of the row: the next multiple of ``STEP``, and as many rows as that allows.

    Parameters
    ----------
    lengths : Tensor of int, shape (n,)
        On the CPU; at least 1.
    token_budget : int
    longest : int
        Widest chunk: the length that no row of any call exceeds.
    """
    widths = (-(-lengths // STEP) * STEP).clamp(max=longest)
    order = torch.argsort(widths, descending=True, stable=True)
    found, counts = torch.unique_consecutive(widths[order], return_counts=True)
    chunks = []
    for width, rows in zip(found.tolist(), torch.split(order, counts.tolist()), strict=True):
        size = max(1, token_budget // width)
        parts = torch.split(rows, size)
        chunks += [Chunk(part, width, size - len(part)) for part in parts]
    return chunks


def in_order(parts: Sequence[Tensor], chunks: Sequence[Chunk]) -> Tensor:
    """Join what was made of each chunk, (r, ...), in the order of the rows, (n, ...)."""
    place = torch.argsort(torch.cat([chunk.rows for chunk in chunks]))
    joined = torch.cat(list(parts))
    return joined.index_select(0, place.to(joined.device))


@dataclass(frozen=True)
class Passing:
    """How texts go through an encoder.

    Parameters
    ----------
    pad_id : int
        The token that fills rows up.
    pooling : str
        A name in ``POOLINGS``.
    token_budget : int
        Tokens whose activations are in memory at once, padding included.
    precision : str
        Of the products inside of the encoder: ``float32``, ``bfloat16``, or ``auto``, which is
        bfloat16 on a GPU that has it and float32 elsewhere. Its weights and results are float32.
    steady : int
        If not 0: without gradients, the vector of a text does not depend on the texts beside it,
        nor on the number of threads, bit for bit. It is the number of tokens that no text exceeds,
        here or in other calls.
    """

    pad_id: int
    pooling: str = FINE_TUNED
    token_budget: int = TOKEN_BUDGET
    precision: str = "auto"
    steady: int = 0

    def __post_init__(self) -> None:
        mistakes = []
        if self.pooling not in POOLINGS:
            mistakes.append(unknown_name("pooling", self.pooling, POOLINGS))
        if self.precision not in PRECISIONS:
            mistakes.append(unknown_name("precision", self.precision, PRECISIONS))
        if self.token_budget < 1:
            mistakes.append(
                f"token_budget is {self.token_budget}, expected a number of tokens, such as "
                f"{TOKEN_BUDGET}"
            )
        raise_all(mistakes)

    def mixed(self, device: torch.device) -> bool:
        """Whether the products on this device are in bfloat16."""
        if self.precision == "auto":
            return device.type == "cuda" and torch.cuda.is_bf16_supported()
        return self.precision == "bfloat16"


def encode(model: nn.Module, ids: Tensor, how: Passing) -> Tensor:
    """Return one vector per text.

    Parameters
    ----------
    model : Module
        An encoder of transformers, on the device of the ids.
    ids : Tensor of int32 or int64, shape (n, L)
        Tokens; see :func:`faircil.text.tokens.tokenize`.
    how : Passing

    Returns
    -------
    Tensor of float32, shape (n, d)
        In the order of the texts; with gradients, if they are on and the encoder is trained.
    """
    lengths = row_lengths(ids, how.pad_id)
    size = CPU_CHUNK if ids.device.type == "cpu" else how.token_budget
    size = min(size, how.token_budget)
    mixed, pool = how.mixed(ids.device), POOLINGS[how.pooling]

    def vectors(tokens: Tensor, mask: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=mixed):
            hidden = model(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
        return pool(hidden.float(), mask)

    def inputs(chunk: Chunk) -> tuple[Tensor, Tensor]:
        rows = torch.cat([chunk.rows, chunk.rows[:1].expand(chunk.spare)]).to(ids.device)
        place = torch.arange(chunk.width, device=ids.device)
        mask = place < lengths.index_select(0, rows)[:, None]
        tokens = ids.index_select(0, rows)[:, : chunk.width].long()
        missing = chunk.width - tokens.shape[1]
        return pad(tokens, (0, missing), value=how.pad_id) if missing else tokens, mask

    if len(ids) and torch.is_grad_enabled():
        chunks = cut(lengths.cpu(), size)
        tokens_in_all = sum(len(chunk.rows) * chunk.width for chunk in chunks)
        again = tokens_in_all > how.token_budget and len(chunks) > 1
        pass_on = partial(checkpoint, vectors, use_reentrant=False) if again else vectors
        return in_order([pass_on(*inputs(chunk)) for chunk in chunks], chunks)
    # All results have their place from the start: small ones, kept between the large blocks that
    # come and go with each chunk, would leave holes that nothing large fits into.
    out = torch.empty(len(ids), model.config.hidden_size, device=ids.device)  # type: ignore[union-attr,arg-type]

    def fill(chunk: Chunk) -> None:
        out[chunk.rows.to(ids.device)] = vectors(*inputs(chunk))[: len(chunk.rows)]

    shared = partial(cut_steady, longest=how.steady) if how.steady else cut
    map_tasks(fill, shared(lengths.cpu(), size), threads=ids.device.type == "cpu")
    return out
