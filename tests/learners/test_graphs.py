from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from faircil.compute import exact_convolutions
from faircil.learners import LEARNERS, Batch
from faircil.nets import build_conv, build_mlp
from faircil.runs.graphs import GraphedStep
from faircil.samples import Samples
from learning import buffer_of, new_learner

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
NETS = {
    "mlp": lambda: build_mlp(64, 3, (8,), 0),
    "conv": lambda: build_conv((1, 8, 8), 3, (8,), 0),
}


@needs_gpu
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", [m for m, row in LEARNERS.items() if row.graphable])
@pytest.mark.parametrize("kind", NETS)
def test_replayed_steps_are_the_steps(kind: str, method: str, weighted: bool) -> None:
    with exact_convolutions():
        replay_and_compare(kind, method, weighted)


def replay_and_compare(kind: str, method: str, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 64, generator=generator).cuda()
    y = torch.randint(3, (300,), generator=generator).cuda()
    weights = torch.rand(300, generator=generator).cuda()
    z = torch.randint(2, (300,), generator=generator).cuda()
    task = Samples(x, y, z)
    old = task.take(torch.arange(16).cuda()) if LEARNERS[method].replays else None
    nets = []
    for graphed in (False, True):
        learner = new_learner(method, NETS[kind]().cuda())
        for _ in range(2):  # tasks
            material = learner.begin_task(task, buffer_of(old))
            memory = material.memory
            memory_rows = None if memory is None else torch.arange(len(memory)).cuda()
            step = GraphedStep(learner) if graphed else learner.step
            for rows in torch.arange(300).cuda().split(32):  # the last batch is smaller
                weight = weights[rows] if weighted else None
                step(Batch(material.current.take(rows), rows, weight, memory, memory_rows))
        nets.append(torch.nn.utils.parameters_to_vector(learner.net.parameters()))
    assert torch.equal(*nets)


class Asking(nn.Module):
    """A net that asks the GPU for a number in every pass, which no recording can."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x) * float(x[0, 0].item() < 1e9)


@needs_gpu
def test_a_step_that_cannot_be_recorded_is_taken_all_the_same() -> None:
    x, y = torch.randn(8, 64).cuda(), torch.arange(8).cuda() % 3
    batch = Batch(Samples(x, y), torch.arange(8).cuda())
    nets = []
    for graphed in (False, True):
        torch.manual_seed(0)
        learner = new_learner("finetune", Asking().cuda())
        learner.begin_task(batch.current, buffer_of(None))
        step = GraphedStep(learner) if graphed else learner.step
        told = pytest.warns(UserWarning, match="cannot be recorded") if graphed else nullcontext()
        with told:
            for _ in range(6):
                step(batch)
        nets.append(torch.nn.utils.parameters_to_vector(learner.net.parameters()))
    assert torch.equal(*nets)
