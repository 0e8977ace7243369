from __future__ import annotations

import torch

from faircil.learners import Batch, Material
from faircil.learners.distillation import teach
from learning import batch_of, buffer_of, new_learner, parameters, random_samples


def test_rows_find_what_the_old_net_said() -> None:
    learner = new_learner("er")
    material = Material(random_samples(40, seed=1), random_samples(12, seed=2))
    before = learner.net(torch.cat([material.current.x, material.memory.x])).detach()
    teacher = teach(learner, material)
    learner.begin_task(material.current, buffer_of(material.memory))
    learner.step(batch_of(material.current, None, material.memory))
    rows, old = torch.tensor([7, 0, 31]), torch.tensor([11, 3])
    batch = Batch(material.current.take(rows), rows, None, material.memory.take(old), old)
    torch.testing.assert_close(teacher.of(batch), torch.cat([before[rows], before[40 + old]]))
    assert not torch.allclose(learner.net(batch.x), teacher.of(batch))


def test_without_memory_there_are_current_rows_only() -> None:
    learner = new_learner("er")
    current = random_samples(9)
    assert teach(learner, Material(current)).of(batch_of(current)).shape == (9, 5)


def test_the_teacher_can_be_a_target() -> None:
    learner = new_learner("er")
    current = random_samples(9)
    teacher = teach(learner, Material(current))
    before = parameters(learner.net)
    loss = (learner.net(current.x) - 2 * teacher.of(batch_of(current))).square().mean()
    loss.backward()
    learner.optimizer.step()
    assert not torch.equal(parameters(learner.net), before)
