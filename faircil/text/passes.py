"""Encoding of any number of texts in bounded memory: pooling, chunks and passes.

With gradients, and with more tokens than the budget, activations are not stored but recomputed in
the backward pass, chunk by chunk (gradient checkpointing). This is exact for any loss, even one
that is not a mean over samples. Within the budget, activations are kept as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils.checkpoint import checkpoint

from faircil.compute import map_tasks
from faircil.errors import raise_all, unknown_name

Pooling = Callable[[Tensor, Tensor], Tensor]
FINE_TUNED = "cls"  # fine-tuning adapts the first token
FROZEN = "mean"  # without fine-tuning, the first token is rarely informative
STEP = 16  # widths of steady chunks are multiples of this many tokens
TOKEN_BUDGET = 16384  # 64 current and 64 replayed texts of 128 tokens are one chunk
CPU_CHUNK = 1024  # tokens; on a CPU larger chunks only add padding
PRECISIONS = ("auto", "float32", "bfloat16")
GRAIN = 16  # tokens; widths are multiples of it
SLACK = 1.15  # maximum width of a known layout, relative to the batch's own, for its use


def first_token(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the vector of the first token, (n, d), which BERT-like models train for this.

    Parameters
    ----------
    hidden : Tensor, shape (n, L, d)
        Vectors of the tokens.
    mask : Tensor of bool, shape (n, L)
        True for tokens, False for padding; at least one token in each row.
    """
    del mask
    return hidden[:, 0].clone()  # a view would keep all token vectors in memory


def mean_token(hidden: Tensor, mask: Tensor) -> Tensor:
    """Return the mean vector of the tokens, (n, d); arguments as in :func:`first_token`."""
    weight = mask.to(hidden)[:, :, None]
    return (hidden * weight).sum(dim=1) / weight.sum(dim=1)


POOLINGS: dict[str, Pooling] = {"cls": first_token, "mean": mean_token}


@dataclass(frozen=True)
class Chunk:
    """Rows that pass through an encoder together.

    Parameters
    ----------
    rows : Tensor of int64, shape (r,)
    width : int
        At least the length of the longest row; further columns are padding.
    spare : int
        Number of dummy rows added to give the chunk a fixed shape.
    """

    rows: Tensor
    width: int
    spare: int = 0


def row_lengths(ids: Tensor, pad_id: int) -> Tensor:
    """Return the length of each row of ids, (n, L), without trailing padding.

    A row of padding has length 1, since an encoder needs at least one token.

    Returns
    -------
    Tensor of int32, shape (n,)
    """
    place = torch.arange(1, ids.shape[1] + 1, dtype=torch.int32, device=ids.device)
    return torch.where(ids != pad_id, place, 1).amax(dim=1)


def cut(lengths: Tensor, token_budget: int) -> list[Chunk]:
    """Divide rows into chunks of at most ``token_budget`` tokens, including padding.

    A row longer than the budget is a chunk of its own.

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
    """Divide rows into chunks so that the result of a row does not depend on other rows.

    The rounding of a matrix product depends on the shapes. Here the shape of a row's chunk depends
    only on the row's length: the next multiple of ``STEP``, and as many rows as the budget allows.

    Parameters
    ----------
    lengths : Tensor of int, shape (n,)
        On the CPU; at least 1.
    token_budget : int
    longest : int
        Width of the widest chunk, an upper bound of row lengths in all calls.
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
    """Join the results of the chunks, (r, ...), in the order of the rows, (n, ...)."""
    place = torch.argsort(torch.cat([chunk.rows for chunk in chunks]))
    joined = torch.cat(list(parts))
    return joined.index_select(0, place.to(joined.device))


@dataclass(frozen=True)
class Layout:
    """The shape of the texts in a training step.

    Parameters
    ----------
    rows : int
        Number of texts.
    width : int
        Tokens per text, with padding.
    """

    rows: int
    width: int

    @property
    def tokens(self) -> int:
        """Total number of tokens, with padding."""
        return self.rows * self.width


