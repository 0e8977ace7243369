"""Datasets and loaders are weighed as the same samples in memory are."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    SubsetRandomSampler,
    TensorDataset,
)

from faircil import FaircilError, FairSampleWeights, Samples
from faircil.nets import MLP
from faircil.weighting import last_layer
from oracles import make_samples, seeded

CURRENT = make_samples([2, 3, 3] * 11, [0, 1, 1, 0] * 8 + [0], seed=1)
MEMORY = make_samples([0, 1] * 10, [0, 1, 1, 0] * 5, seed=2)
BY_FIELDS: dict[str, Any] = {"batch": ("image", "target", "group")}


def parts(samples: Samples) -> tuple[Tensor, Tensor, Tensor]:
    assert samples.z is not None
    return samples.x, samples.y, samples.z


class Rows(Dataset[Any]):
    """Samples as dicts, which counts how often each is read."""

    def __init__(self, samples: Samples, names: tuple[str, str, str]) -> None:
        self.samples, self.names = parts(samples), names
        self.reads = torch.zeros(len(samples), dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.reads)

    def __getitem__(self, row: int) -> dict[str, Tensor]:
        self.reads[row] += 1
        return {name: part[row] for name, part in zip(self.names, self.samples, strict=True)}


def forms(samples: Samples) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The samples in every form, and what FairSampleWeights must know about it."""
    tuples = TensorDataset(*parts(samples))
    named = Rows(samples, ("x", "labels", "sensitive"))
    fields = Rows(samples, ("image", "target", "group"))
    return {
        "dataset": (tuples, {}),
        "list": ([tuples[i] for i in range(len(tuples))], {}),
        "loader": (DataLoader(tuples, 7), {}),
        "shuffled": (DataLoader(tuples, 7, shuffle=True, drop_last=True), {}),
        "batch sampler": (DataLoader(tuples, batch_sampler=[[3, 1], [2, 2]]), {}),
        "named": (DataLoader(named, 5, shuffle=True), {}),
        "fields": (fields, BY_FIELDS),
        "function": (fields, {"batch": lambda b: (b["image"], b["target"], b["group"])}),
    }


@pytest.mark.parametrize("gradient", ["last", "all"])
@pytest.mark.parametrize("form", forms(CURRENT))
def test_every_form_gives_the_weights_of_the_samples(form: str, gradient: str) -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    expected = FairSampleWeights(alpha=0.3, gradient=gradient)(net, CURRENT, MEMORY)
    current, options = forms(CURRENT)[form]
    weigh = FairSampleWeights(alpha=0.3, gradient=gradient, **options)
    for memory in (MEMORY, forms(MEMORY)[form][0]):
        got = weigh(net, current, memory)
        # Sums over rows in float64, in another order.
        assert np.allclose(got.groups.losses, expected.groups.losses, rtol=0, atol=1e-12)
        assert torch.allclose(got.weights, expected.weights, rtol=0, atol=1e-9)
        assert torch.equal(got.group, expected.group)


def test_a_dataset_is_read_once_for_the_last_layer() -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    current = Rows(CURRENT, ("x", "y", "z"))
    FairSampleWeights(alpha=0.3)(net, DataLoader(current, 10, shuffle=True), MEMORY)
    assert current.reads.tolist() == [2] * 8 + [1] * 25  # the first few inspect the net


@pytest.mark.parametrize("gradient", ["last", "all"])
def test_inputs_are_not_kept(gradient: str) -> None:
    alive: list[int] = []
    read = weakref.WeakSet[Tensor]()

    def collate(rows: list[Any]) -> Any:
        batch = torch.utils.data.default_collate(rows)
        read.add(batch[0])
        alive.append(len(read))
        return batch

    net = seeded(lambda: MLP(6, 4, (8,)))
    loader = DataLoader(TensorDataset(*parts(CURRENT)), 3, collate_fn=collate)
    FairSampleWeights(gradient=gradient)(net, loader, MEMORY)
    assert len(alive) > 11
    assert max(alive) <= 3  # the first few, one in use, and the next


