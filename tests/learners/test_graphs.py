from __future__ import annotations

import pytest
import torch

from faircil.learners import LEARNERS, LearnerSettings
from faircil.learners.graphs import GraphedStep
from faircil.nets import build_mlp
from faircil.samples import Samples

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@needs_gpu
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["finetune", "er"])
def test_replayed_steps_are_the_steps(method: str, weighted: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 12, generator=generator).cuda()
    y = torch.randint(3, (300,), generator=generator).cuda()
    weights = torch.rand(300, generator=generator).cuda()
    memory = Samples(x[:16], y[:16]) if method == "er" else None
    nets = []
    for graphed in (False, True):
        learner = LEARNERS[method](build_mlp(12, 3, (8,), 0).cuda(), LearnerSettings(0.1))
        for _ in range(2):  # tasks
            learner.begin_task(Samples(x, y))
            step = GraphedStep(learner) if graphed else learner.step
            for rows in torch.arange(300).cuda().split(32):  # the last batch is smaller
                step(Samples(x[rows], y[rows]), weights[rows] if weighted else None, memory)
        nets.append(torch.nn.utils.parameters_to_vector(learner.net.parameters()))
    assert torch.equal(*nets)
