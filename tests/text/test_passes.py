from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from weakref import ref

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor, nn

from faircil.errors import UsageError
from faircil.text import passes
from faircil.text.encoders import Encoder
from faircil.text.passes import (
    FINE_TUNED,
    FROZEN,
    POOLINGS,
    Passing,
    cut,
    cut_steady,
    encode,
    in_order,
    row_lengths,
)
from faircil.text.tokens import tokenize
from tiny_encoder import random_texts

Loss = Callable[[Tensor], Tensor]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
LOSSES: dict[str, Loss] = {
    "mean over samples": lambda vectors: vectors.square().sum(dim=1).sin().mean(),
    "squared norm of the mean": lambda vectors: vectors.mean(dim=0).square().sum(),
    # In double precision: the determinant alone would cost more digits than all of the encoder.
    "volume": lambda vectors: torch.logdet(torch.eye(16) + vectors.double().T @ vectors.double()),
}


@pytest.fixture(scope="module")
def ids(tiny_encoder: Encoder) -> Tensor:
    return tokenize(["", *random_texts(40)], tiny_encoder, 24).ids


def one_by_one(model: nn.Module, ids: Tensor, pooling: str) -> Tensor:
    """Pass each text alone, without padding, through the plain model."""
    rows = []
    for row in ids:
        tokens = row[row != 0].long()[None]
        hidden = model(input_ids=tokens).last_hidden_state
        rows.append(hidden[0, 0] if pooling == "cls" else hidden[0].mean(dim=0))
    return torch.stack(rows)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("budget", [1, 60, 300, 10**6])
@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_every_text_has_the_vector_that_it_has_alone(
    tiny_encoder: Encoder, ids: Tensor, pooling: str, budget: int, kind: torch.dtype
) -> None:
    with torch.no_grad():
        found = encode(tiny_encoder.model, ids.to(kind), Passing(0, pooling, budget))
        expected = one_by_one(tiny_encoder.model, ids, pooling)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
    assert expected.std(dim=0).mean() > 0.1  # texts differ, so the order matters


def gradients(model: nn.Module, ids: Tensor, how: Passing, loss: Loss) -> list[Tensor]:
    value = loss(encode(model, ids, how))
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True)
    return [gradient for gradient in found if gradient is not None]


