"""Two tasks with fair sample weights, in a training loop of your own."""

import torch
from torch.nn.functional import cross_entropy

from faircil import FairSampleWeights, ReplayBuffer, Samples

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
weigh, buffer = FairSampleWeights(measure="eo"), ReplayBuffer(quota=32)
for first in (0, 2):  # classes 0 and 1, then 2 and 3, of two attribute values
    y, z = torch.randint(first, first + 2, (600,)), torch.randint(2, (600,))
    task, old = Samples(torch.randn(600, 8) + y[:, None] - z[:, None], y, z), buffer.samples
    for _ in range(3):
        weights = torch.ones(len(task)) if old is None else weigh(net, task, old).weights
        for rows in torch.randperm(len(task)).split(64):
            losses = cross_entropy(net(task.x[rows]), task.y[rows], reduction="none")
            replayed = 0 if old is None else cross_entropy(net(old.x), old.y)
            optimizer.zero_grad()
            ((weights[rows] * losses).mean() + replayed).backward()
            optimizer.step()
    buffer = buffer.add(task)
