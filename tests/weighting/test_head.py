from __future__ import annotations

import pytest
from torch import nn

from faircil.errors import UsageError
from faircil.nets import MLP, find_head
from oracles import make_samples, seeded

SAMPLES = make_samples([0, 1, 2, 3])


def test_the_head_is_found_or_named() -> None:
    net = seeded(lambda: MLP(6, 4, (5,)))
    head = net.head
    assert find_head(net, SAMPLES.x) is head
    assert find_head(net, SAMPLES.x, "head") is head
    assert find_head(net, SAMPLES.x, head) is head
    with pytest.raises(UsageError, match=r"'tail' is no linear layer.*features\.0.*head"):
        find_head(net, SAMPLES.x, "tail")
    with pytest.raises(UsageError, match="not the output of the given linear layer"):
        find_head(net, SAMPLES.x, "features.0")


@pytest.mark.parametrize("after", [nn.Softmax(dim=1), nn.ReLU(), nn.Conv1d(1, 1, 1)])
def test_a_net_must_end_with_its_linear_layer(after: nn.Module) -> None:
    layers = [nn.Unflatten(1, (1, 4)), after] if isinstance(after, nn.Conv1d) else [after]
    net = seeded(lambda: nn.Sequential(nn.Linear(6, 4), *layers))
    with pytest.raises(UsageError, match=r"(?s)Sequential.*last linear layer.*no softmax"):
        find_head(net, SAMPLES.x)