def exact_gradients(model: nn.Module, ids: Tensor, loss: Loss, noise: float = 0.0) -> list[Tensor]:
    """Gradients in double precision, text after text, of weights that are off by some noise."""
    exact, generator = deepcopy(model).double(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in exact.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter *= 1 + noise * drawn
    value = loss(one_by_one(exact, ids, "mean"))
    return list(torch.autograd.grad(value, list(exact.parameters())))


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_chunks_change_no_gradient(tiny_encoder: Encoder, ids: Tensor, loss: Loss) -> None:
    """But for what single precision costs, by what weights that are off in the last digit cost."""
    eps = torch.finfo(torch.float32).eps
    exact, moved = (exact_gradients(tiny_encoder.model, ids, loss, noise) for noise in (0, eps))
    largest = max(gradient.abs().max() for gradient in exact)
    for budget in (100, 10**6):
        found = gradients(tiny_encoder.model, ids, Passing(0, "mean", budget), loss)
        for one, truth, other in zip(found, exact, moved, strict=True):
            cost = torch.maximum((other - truth).abs().max(), eps * largest)
            assert (one - truth).abs().max() <= 100 * cost


def contents(mask: Tensor) -> tuple[tuple[int, ...], bytes]:
    return tuple(mask.shape), mask.numpy().tobytes()


@pytest.mark.parametrize("budget", [100, 10**6])
def test_dropout_is_the_same_on_the_second_way_through(
    tiny_encoder: Encoder, ids: Tensor, budget: int
) -> None:
    model = deepcopy(tiny_encoder.model).train()
    drawn: list[Tensor] = []
    dropout = model.embeddings.dropout  # type: ignore[union-attr]
    dropout.register_forward_hook(lambda _, __, output: drawn.append(output.detach() == 0))
    torch.manual_seed(0)
    vectors = encode(model, ids, Passing(0, "mean", budget))
    first = list(drawn)
    torch.manual_seed(1)
    vectors.sum().backward()  # type: ignore[no-untyped-call]
    again = drawn[len(first) :]
    assert len(again) == (len(first) if budget == 100 else 0)
    assert any(mask.any() for mask in first)
    # The backward pass goes through the chunks in another order.
    assert sorted(map(contents, again)) == (sorted(map(contents, first)) if again else [])


def test_the_encoder_never_has_more_than_the_budget_in_hand(
    tiny_encoder: Encoder, ids: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "CPU_CHUNK", 10**6)
    model, sizes = deepcopy(tiny_encoder.model), list[int]()
    alive: list[int] = []

    def begin(_: nn.Module, __: object, inputs: dict[str, Tensor]) -> None:
        sizes.append(inputs["input_ids"].numel())

    model.register_forward_pre_hook(begin, with_kwargs=True)
    kept = 0

    def pack(tensor: Tensor) -> Tensor:
        nonlocal kept
        kept += tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        for budget in (100, 10**6):
            kept = 0
            encode(model, ids, Passing(0, "cls", budget))
            alive.append(kept)
    assert sizes[-1] > 600
    assert max(sizes[:-1]) <= 100
    assert sum(sizes[:-1]) < sizes[-1]  # and it has less padding
    assert alive[0] < alive[1] / 10


def test_the_backward_pass_has_one_chunk_in_hand(tiny_encoder: Encoder, ids: Tensor) -> None:
    model = deepcopy(tiny_encoder.model)
    alive: list[int] = []
    made: list[ref[Tensor]] = []

    def count(*_: object) -> None:
        alive.append(sum(one() is not None for one in made))
        made.clear()

    model.register_forward_pre_hook(count)
    for layer in model.encoder.layer:  # type: ignore[union-attr]
        layer.intermediate.register_forward_hook(lambda *parts: made.append(ref(parts[-1])))
    value = LOSSES["squared norm of the mean"](encode(model, ids, Passing(0, "mean", 100)))
    count()
    assert len(alive) > 5
    assert set(alive) == {0}
    value.backward()  # type: ignore[no-untyped-call]
    count()
    assert len(alive) > 10
    assert set(alive) == {0}
    alive.clear()
    value = LOSSES["squared norm of the mean"](encode(model, ids, Passing(0, "mean", 10**6)))
    count()
    assert alive[-1] > 0  # so what is alive is seen
    del value


def test_nothing_is_computed_twice_where_nothing_is_trained(
    tiny_encoder: Encoder, ids: Tensor
) -> None:
    model = deepcopy(tiny_encoder.model).requires_grad_(False)
    head = nn.Linear(16, 2)
    calls: list[int] = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    head(encode(model, ids, Passing(0, "cls", 100))).sum().backward()
    once = len(calls)
    with torch.no_grad():
        encode(model, ids, Passing(0, "cls", 100))
    assert len(calls) == 2 * once


def test_chunks_within_the_budget_keep_their_activations(
    tiny_encoder: Encoder, ids: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "CPU_CHUNK", 100)
    model, begun = deepcopy(tiny_encoder.model), list[int]()
    model.register_forward_pre_hook(lambda *_: begun.append(1))
    for budget, ways in ((10**6, 1), (300, 2)):
        begun.clear()
        vectors = encode(model, ids, Passing(0, "cls", budget))
        once = len(begun)
        assert once > 5
        vectors.sum().backward()  # type: ignore[no-untyped-call]
        assert len(begun) == ways * once


def test_no_texts_are_no_vectors(tiny_encoder: Encoder, ids: Tensor) -> None:
    assert encode(tiny_encoder.model, ids[:0], Passing(0)).shape == (0, 16)


def test_products_can_be_in_bfloat16(tiny_encoder: Encoder, ids: Tensor) -> None:
    exact = encode(tiny_encoder.model, ids, Passing(0, "mean", 100))
    rough = encode(tiny_encoder.model, ids, Passing(0, "mean", 100, "bfloat16"))
    assert rough.dtype == torch.float32
    assert 1e-4 < (rough - exact).abs().max() < 0.1
    rough.sum().backward()  # type: ignore[no-untyped-call]
    tiny_encoder.model.zero_grad()


def test_a_cpu_takes_float32_by_itself() -> None:
    assert not Passing(0).mixed(torch.device("cpu"))
    assert Passing(0, precision="bfloat16").mixed(torch.device("cpu"))
    assert not Passing(0, precision="float32").mixed(torch.device("cuda"))


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(UsageError) as error:
        Passing(0, "men", 0, "half")
    for part in ("pooling 'men': did you mean 'mean'", "precision 'half'", "token_budget is 0"):
        assert part in str(error.value)


@needs_gpu
def test_a_gpu_is_as_right_as_bfloat16_allows(tiny_encoder: Encoder, ids: Tensor) -> None:
    model = deepcopy(tiny_encoder.model)
    exact = encode(model, ids, Passing(0, "mean", 100))
    there = model.to("cuda")
    same = encode(there, ids.cuda(), Passing(0, "mean", 100, "float32"))
    torch.testing.assert_close(same.cpu(), exact, rtol=0, atol=1e-3)
    rough = encode(there, ids.cuda(), Passing(0, "mean", 100))
    assert rough.dtype == torch.float32
    assert (rough.cpu() - exact).abs().max() < 0.1
    loss = LOSSES["squared norm of the mean"]
    for one, two in zip(
        gradients(there, ids.cuda(), Passing(0, "mean", 100, "float32"), loss),
        gradients(there, ids.cuda(), Passing(0, "mean", 10**6, "float32"), loss),
        strict=True,
    ):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_without_gradients_nothing_of_a_chunk_is_kept_but_its_rows_of_the_result(
    tiny_encoder: Encoder, ids: Tensor, pooling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[ref[Tensor]] = []
    pool = POOLINGS[pooling]

    def watched(hidden: Tensor, mask: Tensor) -> Tensor:
        assert all(vectors() is None for vectors in kept)
        vectors = pool(hidden, mask)
        kept.append(ref(vectors))
        return vectors

    monkeypatch.setitem(POOLINGS, pooling, watched)
    with torch.no_grad():
        encode(tiny_encoder.model, ids, Passing(0, pooling, 60))
    assert len(kept) > 3


def test_one_text_above_the_budget_goes_through_once(tiny_encoder: Encoder, ids: Tensor) -> None:
    """It is one chunk either way, so nothing would be saved by going through it again."""
    model, passes_made = deepcopy(tiny_encoder.model), list[int]()
    model.register_forward_pre_hook(lambda *_: passes_made.append(1))
    encode(model, ids[1:2], Passing(0, "cls", 1)).sum().backward()  # type: ignore[no-untyped-call]
    assert len(passes_made) == 1


LENGTHS = st.lists(st.integers(1, 128), max_size=200).map(
    lambda values: torch.tensor(values, dtype=torch.int32)
)
BUDGETS = st.integers(1, 600)


@given(LENGTHS, BUDGETS)
def test_every_row_is_in_one_chunk(lengths: torch.Tensor, budget: int) -> None:
    rows = [row for chunk in cut(lengths, budget) for row in chunk.rows.tolist()]
    assert sorted(rows) == list(range(len(lengths)))


@given(LENGTHS, BUDGETS)
def test_no_chunk_is_above_the_budget_but_for_a_single_row(
    lengths: torch.Tensor, budget: int
) -> None:
    for chunk in cut(lengths, budget):
        assert chunk.width == lengths[chunk.rows].max()
        assert len(chunk.rows) == 1 or len(chunk.rows) * chunk.width <= budget


@given(LENGTHS, BUDGETS)
def test_a_chunk_ends_where_the_next_row_would_not_fit(lengths: torch.Tensor, budget: int) -> None:
    chunks = cut(lengths, budget)
    for chunk in chunks[:-1]:
        assert (len(chunk.rows) + 1) * chunk.width > budget
    widths = [chunk.width for chunk in chunks]
    assert widths == sorted(widths, reverse=True)


@given(LENGTHS.filter(len), BUDGETS)
def test_results_come_back_in_the_order_of_the_rows(lengths: torch.Tensor, budget: int) -> None:
    values = torch.arange(3 * len(lengths)).view(-1, 3)
    chunks = cut(lengths, budget)
    assert torch.equal(in_order([values[chunk.rows] for chunk in chunks], chunks), values)


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), max_size=20), st.integers(0, 3)
)
def test_lengths_reach_to_the_last_token(rows: list[list[int]], pad: int) -> None:
    ids = torch.tensor(rows, dtype=torch.int32).view(-1, 6)
    expected = [max([k + 1 for k in range(6) if row[k] != pad], default=1) for row in rows]
    assert row_lengths(ids, pad).tolist() == expected


