from __future__ import annotations

import torch
from torch import nn

from faircil.nets import build_mlp, features_of, with_features


def test_features_are_the_inputs_of_the_last_layer() -> None:
    net, x = build_mlp(6, 5, (8, 4), seed=0), torch.randn(7, 6)
    logits, features = with_features(net, net.head, x)
    torch.testing.assert_close(features, net.features(x))
    torch.testing.assert_close(logits, net(x))
    features.sum().backward()
    assert net.features[0].weight.grad is not None
    assert not net.head._forward_pre_hooks


def test_features_of_any_net_and_any_number_of_inputs() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.Dropout(), nn.Tanh(), nn.Linear(4, 3))
    net.train()
    x = torch.randn(5000, 2, 3)
    features = features_of(net, x)
    assert net.training
    torch.testing.assert_close(features, torch.tanh(net[1](x.flatten(1))).detach())
    assert not features.requires_grad
