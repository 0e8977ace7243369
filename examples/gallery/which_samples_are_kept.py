"""Which samples FSW keeps

Three clusters in the plane: two classes are known, the third is new and lies next to one of them. Training on all
new samples pushes the boundary into the neighbour, which is forgotten. FSW weights the new samples by a linear
program, so that the predicted losses of all three classes stay small and even. It keeps those that pull the net in
a direction that does not hurt the neighbour.

Picture: three clusters of points; of the third, which is new, the samples that are kept lie on one side
"""

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import cross_entropy

from faircil import FairSampleWeights, ReplayBuffer
from faircil.data.datasets import load_dataset

known, new = (task.train for task in load_dataset("toy", seed=0).tasks)
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.00015, momentum=0.9)
for rows in torch.randperm(20 * len(known)).remainder(len(known)).split(64):
    optimizer.zero_grad()
    cross_entropy(net(known.x[rows]), known.y[rows]).backward()
    optimizer.step()

memory = ReplayBuffer(quota=32).add(known).samples
result = FairSampleWeights(measure="eer", lam=0.5)(net, new, memory)
print(f"{result.kept} of {len(new)} new samples kept, {result.partial} with a weight in between")
print("losses of the three classes:", result.groups.losses.round(2))
print("as predicted for one epoch: ", result.groups.predicted_losses.round(2))

figure, axes = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
for label, colour in ((0, "#8fb8e8"), (1, "#2f7ed8")):
    points = known.x[known.y == label]
    axes.scatter(*points.T, s=6, color=colour, label=f"class {label}, known")
kept = result.weights > 0.5
axes.scatter(*new.x[~kept].T, s=6, color="#c9c9c9", label="class 2, new: dropped")
axes.scatter(*new.x[kept].T, s=9, color="#d9480f", label="class 2, new: kept")
axes.legend(markerscale=2)
axes.set(xlabel="x₁", ylabel="x₂")
figure.savefig("which-samples-are-kept.png", dpi=150)
