"""BiC: distillation, and a scale and an offset that correct the bias towards new classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from faircil.learners.base import Generators, Material, NonNegative, Options, ReplayBuffer, Samples
from faircil.learners.distillation import DistillationOptions, Distilling

LEAST_DECAY = 1e-4  # for separable classes no finite scale is optimal
TOLERANCE = 1e-12  # of the objective
MOST_STEPS = 100


class BiasCorrectionOptions(DistillationOptions):
    """Settings of bias correction."""

    offset_decay: NonNegative = 0.1
    """weight of the penalty offset²/2 when scale and offset are fitted"""


class BiasCorrection(Distilling):
    """Distillation; after each task, new classes' logits o become ``scale · o + offset``.

    The two numbers minimise the cross-entropy on the buffer, which then has as many samples of
    each new class as of each old one. The original holds out a tenth of the buffer and as many
    new samples for this fit; with 32 samples per class these are only 3. Here the fit uses all
    buffer samples, although the net was trained on them.

    Only the logits of the latest classes are corrected, as in the original: the corrected net is
    the teacher of the next task, so its weights absorb the correction.
    """

    options = BiasCorrectionOptions

    settings: BiasCorrectionOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.correction: tuple[Tensor, Tensor] | None = None  # scale and offset, (classes,) each

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Use the corrected net as the teacher, then train without the correction."""
        material = super().begin_task(train, buffer)
        self.correction = None
        return material

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Fit the correction on the buffer, which already contains the task."""
        if not self.old or not self.new or buffer.samples is None:
            return
        logits = self.scores(buffer.samples.x)
        is_new = torch.zeros(logits.shape[1], device=logits.device)
        is_new[list(self.new)] = 1
        scale, offset = fit_correction(
            logits, buffer.samples.y, is_new, self.settings.offset_decay
        ).tolist()
        self.correction = (1 + (scale - 1) * is_new, offset * is_new)

    def logits(self, x: Tensor) -> Tensor:
        """Return the corrected logits."""
        logits = super().logits(x)
        if self.correction is None:
            return logits
        scale, offset = self.correction
        return scale * logits + offset


def fit_correction(logits: Tensor, y: Tensor, is_new: Tensor, offset_decay: float = 0.0) -> Tensor:
    """Minimise ``mean CE(corrected logits, y) + offset_decay · offset² / 2`` by Newton's method.

    The corrected logits are affine in scale and offset, so the problem is convex. A small
    regularisation towards scale 1 and offset 0 makes the solution unique.

    Parameters
    ----------
    logits : Tensor, shape (n, classes)
    y : Tensor of int64, shape (n,)
    is_new : Tensor, shape (classes,)
        1 for the classes whose logits are corrected, 0 for the others.
    offset_decay : float

    Returns
    -------
    Tensor of float64, shape (2,)
        Scale and offset.
    """
    logits, columns = logits.double(), is_new.double().expand(logits.shape)
    # Corrected logits are ``logits + moves @ change``: moves (n, classes, 2), change from (1, 0).
    moves = torch.stack([columns * logits, columns], dim=2)
    truth = one_hot(y, logits.shape[1])
    decay = logits.new_tensor([LEAST_DECAY, LEAST_DECAY + offset_decay])

    def objective(change: Tensor) -> Tensor:
        return cross_entropy(logits + moves @ change, y) + decay @ change.square() / 2

    change = logits.new_zeros(2)
    for _ in range(MOST_STEPS):
        p = torch.softmax(logits + moves @ change, dim=1)[:, :, None]
        slope = ((p - truth[:, :, None]) * moves).sum(dim=1).mean(dim=0) + decay * change
        expected = (p * moves).sum(dim=1)
        # The curvature of a sample is the covariance of its moves under p.
        curvature = (moves.mT @ (p * moves)).mean(dim=0) - expected.T @ expected / len(y)
        step = torch.linalg.solve(curvature + decay.diag(), slope)
        gain = slope @ step
        if gain < TOLERANCE:
            break
        length = 1.0
        while objective(change - length * step) > objective(change) - length * gain / 4:
            length /= 2
        change = change - length * step
    return change + logits.new_tensor([1.0, 0.0])
