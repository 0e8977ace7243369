"""The tensors of models, and whether two models have the same bits."""

from __future__ import annotations

import hashlib

import torch

from faircil.model.model import Model


def tensors(model: Model) -> dict[str, torch.Tensor]:
    """Return the tensors of a model of moments: net, sums, and checksums of the rows seen."""
    learner = model.learner
    sums = {f"S {n}": block for n, block in enumerate(learner.moments.second)}
    seen = {f"rows {key}": own for key, own in learner.moments.seen.sums.items()}
    return {**learner.net.state_dict(), **sums, **seen}


def digest_of(model: Model) -> str:
    """Return a hash of all tensors of a model."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors(model).items()):
        found.update(name.encode())
        found.update(tensor.contiguous().numpy().tobytes())
    return found.hexdigest()


def assert_same_bits(one: Model, other: Model) -> None:
    """Assert that two models have learned the same, bit for bit."""
    mine, theirs = tensors(one), tensors(other)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    assert one.lessons[-1].groups == other.lessons[-1].groups
