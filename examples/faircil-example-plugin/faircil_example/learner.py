"""A learner: replay with smoothed labels on the buffer."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from faircil.learners import Batch
from faircil.learners.replay import Replay
from faircil.options import ReplayOptions, Share


class SmoothOptions(ReplayOptions):
    """Settings of smooth replay."""

    smoothing: Share = 0.1
    """share of a label that is spread over all classes"""


class SmoothReplay(Replay):
    """Replay with smoothed labels, so that few replayed samples are not learned by heart."""

    summary = "replay with smoothed labels on the buffer"
    source = "an example"
    options = SmoothOptions

    settings: SmoothOptions

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of the current samples plus τ times that of the replayed ones."""
        current, replayed = batch.split(self.net(batch.x))
        new = batch.weighted_mean(cross_entropy(current, batch.current.y, reduction="none"))
        if batch.memory is None:
            return new
        smoothing = self.settings.smoothing
        old = cross_entropy(replayed, batch.memory.y, label_smoothing=smoothing)
        return new + self.settings.tau * old
