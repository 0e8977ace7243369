from __future__ import annotations

import io
import pickle
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from faircil import FairSampleWeights
from faircil.compute import thread_safe
from faircil.errors import UsageError
from faircil.nets import evaluating, features_of, find_head, with_features
from faircil.samples import Samples
from faircil.text.encoders import Encoder
from faircil.text.text_net import TextNet
from faircil.text.tokens import tokenize
from tiny_encoder import random_texts

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(scope="module")
def x(tiny_encoder: Encoder) -> Tensor:
    return tokenize(random_texts(30), tiny_encoder, 24).ids


@pytest.fixture
def net(tiny_encoder: Encoder) -> TextNet:
    return TextNet(tiny_encoder, 5, seed=0, token_budget=100)


def state_of(net: nn.Module) -> list[Tensor]:
    return [value.clone() for value in net.state_dict().values()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def step(net: TextNet, x: Tensor) -> Tensor:
    """Train once, with dropout; return the logits."""
    net.train().zero_grad()
    logits = net(x)
    cross_entropy(logits, torch.arange(len(x)) % 5).backward()
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    return logits.detach()


def test_logits_are_the_head_of_the_plain_models_first_token(
    net: TextNet, tiny_encoder: Encoder, x: Tensor
) -> None:
    net.eval()
    for row, logits in zip(x, net(x), strict=True):
        hidden = tiny_encoder.model(input_ids=row[row != 0].long()[None]).last_hidden_state
        torch.testing.assert_close(logits, net.head(hidden[0, 0]), rtol=0, atol=1e-5)
    assert torch.equal(net(x), net.head(net.features(x)))
    assert net(x[:0]).shape == (0, 5)


def test_training_leaves_the_encoder_it_was_made_of(tiny_encoder: Encoder, x: Tensor) -> None:
    before, other = state_of(tiny_encoder.model), TextNet(tiny_encoder, 5, seed=0)
    net = TextNet(tiny_encoder, 5, seed=0)
    start = state_of(net)
    step(net, x)
    assert same(state_of(tiny_encoder.model), before)
    assert same(state_of(other), start)
    assert all(not torch.equal(a, b) for a, b in zip(state_of(net), start, strict=True))


def test_the_seed_decides_the_head_and_dropout(tiny_encoder: Encoder, x: Tensor) -> None:
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    nets = [TextNet(tiny_encoder, 5, seed=seed) for seed in (0, 0, 1)]
    first, again, _ = (step(net, x) for net in nets)
    assert torch.equal(torch.rand(2), expected)  # the global generator is left alone
    assert torch.equal(first, again)
    assert same(state_of(nets[0]), state_of(nets[1]))
    assert not torch.equal(nets[0].head.weight, nets[2].head.weight)
    heads = TextNet(tiny_encoder, 5, seed=0), TextNet(tiny_encoder, 5, seed=1)
    heads[1].head = deepcopy(heads[0].head)
    assert not torch.equal(heads[0](x), heads[1](x))


def test_dropout_is_new_in_every_pass_and_off_in_eval_mode(net: TextNet, x: Tensor) -> None:
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


def test_a_state_can_be_saved_and_loaded(tiny_encoder: Encoder, net: TextNet, x: Tensor) -> None:
    step(net, x)
    other = TextNet(tiny_encoder, 5, seed=7)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other.eval()(x[:3]), net.eval()(x[:3]))


def copied(net: TextNet) -> TextNet:
    return deepcopy(net)


def pickled(net: TextNet) -> TextNet:
    return pickle.loads(pickle.dumps(net))  # type: ignore[no-any-return]


def saved(net: TextNet) -> TextNet:
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    return torch.load(file, weights_only=False)  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", [copied, pickled, saved])
def test_a_copy_goes_on_as_the_original_would(net: TextNet, x: Tensor, way: type[TextNet]) -> None:
    step(net, x)
    copy = way(net)
    before = state_of(net)
    assert torch.equal(step(copy, x), copied(net)(x))
    assert same(state_of(net), before)
    step(net, x)
    assert same(state_of(net), state_of(copy))


