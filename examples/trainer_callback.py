"""Fair sample weights in the Trainer of Hugging Face: a callback, and a sampler for its batches."""

import torch
from torch.utils.data import ConcatDataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from faircil import FairSampler, FairSampleWeights


class FairWeights(TrainerCallback):
    """Weighs the current samples at the start of each epoch; the sampler draws by the weights."""

    def __init__(self, weigh, sampler, current, memory):
        self.weigh, self.sampler, self.data = weigh, sampler, (current, memory)

    def on_epoch_begin(self, args, state, control, model, **_):
        self.sampler.set_weights(self.weigh(model, *self.data))


class FairTrainer(Trainer):
    def _get_train_sampler(self, *_):
        return sampler


def samples(first, n):
    y, z = torch.randint(first, first + 2, (n,)), torch.randint(2, (n,))
    words = 1 + torch.randint(40, (n, 6)) + 10 * y[:, None] + 5 * z[:, None]
    names = ("input_ids", "attention_mask", "labels", "sensitive")
    return [dict(zip(names, row, strict=True)) for row in zip(words, words > 0, y, z, strict=True)]


torch.manual_seed(0)
current, memory = samples(2, 120), samples(0, 40)
both = ConcatDataset([current, memory])
sampler = FairSampler(current, memory=memory, length=len(both))
small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_labels": 4}
model = BertForSequenceClassification(BertConfig(vocab_size=99, intermediate_size=16, **small))
quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True}
settings = TrainingArguments("unused", num_train_epochs=2, logging_strategy="no", **quiet)
callback = FairWeights(FairSampleWeights(measure="eo"), sampler, current, memory)
FairTrainer(model, settings, train_dataset=both, callbacks=[callback]).train()
