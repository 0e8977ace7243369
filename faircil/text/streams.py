"""Encode a stream of texts as a stream of token ids or embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from faircil.cache import EmbeddingProgress, cache_folder
from faircil.data.stream import TaskStream
from faircil.errors import UsageError
from faircil.samples import Samples
from faircil.text.embeddings import embed
from faircil.text.encoders import Encoder, content_digest, find_folder, load_encoder
from faircil.text.options import TextOptions
from faircil.text.passes import FINE_TUNED as FIRST_TOKEN
from faircil.text.tokens import odd_notes, tokenize

ROUNDING = 1e-5  # relative to the largest value: smaller variation counts as constant


def encoded(
    stream: TaskStream,
    options: TextOptions,
    *,
    device: torch.device | str = "cpu",
    progress: Callable[[EmbeddingProgress], None] = lambda _: None,
) -> TaskStream:
    """Encode the texts of a stream that occur in its tasks.

    Parameters
    ----------
    stream : TaskStream
        A stream with texts.
    options : TextOptions
    device : torch.device or str
        Device for embeddings that are not cached.
    progress : callable
        Receives the progress of embedding.

    Returns
    -------
    TaskStream
        A sample's ``x`` is a row of token ids, int32 (L,), if the encoder is fine-tuned, else an
        embedding, float32 (d,), standardised with the first task's training samples, since later
        tasks are unknown when it is learned.
    """
    encoder = kept_encoder(options.encoder)
    if options.pool == FIRST_TOKEN and not encoder.bidirectional:
        raise UsageError(
            f"encoder '{options.encoder}' reads from left to right, so its first token, which "
            "pooling=cls takes for the text, knows nothing of it; use `pooling=mean`"
        )
    used, places = _used_texts(stream)
    texts = [(stream.texts or ())[number] for number in used]
    said: list[str] = []
    if options.finetune:
        tokens = tokenize(texts, encoder, options.max_tokens)
        inputs, odd = tokens.ids, tokens.odd
    else:
        embeddings = embed(
            texts,
            encoder,
            pooling=options.pool,
            max_tokens=options.max_tokens,
            precision=options.precision,
            device=device,
            cache=cache_folder(),
            progress=progress,
            report=said.append,
        )
        first = places[stream.tasks[0].train.x]
        inputs, odd = _standardised(torch.from_numpy(embeddings.vectors), first), embeddings.odd

    def with_inputs(samples: Samples) -> Samples:
        return replace(samples, x=inputs.index_select(0, places[samples.x]))

    return replace(
        stream,
        tasks=tuple(
            replace(task, train=with_inputs(task.train), test=with_inputs(task.test))
            for task in stream.tasks
        ),
        notes=(*stream.notes, *odd_notes(odd, options.max_tokens), *said),
        texts=None,
    )


def _used_texts(stream: TaskStream) -> tuple[list[int], Tensor]:
    """Return the indices of texts that occur in tasks, and the position of each text in them."""
    parts = [part.x for task in stream.tasks for part in (task.train, task.test)]
    used = torch.unique(torch.cat(parts))
    places = torch.full((len(stream.texts or ()),), -1)
    places[used] = torch.arange(len(used))
    return used.tolist(), places


def _standardised(vectors: Tensor, first: Tensor) -> Tensor:
    """Standardise each coordinate with the statistics of rows ``first``, in place."""
    known = vectors.index_select(0, first)
    spread = known.std(dim=0, correction=0)
    # Coordinates that are constant up to rounding would be amplified.
    varies = spread > ROUNDING * known.abs().amax(dim=0)
    return vectors.sub_(known.mean(dim=0)).div_(torch.where(varies, spread, 1))


def kept_encoder(name: str) -> Encoder:
    """Load an encoder, or return the last one loaded, so that runs of a sweep share it."""
    return _loaded(name, content_digest(find_folder(name)))


@lru_cache(maxsize=1)
def _loaded(name: str, content: str) -> Encoder:
    del content  # part of the cache key: files may change
    return load_encoder(name)