def test_reading_leaves_random_numbers_alone() -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(TensorDataset(*parts(CURRENT)), 7, shuffle=True, generator=generator)
    before = torch.get_rng_state(), generator.get_state()
    FairSampleWeights()(net, loader, MEMORY)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.equal(generator.get_state(), before[1])


class Encoder(nn.Module):
    """A net as libraries of texts have them: inputs by keyword, an output with ``logits``."""

    def __init__(self, returns: str) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(9, 5), nn.Linear(5, 4)
        self.returns = returns

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        kept = attention_mask[:, :, None]
        hidden = (self.embed(input_ids) * kept).sum(dim=1) / kept.sum(dim=1)
        logits = self.head(hidden)
        outputs = {"tuple": (logits, (hidden,)), "dict": {"logits": logits, "hidden": hidden}}
        return outputs.get(self.returns, (hidden, logits))


def tokens(samples: Samples) -> list[dict[str, Tensor | int]]:
    draw = torch.Generator().manual_seed(0)
    words = torch.randint(9, (len(samples), 6), generator=draw)
    mask = (torch.rand(len(samples), 6, generator=draw) < 0.7).long()
    mask[:, 0] = 1
    _, y, z = parts(samples)
    return [
        {"input_ids": w, "attention_mask": m, "labels": int(a), "sensitive": int(b)}
        for w, m, a, b in zip(words, mask, y, z, strict=True)
    ]


@pytest.mark.parametrize("gradient", ["last", "all"])
def test_tokens_by_keyword(gradient: str) -> None:
    current, memory = tokens(CURRENT), tokens(MEMORY)
    weigh = FairSampleWeights(alpha=0.3, gradient=gradient)
    one, other = (weigh(seeded(lambda k=k: Encoder(k)), current, memory) for k in ("tuple", "dict"))
    own = FairSampleWeights(alpha=0.3, gradient=gradient, logits=lambda net, x: net(**x)[1])
    third = own(seeded(lambda: Encoder("features first")), current, memory)
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one.weights, third.weights)
    assert one.partial + one.dropped > 0
    with pytest.raises(FaircilError, match=r"returned a tuple, expected logits.*pass logits="):
        weigh(seeded(lambda: Encoder("features first")), current, memory)


