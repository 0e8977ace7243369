"""One vector per text from the vectors of its tokens."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

Pooling = Callable[[Tensor, Tensor], Tensor]


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
FINE_TUNED = "cls"  # what training can make of the first token, it makes of it
FROZEN = "mean"  # without training, the first token of most encoders says little
