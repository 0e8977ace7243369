from __future__ import annotations

import pytest
import torch

from faircil.text.passes import FINE_TUNED, FROZEN, POOLINGS

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
