"""Objects as JSON and tensors: the same after reading, and nothing but what is allowed is made."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from faircil.counts import GroupAccuracy
from faircil.errors import DataError, FaircilError
from faircil.learners import LEARNERS
from faircil.packing import Packed, pack, unpack
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import load_stream
from faircil.samples import Samples
from faircil.weighting.measures import MEASURES, Measure


def through_text(packed: Packed) -> Packed:
    """Write and read a document as a file would, and copy its tensors."""
    tensors = {name: tensor.clone() for name, tensor in packed.tensors.items()}
    return Packed(json.loads(json.dumps(packed.document, allow_nan=False)), tensors)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1,
        float("inf"),
        "é",
        [1, [2.5, None]],
        (1, "a"),
        {(1, 2): "x", "y": {3}},
        frozenset({1, 2}),
        torch.float64,
        np.float32(0.5),
        GroupAccuracy(0, 1, 12, 0.75),  # has slots, no dictionary
    ],
)
def test_plain_values(value: Any) -> None:
    found = unpack(through_text(pack(value)))
    assert found == value
    assert type(found) is type(value)


def test_arrays_tensors_and_generators() -> None:
    generator = torch.Generator().manual_seed(3)
    torch.rand(5, generator=generator)
    value = {"a": np.arange(3), "t": torch.eye(2), "g": generator}
    found = unpack(through_text(pack(value)))
    np.testing.assert_array_equal(found["a"], value["a"])
    assert torch.equal(found["t"], value["t"])
    assert torch.equal(torch.rand(4, generator=found["g"]), torch.rand(4, generator=generator))


def test_what_is_shared_stays_shared() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    found = unpack(through_text(pack({"net": net, "again": net, "optimizer": optimizer})))
    assert found["net"] is found["again"]
    weights = [weight for group in found["optimizer"].param_groups for weight in group["params"]]
    assert all(one is other for one, other in zip(weights, found["net"].parameters(), strict=True))
    for both in ((net, optimizer), (found["net"], found["optimizer"])):
        both[1].zero_grad()
        both[0](torch.ones(1, 2)).sum().backward()
        both[1].step()
    for one, other in zip(net.parameters(), found["net"].parameters(), strict=True):
        assert torch.equal(one, other)


def test_measures_are_kept_by_name() -> None:
    measure = MEASURES["eopp"].favouring([2])
    assert unpack(through_text(pack(measure))) == measure
    with pytest.raises(FaircilError, match="not registered"):
        pack(Measure(lambda groups: np.eye(len(groups))))


@dataclass
class Foreign:
    """A class that is not faircil's."""

    x: int = 1


def test_what_cannot_be_kept_is_named() -> None:
    with pytest.raises(FaircilError, match=r"\['a'\]\[0\] is .*Foreign"):
        pack({"a": [Foreign()]})
    with pytest.raises(FaircilError, match="function"):
        pack(lambda: None)


@pytest.mark.parametrize(
    "name", ["os:system", "builtins:eval", "subprocess:Popen", "torch.nn:Module", "nowhere:X"]
)
def test_only_known_classes_are_made(name: str) -> None:
    document = {"$": "object", "class": name, "of": {}, "id": 0}
    with pytest.raises(DataError, match="is not among faircil's"):
        unpack(Packed(document, {}))


def test_damaged_content_is_named() -> None:
    packed = through_text(pack({"a": torch.ones(2)}))
    with pytest.raises(DataError, match="damaged"):
        unpack(replace(packed, tensors={}))
    with pytest.raises(DataError, match="unknown kind"):
        unpack(Packed({"$": "code", "id": 0}, {}))
    with pytest.raises(DataError, match="damaged"):
        unpack(Packed([1], {}))


@pytest.mark.parametrize("method", LEARNERS)
def test_a_run_goes_on_from_its_packed_state_to_the_bit(method: str) -> None:
    own = ("width=30",) if method == "moments" else ("epochs=2", "hidden=8")
    config = resolve(dataset="toy", method=method, overrides=own)
    stream = load_stream(config, 0)
    small = replace(
        stream,
        tasks=tuple(
            replace(task, train=_some(task.train), test=_some(task.test)) for task in stream.tasks
        ),
    )
    states: list[Packed] = []
    whole = run(
        config, 0, stream=small, checkpoint=lambda state: states.append(through_text(pack(state)))
    )
    resumed = run(config, 0, stream=small, state=unpack(states[len(states) // 2]))
    for one, other in zip(whole.predictions, resumed.predictions, strict=True):
        np.testing.assert_array_equal(one.y_pred, other.y_pred)
    assert whole.averages() == resumed.averages()


def _some(samples: Samples) -> Samples:
    return samples.take(slice(0, None, 8))
