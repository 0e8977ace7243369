from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from faircil.learners import Batch
from faircil.nets import NetTraits
from faircil.runs import graphs
from faircil.runs.graphs import GraphedStep
from faircil.samples import Samples
from faircil.text.encoders import Encoder, load_encoder
from faircil.text.passes import (
    POOLINGS,
    Layout,
    Passing,
    encode,
    fixed_for,
    fixed_shapes,
    layout_of,
    row_lengths,
    suitable,
)
from faircil.text.text_net import TextNet
from faircil.text.tokens import tokenize
from learning import buffer_of, new_learner, parameters
from tiny_encoder import random_texts, write_tiny_encoder

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(scope="module")
def ids(tiny_encoder: Encoder) -> Tensor:
    return tokenize(random_texts(41), tiny_encoder, 24).ids


def test_widths_are_rounded_up_as_far_as_there_is_room() -> None:
    assert [layout_of(4, n, 120).width for n in (1, 16, 17, 100, 113, 120)] == [
        16, 16, 32, 112, 120, 120,
    ]  # fmt: skip
    assert layout_of(4, 33, 128).tokens == 4 * 48


def test_a_batch_takes_a_known_layout_unless_that_is_mostly_padding() -> None:
    own, near, far = (Layout(4, width) for width in (64, 72, 128))
    assert suitable(own, [], room=False) == own
    assert suitable(own, [far, near], room=True) == near
    assert suitable(own, [far], room=True) == own
    assert suitable(own, [far], room=False) == far
    assert suitable(far, [near, own], room=False) == far  # fits in none: ordinary steps


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("width", [24, 20])
def test_vectors_and_gradients_do_not_depend_on_the_layout(
    tiny_encoder: Encoder, ids: Tensor, pooling: str, width: int
) -> None:
    how, model = Passing(0, pooling, 10**6), tiny_encoder.model
    texts = ids[row_lengths(ids, 0) <= width]
    layout = Layout(len(texts), width)
    found = []
    for fixed in (nullcontext(), fixed_shapes(layout)):
        with fixed as use:
            vectors = encode(model, texts, how)
        vectors.square().sum(dim=1).sin().mean().backward()
        found.append([vectors.detach(), model.get_input_embeddings().weight.grad.clone()])
        model.zero_grad()
    assert use is not None
    assert use.times == 1
    for plain, laid_out in zip(*found, strict=True):
        torch.testing.assert_close(laid_out, plain, rtol=0, atol=1e-5)
    assert fixed_for(len(texts)) is None  # the block has ended


def test_a_layout_is_for_as_many_texts(tiny_encoder: Encoder, ids: Tensor) -> None:
    layout = Layout(len(ids), ids.shape[1])
    with fixed_shapes(layout) as use:
        encode(tiny_encoder.model, ids[:-1], Passing(0))
        assert use.times == 0
        assert fixed_for(len(ids)) == layout


def test_a_net_has_no_layout_beyond_its_budget(tiny_encoder: Encoder, ids: Tensor) -> None:
    net = TextNet(tiny_encoder, 5, seed=0, token_budget=41 * 24)
    assert net.layout(ids, [], True) == Layout(41, 24)
    assert net.layout(ids[:0], [], True) == Layout(0, 16)
    small = TextNet(tiny_encoder, 5, seed=0, token_budget=41 * 24 - 1)
    assert small.layout(ids, [], True) is None
    assert net.traits.recording is net


def test_tokens_are_counted_in_place(tiny_encoder: Encoder, ids: Tensor) -> None:
    net = TextNet(tiny_encoder, 5, seed=0)
    net(ids)
    counted = net.trained_tokens
    net(ids)
    assert net.trained_tokens is counted
    assert int(counted) == 2 * int(row_lengths(ids, 0).sum())


class Recorder(nn.Module):
    """A net with layouts, whose layout is the largest input, rounded up to tens."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(1, 5)
        self.passes = self.used = 0
        self.traits_passes = 1

    @property
    def traits(self) -> NetTraits:
        return NetTraits(recording=self)  # type: ignore[arg-type]

    def layout(self, x: Tensor, known: Sequence[int], room: bool) -> int | None:
        own = -(-int(x.max()) // 10) * 10
        return None if own > 100 else own

    def in_layout(self, layout: int) -> AbstractContextManager[object]:
        class Use:
            times = 1

        return nullcontext(Use())

    def drawing(self) -> AbstractContextManager[None]:
        self.passes += 1
        return nullcontext()

    def forward(self, x: Tensor) -> Tensor:
        self.passes += self.traits_passes
        return self.head(x)  # type: ignore[no-any-return]


class Planned(GraphedStep):
    """Notes what it would do, without a GPU."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(new_learner("er", net))
        self.done: list[str] = []
        self.free = True

    def _room(self, device: torch.device) -> bool:
        return self.free and len(self._recorded) < self._most

    def _aside(self, batch: Batch, layout: object) -> None:
        self.done.append(f"step in {layout}")

    def _record(self, arrays: object, key: graphs.Key) -> bool:
        self.done.append(f"record {key[1]}")
        self._recorded[key] = None  # type: ignore[assignment]
        return True

    def _replay(self, recorded: object, arrays: object) -> None:
        self.done.append("replay")


