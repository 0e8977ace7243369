"""Fair sample weights in skorch: a callback, and a sampler that draws by the weights."""

import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch.utils.data import TensorDataset

from faircil import FairSampler, FairSampleWeights


class FairWeights(Callback):
    """Weighs the current samples at the start of each epoch; the sampler draws by the weights."""

    def __init__(self, weigh, sampler, current, memory):
        self.weigh, self.sampler, self.data = weigh, sampler, (current, memory)

    def on_epoch_begin(self, net, **_):
        self.sampler.set_weights(self.weigh(net.module_, *self.data))


torch.manual_seed(0)
y, z = (
    torch.cat([torch.randint(2, 4, (300,)), torch.randint(0, 2, (60,))]),
    torch.randint(2, (360,)),
)
x = torch.randn(360, 8) + y[:, None] - z[:, None]
current, memory = TensorDataset(x[:300], y[:300], z[:300]), TensorDataset(x[300:], y[300:], z[300:])
sampler = FairSampler(current, memory=memory)
model = NeuralNetClassifier(
    torch.nn.Sequential(torch.nn.Linear(8, 9), torch.nn.ReLU(), torch.nn.Linear(9, 4)),
    criterion=torch.nn.CrossEntropyLoss,
    iterator_train__sampler=sampler,
    callbacks=[FairWeights(FairSampleWeights(measure="eo"), sampler, current, memory)],
    train_split=None,
    max_epochs=2,
    lr=0.1,
    verbose=0,
)
model.fit(x, y)  # current samples first, then the memory