def test_it_can_begin_again(tiny_encoder: Encoder, net: TextNet, x: Tensor) -> None:
    step(net, x)
    net.restart(3)
    fresh = TextNet(tiny_encoder, 5, seed=3, token_budget=100)
    assert same(state_of(net), state_of(fresh))
    assert torch.equal(step(net, x), step(fresh, x))


def test_the_head_and_the_features_are_found(net: TextNet, x: Tensor) -> None:
    head = find_head(net, x)
    assert head is net.head
    assert [m for m in net.modules() if isinstance(m, nn.Linear)][-1] is head
    logits, features = with_features(net.eval(), head, x)
    assert features.requires_grad
    torch.testing.assert_close(logits, net(x))
    torch.testing.assert_close(features_of(net, x), features.detach())
    assert not thread_safe(net)  # transformers promises nothing about threads


@pytest.mark.parametrize("granularity", ["sample", "group"])
def test_fair_sample_weights_come_from_its_head(net: TextNet, x: Tensor, granularity: str) -> None:
    net.train()
    y, z = torch.arange(30) % 4, torch.arange(30) // 4 % 2
    current = Samples(x[y >= 2], y[y >= 2], z[y >= 2])
    memory = Samples(x[y < 2], y[y < 2], z[y < 2])
    weigh = FairSampleWeights(measure="eo", alpha=0.01, lam=0.5, granularity=granularity)
    passes = net.passes
    result = weigh(net, current, memory, generator=torch.Generator().manual_seed(0))
    assert net.training
    assert net.passes == passes
    with evaluating(net):
        features = [net.features(part.x) for part in (current, memory)]
    plain = FairSampleWeights(measure="eo", alpha=0.01, lam=0.5, granularity=granularity)
    expected = plain(
        net.head,
        replace(current, x=features[0]),
        replace(memory, x=features[1]),
        generator=torch.Generator().manual_seed(0),
    )
    torch.testing.assert_close(result.weights, expected.weights, rtol=0, atol=1e-4)
    assert abs(result.objective - expected.objective) < 1e-5


@pytest.mark.parametrize("count", [0, 1, 2])
def test_only_the_last_layers_can_be_trained(tiny_encoder: Encoder, x: Tensor, count: int) -> None:
    net = TextNet(tiny_encoder, 5, seed=0, token_budget=100, trainable_layers=count)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    step(net, x)
    changed = {name for name, v in net.state_dict().items() if not torch.equal(v, before[name])}
    last = tuple(f"encoder.encoder.layer.{k}." for k in range(2 - count, 2))
    assert changed == {name for name in before if name.startswith((*last, "head."))}


@pytest.mark.parametrize("count", [-1, 3])
def test_a_number_of_layers_that_there_are_not_is_refused(
    tiny_encoder: Encoder, count: int
) -> None:
    with pytest.raises(UsageError, match=f"trainable_layers is {count}, .* has 2 layers"):
        TextNet(tiny_encoder, 5, seed=0, trainable_layers=count)


@needs_gpu
def test_dropout_on_a_gpu_comes_from_the_seed(tiny_encoder: Encoder, x: Tensor) -> None:
    nets = [TextNet(tiny_encoder, 5, seed=0, token_budget=100).to("cuda") for _ in range(2)]
    before = torch.cuda.get_rng_state()
    first = nets[0](x.cuda())
    assert torch.equal(torch.cuda.get_rng_state(), before)
    torch.cuda.manual_seed(9)
    torch.testing.assert_close(first, nets[1](x.cuda()))
    assert not torch.equal(first, nets[0](x.cuda()))


def test_a_mistake_in_how_texts_pass_is_said(tiny_encoder: Encoder) -> None:
    with pytest.raises(UsageError, match="unknown pooling 'max'"):
        TextNet(tiny_encoder, 5, seed=0, pooling="max")


def test_the_folder_is_remembered(net: TextNet, tiny_encoder: Encoder) -> None:
    assert net.folder == tiny_encoder.folder
    assert isinstance(net.folder, Path)
