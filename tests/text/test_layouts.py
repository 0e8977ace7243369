from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor, nn

from faircil.learners import Batch
from faircil.nets import NetTraits
from faircil.runs import graphs
from faircil.runs.graphs import GraphedStep
from faircil.samples import Samples
from faircil.text import layouts
from faircil.text.encoders import Encoder
from faircil.text.layouts import Layout, Shape, fixed_for, fixed_shapes, layout_of, suitable
from faircil.text.passes import POOLINGS, Passing, encode, row_lengths
from faircil.text.text_net import TextNet
from faircil.text.tokens import tokenize
from learning import buffer_of, new_learner
from tiny_encoder import random_texts

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@pytest.fixture(scope="module")
def ids(tiny_encoder: Encoder) -> Tensor:
    return tokenize(random_texts(41), tiny_encoder, 24).ids


def of(*parts: tuple[int, int, bool]) -> Layout:
    return Layout(tuple(Shape(*part) for part in parts))


def test_texts_of_about_the_same_length_pass_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "GRAIN", 8)
    lengths = torch.tensor([30, 3, 17, 24, 9, 16, 23, 1, 24, 31])
    found = layout_of(lengths, 31)
    assert found == of((3, 31, True), (3, 24, True), (2, 16, True), (2, 8, True))
    assert (found.rows, found.tokens) == (10, 3 * 31 + 3 * 24 + 2 * 16 + 2 * 8)
    assert found.chunks == found.parts


def test_texts_that_fill_their_rows_are_one_chunk_without_a_mask() -> None:
    found = layout_of(torch.full((10,), 128), 128)
    assert found.chunks == (Shape(10, 128, False),)
    assert layout_of(torch.tensor([64, 64, 64, 63]), 128).chunks == (
        Shape(3, 64, False),
        Shape(1, 64, True),
    )
    assert layout_of(torch.tensor([5, 6]), 128).rows == 2  # fewer than parts


def test_a_layout_covers_what_is_nowhere_longer() -> None:
    wide, narrow = of((2, 64, True), (2, 32, True)), of((2, 64, False), (2, 32, True))
    assert wide.covers(narrow)
    assert not narrow.covers(wide)
    assert narrow.covers(narrow)
    assert not wide.covers(of((2, 64, True), (2, 64, True)))
    assert not of((2, 64, False)).covers(of((2, 32, False)))  # it would need a mask


def test_a_batch_takes_a_known_layout_unless_that_is_mostly_padding() -> None:
    own = of((2, 64, True), (2, 32, True))
    near, far = of((2, 64, True), (2, 48, True)), of((2, 128, True), (2, 128, True))
    assert suitable(own, [], room=False) == own
    assert near.tokens / own.tokens > layouts.SLACK
    assert suitable(own, [far, near], room=True) == own
    assert suitable(own, [far, near], room=False) == near
    assert suitable(near, [near, far], room=True) == near
    assert suitable(far, [near], room=False) == far  # does not fit: ordinary steps


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("grain", [4, 32])
def test_vectors_and_gradients_do_not_depend_on_the_layout(
    tiny_encoder: Encoder, ids: Tensor, pooling: str, grain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "GRAIN", grain)
    how, model = Passing(0, pooling, 10**6), tiny_encoder.model
    layout = layout_of(row_lengths(ids, 0), ids.shape[1])
    assert len(layout.chunks) == {4: 4, 32: 2}[grain]  # the longest texts fill their rows
    found = []
    for fixed in (nullcontext(), fixed_shapes(layout)):
        with fixed as use:
            vectors = encode(model, ids, how)
        vectors.square().sum(dim=1).sin().mean().backward()
        found.append([vectors.detach(), model.get_input_embeddings().weight.grad.clone()])
        model.zero_grad()
    assert use is not None
    assert use.times == 1
    for plain, laid_out in zip(*found, strict=True):
        torch.testing.assert_close(laid_out, plain, rtol=0, atol=1e-5)
    assert fixed_for(len(ids)) is None  # the block has ended


def test_a_layout_is_for_as_many_texts_and_for_training(tiny_encoder: Encoder, ids: Tensor) -> None:
    layout = layout_of(row_lengths(ids, 0), ids.shape[1])
    with fixed_shapes(layout) as use:
        encode(tiny_encoder.model, ids[:-1], Passing(0))
        assert use.times == 0
        assert fixed_for(len(ids)) == layout


def test_a_net_has_no_layout_beyond_its_budget(tiny_encoder: Encoder, ids: Tensor) -> None:
    net = TextNet(tiny_encoder, 5, seed=0, token_budget=41 * 24)
    layout = net.layout(ids, [], True)
    assert layout is not None
    assert layout.tokens <= 41 * 24
    small = TextNet(tiny_encoder, 5, seed=0, token_budget=100)
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

    def _record(self, arrays: object, key: graphs.Key) -> None:
        self.done.append(f"record {key[1]}")
        self._recorded[key] = None  # type: ignore[assignment]

    def _replay(self, recorded: object, arrays: object) -> None:
        self.done.append("replay")


def batch_with(value: float, rows: int = 4) -> Batch:
    return Batch(
        Samples(torch.full((rows, 1), float(value)), torch.zeros(rows, dtype=torch.int64)),
        torch.arange(rows),
    )


def test_layouts_that_come_back_are_recorded() -> None:
    step = Planned(Recorder())
    for value in (7, 25, 9, 8, 3):
        step(batch_with(value))
    assert step.done == [
        "step in None",  # 10, for the first time
        "step in None",  # 30
        "step in 10",
        "record 10",
        "replay",
        "replay",
    ]
    assert step.recorded == 1
    step.done.clear()
    step.free = False
    for _ in range(3):
        step(batch_with(25))
    assert step.done == ["step in 30", "step in None", "step in None"]


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


@needs_gpu
@pytest.mark.parametrize("method", ["er", "der++", "agem"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_replayed_steps_of_an_encoder_are_the_steps(
    tiny_encoder: Encoder, method: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same dropout, so that losses and weights are the same but for rounding."""
    monkeypatch.setattr(layouts, "GRAIN", 8)
    every = tokenize(random_texts(16 * 24, seed=3), tiny_encoder, 24).ids.cuda()
    batches = [texts_batch(part) for part in every.split(16)]
    nets, steps = [], []
    for graphed in (False, True):
        net = TextNet(tiny_encoder, 5, seed=0, precision=precision).cuda()
        learner = new_learner(method, net, lr=0.02)
        learner.begin_task(batches[0].current, buffer_of(batches[0].memory))
        step = GraphedStep(learner) if graphed else learner.step
        for batch in batches:
            step(batch)
        nets.append(net)
        steps.append(step)
    recorded = steps[1].recorded
    assert recorded == 0 if method == "agem" else 0 < recorded <= graphs.MOST
    plain, replayed = nets
    assert plain.passes == replayed.passes
    assert int(plain.trained_tokens) == int(replayed.trained_tokens)
    start = TextNet(tiny_encoder, 5, seed=0).cuda().state_dict()
    for name, value in plain.state_dict().items():
        moved = (value - start[name]).norm()
        off = (replayed.state_dict()[name] - value).norm()
        # Sums of rounded products; bfloat16 keeps 8 bits of each.
        assert off <= (1e-3 if precision == "float32" else 0.1) * moved + 1e-6, name
