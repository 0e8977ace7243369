from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from faircil.learners.fairl import with_projector
from faircil.nets import build_mlp


@pytest.mark.parametrize("kind", ["linear", "mlp"])
@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(6, 7), nn.Sequential(nn.ReLU(), nn.Linear(7, 5))),
        build_mlp(6, 5, (8,), seed=0),
        nn.Linear(6, 5),
    ],
    ids=["nested", "mlp", "only a head"],
)
def test_the_features_are_normalised_whatever_the_net(net: nn.Module, kind: str) -> None:
    net, classifier = with_projector(net, kind, torch.Generator().manual_seed(0))
    assert len(classifier.features) == (2 if kind == "mlp" else 0)
    seen: list[Tensor] = []
    classifier.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    logits = net(torch.randn(12, 6, generator=torch.Generator().manual_seed(1)))
    assert logits.shape == (12, 5)
    assert torch.equal(logits, classifier(seen[0]))
    torch.testing.assert_close(seen[0].mean(dim=1), torch.zeros(12), atol=1e-5, rtol=0)
    spread = seen[0].var(dim=1, correction=0)
    torch.testing.assert_close(spread, torch.ones(12), atol=0.05, rtol=0)