class Cosine(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        unit = nn.functional.normalize
        return 4 * nn.functional.linear(unit(x, dim=1), unit(self.weight, dim=1))


class Ends(nn.Module):
    """A net whose logits are not the output of one plain linear layer."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.body, self.head = kind, nn.Linear(6, 5), nn.Linear(5, 6)
        self.other, self.cosine = nn.Linear(5, 2), Cosine(5, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.body(x))
        if self.kind == "sliced":
            return self.head(h)[:, :4]
        if self.kind == "concatenated":
            return torch.cat([self.other(h), self.other(-h)], dim=1)
        if self.kind == "cosine":
            return self.cosine(h)
        if self.kind == "twice":
            logits: Tensor = self.head(h)
            self.head(2 * h)
            return logits
        return torch.relu(self.head(h) + 2.5)  # all above 0 for the first samples


ENDS = ["sliced", "concatenated", "cosine", "twice", "bent"]


@pytest.mark.parametrize("form", ["samples", "dataset"])
@pytest.mark.parametrize("kind", ENDS)
def test_another_head_takes_all_layers_and_says_so(
    kind: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    net = seeded(lambda: Ends(kind))
    current = CURRENT if form == "samples" else TensorDataset(*parts(CURRENT))
    with caplog.at_level(logging.WARNING):
        got = FairSampleWeights(alpha=0.3)(net, current, MEMORY)
    assert "linear layer" in caplog.text
    assert "gradient='all'" in caplog.text
    expected = FairSampleWeights(alpha=0.3, gradient="all")(net, CURRENT, MEMORY)
    assert torch.allclose(got.weights, expected.weights, rtol=0, atol=1e-9)
    with pytest.raises(FaircilError, match="linear layer"):
        FairSampleWeights(head="cosine" if kind == "cosine" else "head")(net, current, MEMORY)
    with pytest.raises(FaircilError, match="linear layer"):
        FairSampleWeights(granularity="cluster")(net, current, MEMORY)


def test_a_head_is_compared_on_all_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bent(Ends):
        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(torch.tanh(self.body(x)))
            return torch.where(x[:, :1] > 1.5, 2 * logits, logits)

    net = seeded(lambda: Bent(""))
    monkeypatch.setattr(last_layer, "chunk_size", lambda _: 3)
    with pytest.raises(FaircilError, match="for some inputs"):
        FairSampleWeights(head="head")(net, CURRENT, MEMORY)


def test_copied_logits_are_still_those_of_the_head(caplog: pytest.LogCaptureFixture) -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    weigh = FairSampleWeights(alpha=0.3, logits=lambda net, x: net(x).clone())
    got, expected = weigh(net, CURRENT, MEMORY), FairSampleWeights(alpha=0.3)(net, CURRENT, MEMORY)
    assert torch.allclose(got.weights, expected.weights, rtol=0, atol=1e-9)
    assert not caplog.text


def test_probabilities_are_refused() -> None:
    net = nn.Sequential(seeded(lambda: MLP(6, 4, (8,))), nn.Softmax(dim=1))
    with pytest.raises(FaircilError, match="returned probabilities, expected logits"):
        FairSampleWeights()(net, CURRENT, MEMORY)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(zip(*parts(CURRENT), strict=True))


def dropping(rows: list[Any]) -> Any:
    return torch.utils.data.default_collate(rows[1:])


def doubling(rows: list[Any]) -> Any:
    return torch.utils.data.default_collate(rows + rows)


TUPLES = TensorDataset(*parts(CURRENT))
BAD: dict[str, tuple[Any, str]] = {
    "iterable": (DataLoader(Endless(), 4), "Endless cannot be weighted: its samples are not numb"),
    "tensor": (CURRENT.x, "a Tensor cannot be weighted"),
    "unbatched": (DataLoader(TUPLES, batch_size=None), "batch_size=None"),
    "subset": (DataLoader(TUPLES, sampler=SubsetRandomSampler([1])), r"Subset\(dataset, rows\)"),
    "lossy": (DataLoader(TUPLES, 11, collate_fn=dropping), "33 samples and its batches have 30"),
    "doubled": (DataLoader(TUPLES, 9, collate_fn=doubling), "its batches have more than 33"),
    "inputs only": (TensorDataset(CURRENT.x), r"a list of 1 items, expected \(x, y\).*pass batch="),
    "no labels": ([{"x": CURRENT.x[0], "target": 1}], r"no field 'labels'.*target.*pass batch="),
    "float labels": (TensorDataset(CURRENT.x, CURRENT.x[:, 0]), "float64, expected integers"),
    "words": ([(CURRENT.x[0], "cat", 0)], r"are \('cat',\), expected integers"),
    "names": ([("a", 1, 0)], "the inputs of a batch have a str"),
    "ignored": (TensorDataset(CURRENT.x, CURRENT.y - 102, CURRENT.y), "has class -100"),
    "beyond": (TensorDataset(CURRENT.x, CURRENT.y + 1, CURRENT.y), "class 4 is beyond the net's 4"),
    "empty": ([], "no current samples"),
}


@pytest.mark.parametrize("gradient", ["last", "all"])
@pytest.mark.parametrize("bad", BAD)
def test_what_cannot_be_weighed_is_named(bad: str, gradient: str) -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    given, message = BAD[bad]
    with pytest.raises(FaircilError, match=message):
        FairSampleWeights(gradient=gradient)(net, given, MEMORY)


def test_missing_fields_are_named() -> None:
    net = seeded(lambda: MLP(6, 4, (8,)))
    current = Rows(CURRENT, ("x", "label", "sex"))
    with pytest.raises(FaircilError, match="no field 'target'; it has x, label, sex"):
        FairSampleWeights(batch=("x", "target"))(net, current, MEMORY)