@given(LENGTHS, BUDGETS, st.integers(128, 140))
def test_the_shape_of_a_steady_chunk_is_told_by_each_of_its_rows(
    lengths: torch.Tensor, budget: int, longest: int
) -> None:
    chunks = cut_steady(lengths, budget, longest)
    rows = [row for chunk in chunks for row in chunk.rows.tolist()]
    assert sorted(rows) == list(range(len(lengths)))
    for chunk in chunks:
        for length in lengths[chunk.rows].tolist():
            (alone,) = cut_steady(torch.tensor([length]), budget, longest)
            assert alone.width == chunk.width
            assert length <= chunk.width <= longest
            assert len(alone.rows) + alone.spare == len(chunk.rows) + chunk.spare
        size = len(chunk.rows) + chunk.spare
        assert size == 1 or size * chunk.width <= budget


HIDDEN = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
MASK = torch.tensor([[True, True, True, True], [True, True, False, False]])


def test_the_first_token_speaks_for_the_text() -> None:
    assert torch.equal(POOLINGS["cls"](HIDDEN, MASK), HIDDEN[:, 0])


def test_the_mean_is_over_tokens_and_not_over_padding() -> None:
    expected = torch.stack([HIDDEN[0].mean(dim=0), HIDDEN[1, :2].mean(dim=0)])
    torch.testing.assert_close(POOLINGS["mean"](HIDDEN, MASK), expected)


def test_the_defaults_are_known() -> None:
    assert {FINE_TUNED, FROZEN} <= set(POOLINGS)


@pytest.mark.parametrize("name", POOLINGS)
def test_the_vectors_of_tokens_are_not_kept_in_memory(name: str) -> None:
    vectors = POOLINGS[name](HIDDEN, MASK)
    assert vectors.untyped_storage().nbytes() == vectors.numel() * vectors.element_size()