def layout_of(rows: int, longest: int, room: int) -> Layout:
    """Return the layout of texts.

    Parameters
    ----------
    rows : int
        Number of texts.
    longest : int
        Tokens of the longest text.
    room : int
        Maximum number of tokens in a row.
    """
    return Layout(rows, min(-(-longest // GRAIN) * GRAIN, room))


def suitable(own: Layout, known: Sequence[Layout], *, room: bool) -> Layout:
    """Return a known layout that fits a batch without much more padding, else the batch's own.

    Parameters
    ----------
    own : Layout
    known : sequence of Layout
        Layouts with the same number of texts.
    room : bool
        Whether another layout may be added; otherwise, any that fits is used.
    """
    fitting = [layout for layout in known if layout.width >= own.width]
    best = min(fitting, key=lambda layout: layout.width, default=own)
    return best if not room or best.width <= SLACK * own.width else own


@dataclass
class Use:
    """A layout, and how often it was used.

    Parameters
    ----------
    layout : Layout
    times : int
    """

    layout: Layout
    times: int = 0


_used: ContextVar[Use | None] = ContextVar("used", default=None)


@contextmanager
def fixed_shapes(layout: Layout) -> Iterator[Use]:
    """Use this layout for training passes in the block with as many texts as it has rows."""
    use = Use(layout)
    token = _used.set(use)
    try:
        yield use
    finally:
        _used.reset(token)


def fixed_for(rows: int) -> Layout | None:
    """Return the current layout if it is for this many texts, and count its use; else None."""
    use = _used.get()
    if use is None or use.layout.rows != rows:
        return None
    use.times += 1
    return use.layout


@dataclass(frozen=True)
class Passing:
    """Settings of a pass through an encoder.

    Parameters
    ----------
    pad_id : int
        The padding token.
    pooling : str
        A name in ``POOLINGS``.
    token_budget : int
        Maximum number of tokens with activations in memory, including padding.
    precision : str
        Number format of products in the encoder: ``float32``, ``bfloat16``, or ``auto``, which is
        bfloat16 on a GPU that supports it, else float32. Weights and results are float32.
    steady : int
        If not 0: without gradients, the vector of a text does not depend, bit for bit, on the other
        texts nor on the number of threads. The value is an upper bound of text lengths in all
        calls.
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
        """Whether products on this device are in bfloat16."""
        if self.precision == "auto":
            return device.type == "cuda" and torch.cuda.is_bf16_supported()
        return self.precision == "bfloat16"


def encode(model: nn.Module, ids: Tensor, how: Passing) -> Tensor:
    """Return one vector per text.

    Parameters
    ----------
    model : Module
        A transformers encoder, on the device of the ids.
    ids : Tensor of int32 or int64, shape (n, L)
        Tokens; see :func:`faircil.text.tokens.tokenize`.
    how : Passing

    Returns
    -------
    Tensor of float32, shape (n, d)
        In the order of the texts; with gradients, if enabled and the encoder is trained.
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

    layout = fixed_for(len(ids))
    if layout is not None and torch.is_grad_enabled():
        # Nothing here depends on the lengths, so the same kernels run for all batches.
        place = torch.arange(layout.width, device=ids.device)
        return vectors(ids[:, : layout.width].long(), place < lengths[:, None])
    if len(ids) and torch.is_grad_enabled():
        chunks = cut(lengths.cpu(), size)
        tokens_in_all = sum(len(chunk.rows) * chunk.width for chunk in chunks)
        again = tokens_in_all > how.token_budget and len(chunks) > 1
        pass_on = partial(checkpoint, vectors, use_reentrant=False) if again else vectors
        return in_order([pass_on(*inputs(chunk)) for chunk in chunks], chunks)
    # The output is allocated first: small results between the large temporary blocks of each
    # chunk would fragment the memory.
    out = torch.empty(len(ids), model.config.hidden_size, device=ids.device)  # type: ignore[union-attr,arg-type]

    def fill(chunk: Chunk) -> None:
        out[chunk.rows.to(ids.device)] = vectors(*inputs(chunk))[: len(chunk.rows)]

    shared = partial(cut_steady, longest=how.steady) if how.steady else cut
    map_tasks(fill, shared(lengths.cpu(), size), threads=ids.device.type == "cpu")
    return out
