"""Fair sample weights in PyTorch Lightning: a callback, and a sampler that draws by the weights."""

import pytorch_lightning as lightning
import torch
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from faircil import FairSampler, FairSampleWeights


class FairWeights(lightning.Callback):
    """Weighs the current samples at the start of each epoch; the sampler draws by the weights."""

    def __init__(self, weigh, sampler, current, memory):
        self.weigh, self.sampler, self.data = weigh, sampler, (current, memory)

    def on_train_epoch_start(self, trainer, pl_module):
        self.sampler.set_weights(self.weigh(pl_module.net, *self.data))


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 9), torch.nn.ReLU(), torch.nn.Linear(9, 4)
        )

    def training_step(self, batch, batch_idx):
        x, y, _ = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


torch.manual_seed(0)
y, z = (
    torch.cat([torch.randint(2, 4, (300,)), torch.randint(0, 2, (60,))]),
    torch.randint(2, (360,)),
)
x = torch.randn(360, 8) + y[:, None] - z[:, None]
current, memory = TensorDataset(x[:300], y[:300], z[:300]), TensorDataset(x[300:], y[300:], z[300:])
both = ConcatDataset([current, memory])
# Lightning asks for the number of batches once, so the sampler draws equally many in each epoch.
sampler = FairSampler(current, memory=memory, length=len(both))
callback = FairWeights(FairSampleWeights(measure="eo"), sampler, current, memory)
quiet = {"enable_progress_bar": False, "enable_checkpointing": False, "logger": False}
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", callbacks=[callback], **quiet)
trainer.fit(Classifier(), DataLoader(both, 32, sampler=sampler))
