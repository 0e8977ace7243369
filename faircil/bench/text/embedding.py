"""Embedding a corpus with a frozen encoder, a shard at a time as a run does it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from faircil.bench.text.cases import EMBEDDINGS, Embedding
from faircil.bench.text.gauge import Cost, gauge
from faircil.bench.text.made import PADDING, Corpus, shortened_rows
from faircil.bench.text.record import EmbeddingRound
from faircil.bench.text.workload import Workload
from faircil.text.chunks import row_lengths
from faircil.text.embeddings import shard_rows
from faircil.text.encoders import Encoder
from faircil.text.passes import Passing, encode
from faircil.text.pooling import FROZEN


def measure_embeddings(
    workload: Workload, encoder: Encoder, corpus: Corpus, device: torch.device
) -> Iterator[EmbeddingRound]:
    """Embed in all ways, in turns; what is the whole corpus, once at the end."""
    gc.collect()  # nets that nobody needs any more would count as memory
    model = encoder.model.to(device)
    texts = {case: _texts(corpus, case) for case in EMBEDDINGS}
    for case, ids in texts.items():
        _embed(model, ids[: shard_rows(device)], case, device)  # warms up
    for number in range(1, workload.repeats + 1):
        for case, ids in texts.items():
            if case.part < 1 or number == workload.repeats:
                once = 1 if case.part == 1 else number
                yield EmbeddingRound(once, case, len(ids), _embed(model, ids, case, device))
    model.to("cpu")


def _texts(corpus: Corpus, case: Embedding) -> Tensor:
    """Return every so many-th text of the corpus, all of it for part 1."""
    every = round(1 / case.part)
    return shortened_rows(corpus.samples.x[::every].contiguous(), case.shortest)


def _embed(model: nn.Module, ids: Tensor, case: Embedding, device: torch.device) -> Cost:
    how = Passing(PADDING, FROZEN, case.token_budget, case.precision, ids.shape[1])

    def work() -> None:
        with torch.inference_mode():
            for shard in torch.split(ids, shard_rows(device)):
                encode(model, shard.to(device), how).cpu()

    return gauge(work, device, int(row_lengths(ids, PADDING).sum()))[1]