def batch_with(value: float, rows: int = 4) -> Batch:
    return Batch(
        Samples(torch.full((rows, 1), float(value)), torch.zeros(rows, dtype=torch.int64)),
        torch.arange(rows),
    )


def test_layouts_that_come_back_are_recorded() -> None:
    step = Planned(Recorder())
    for value in (7, 25, 9, 8, 3, 2, 27):
        step(batch_with(value))
    assert step.done == [
        "step in 10",  # three to warm up
        "step in 30",
        "step in 10",
        "step in 10",
        "record 10",
        "replay",
        "replay",
        "record 30",  # one was enough
        "replay",
    ]
    assert step.recorded == 2
    step.done.clear()
    step.free = False
    for _ in range(3):
        step(batch_with(45))
    assert step.done == ["step in 50"] * 3


def test_a_batch_without_a_layout_takes_an_ordinary_step() -> None:
    net = Recorder()
    step = Planned(net)
    for _ in range(5):
        step(batch_with(101))
    assert step.done == []
    assert net.passes == 5


def test_plain_nets_are_recorded_once() -> None:
    step = Planned(nn.Sequential(nn.Linear(1, 5)))
    for rows in (4, 4, 4, 4, 4, 3, 3, 3, 3, 3):
        step(batch_with(1.0, rows))
    wanted = ["step in None"] * 3 + ["record None", "replay", "replay"] + ["step in None"] * 5
    assert step.done == wanted


def texts_batch(x: Tensor, weighted: bool = True) -> Batch:
    """Half of the texts as current, half as replayed ones."""
    half = len(x) // 2
    y = torch.arange(len(x), device=x.device) % 5
    rows = torch.arange(half, device=x.device)
    weight = torch.linspace(0.5, 1.0, half, device=x.device) if weighted else None
    return Batch(Samples(x[:half], y[:half]), rows, weight, Samples(x[half:], y[half:]), rows)


@pytest.fixture(scope="module")
def calm_encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """Make an encoder without dropout."""
    return load_encoder(write_tiny_encoder(tmp_path_factory.mktemp("calm"), dropout=0.0))


@needs_gpu
@pytest.mark.parametrize("method", ["er", "der++", "agem"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_recorded_steps_train_the_same_net(
    calm_encoder: Encoder, method: str, precision: str
) -> None:
    every = tokenize(random_texts(16 * 24, seed=3), calm_encoder, 24).ids.cuda()
    batches = [texts_batch(part) for part in every.split(16)]
    nets = []
    for graphed in (False, True):
        net = TextNet(calm_encoder, 5, seed=0, precision=precision).cuda()
        learner = new_learner(method, net, lr=0.02)
        learner.begin_task(batches[0].current, buffer_of(batches[0].memory))
        step = GraphedStep(learner) if graphed else learner.step
        for batch in batches:
            step(batch)
        nets.append(net)
    assert isinstance(step, GraphedStep)
    assert step.recorded == 0 if method == "agem" else 0 < step.recorded <= graphs.MOST
    plain, replayed = nets
    assert plain.passes == replayed.passes
    assert int(plain.trained_tokens) == int(replayed.trained_tokens)
    start = TextNet(calm_encoder, 5, seed=0).cuda()
    before, one, other = (parameters(net) for net in (start, plain, replayed))
    # Sums of products in another order; in bfloat16, of products with 8 bits.
    off = float((one - other).norm() / (one - before).norm())
    assert off < (1e-3 if precision == "float32" else 0.05)


@needs_gpu
def test_a_replayed_step_draws_what_the_step_would_draw(tiny_encoder: Encoder) -> None:
    every = tokenize(random_texts(16 * 8, seed=3), tiny_encoder, 24).ids.cuda()
    batches = [texts_batch(part) for part in every.split(16)]
    net = TextNet(tiny_encoder, 5, seed=0, precision="float32").cuda()
    learner = new_learner("er", net, lr=0.02)
    learner.begin_task(batches[0].current, buffer_of(batches[0].memory))
    step = GraphedStep(learner)
    for batch in batches[:-1]:
        step(batch)
    assert step.recorded
    passes, state = net.passes, {k: v.clone() for k, v in net.state_dict().items()}
    momenta = deepcopy(learner.optimizer.state_dict())
    before = torch.cuda.get_rng_state()
    step(batches[-1])
    assert torch.equal(torch.cuda.get_rng_state(), before)
    replayed = parameters(net)
    learner.optimizer.load_state_dict(momenta)
    net.load_state_dict(state)
    start = parameters(net)
    others = []
    for passed in (passes, passes + 1):  # the same draws, and others
        net.load_state_dict(state)
        learner.optimizer.load_state_dict(momenta)
        net.passes = passed
        layout = net.layout(batches[-1].x, [key[1] for key in step._recorded], False)
        assert layout is not None
        with net.in_layout(layout):
            learner.step(batches[-1])
        others.append(parameters(net))
    same, different = (float((one - replayed).norm()) for one in others)
    moved = float((replayed - start).norm())
    assert same < 1e-3 * moved
    assert different > 0.02 * moved
