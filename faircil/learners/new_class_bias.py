"""Distillation with a correction of the bias towards new classes: weight aligning and BiC.

Weight aligning rescales the weights of the new classes to the norm of the old ones; BiC fits a
scale and an offset of their logits.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot, pad

from faircil.learners.base import (
    Generators,
    Material,
    NonNegative,
    Options,
    ReplayBuffer,
    Samples,
)
from faircil.learners.distillation import DistillationOptions, Distilling
from faircil.nets import find_head

LEAST_DECAY = 1e-4  # for separable classes no finite scale is optimal
TOLERANCE = 1e-12  # of the objective
MOST_STEPS = 100


class WeightAligningOptions(DistillationOptions):
    """Settings of weight aligning."""

    align_bias: bool = False
    """whether the biases of the new classes are scaled with their weights"""
    clip_nonneg: bool = True
    """whether to clip the last layer's weights at 0 from below, as in the paper that proposes the
    method, so that a larger norm always means larger logits"""
    evaluate_before_alignment: bool = False
    """whether to evaluate a task before alignment, so that the last task is never aligned;
    published tables that compare fair methods used this order"""


class WeightAligning(Distilling):
    """Distillation; at the end of a task the new classes' weights are multiplied by γ.

    ``γ = mean over old classes of ‖W_k‖ / mean over new classes of ‖W_k‖`` with the rows W_k of
    the last layer: training on many new and few old samples increases the norms of the new rows,
    and with them the new classes' logits. Unseen classes are excluded from both means. The teacher
    of the next task is the aligned net.
    """

    options = WeightAligningOptions
    divisible = True

    settings: WeightAligningOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.head: nn.Linear | None = None

    def begin_task(self, train: Samples, buffer: ReplayBuffer) -> Material:
        """Find the last layer; apply an alignment that was deferred."""
        self.head = find_head(self.net, train.x)
        if self.settings.evaluate_before_alignment:
            self.align()
        return super().begin_task(train, buffer)

    def update(self) -> None:
        """Update the net, and clip the last layer if enabled."""
        super().update()
        if self.settings.clip_nonneg and self.head is not None:
            self.head.weight.data.clamp_(min=0)

    def end_task(self, buffer: ReplayBuffer) -> None:
        """Align the last layer, unless deferred to the next task."""
        del buffer
        if not self.settings.evaluate_before_alignment:
            self.align()

    def align(self) -> None:
        """Scale the rows of the new classes to the mean norm of the old classes' rows."""
        if self.head is None or not self.old or not self.new:
            return
        new = list(self.new)
        with torch.no_grad():
            length = self.head.weight.norm(dim=1)
            gamma = length[list(self.old)].mean() / length[new].mean()
            self.head.weight[new] *= gamma
            if self.settings.align_bias and self.head.bias is not None:
                self.head.bias[new] *= gamma


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
    divisible = True

    settings: BiasCorrectionOptions

    def __init__(self, net: nn.Module, settings: Options, generators: Generators) -> None:
        super().__init__(net, settings, generators)
        self.correction: tuple[Tensor, Tensor] | None = None  # scale and offset, (classes,) each

    def grow(self, classes: int) -> None:
        """Add outputs; logits of future classes are not corrected."""
        super().grow(classes)
        if self.correction is not None:
            scale, offset = self.correction
            more = (0, classes - len(scale))
            self.correction = (pad(scale, more, value=1.0), pad(offset, more))

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
