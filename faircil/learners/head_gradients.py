"""How the gradients of samples lie to each other in the last layer, for nets that are large.

Of a pre-trained encoder every sample's gradient is as large as the encoder, and takes a backward
pass of its own. That of the last layer is ``δ_i h̃_iᵀ``, with δ the gradient at the logits and ``h̃``
the features and a 1: one pass without gradients gives those of all samples. FSW takes the same
part of the gradient in place of the whole.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from faircil.learners.features import with_features
from faircil.learners.sample_gradients import GradientMeter, SampleGradients
from faircil.weighting.all_layers.logits import split_gradients
from faircil.weighting.gradients import feature_lengths
from faircil.weighting.head import evaluating, find_head


class HeadMeter(GradientMeter):
    """Measures gradients of the last linear layer, in eval mode.

    ``layers`` is None as for nets whose layers are not all linear: what it measures is no gradient
    to train by.

    Parameters
    ----------
    net : Module
    x : Tensor, shape (n, ...)
        Inputs; one of them is passed through the net.
    """

    def __init__(self, net: nn.Module, x: Tensor) -> None:
        self._net, self._head = net, find_head(net, x)
        self.layers = None

    def of_samples(self, x: Tensor, y: Tensor) -> SampleGradients:
        """Measure the gradient of the cross-entropy of each sample, x (n, ...), y (n,)."""
        with evaluating(self._net):
            logits, features = with_features(self._net, self._head, x)
        at, bias = split_gradients(logits, y), self._head.bias is not None
        length = feature_lengths(features, bias)
        scale = torch.where(length == 0, 0.0, 1 / length)[:, None]
        return SampleGradients(at.length * length, (at.direction * scale,), (features,), (bias,))

    def of_sum(self, x: Tensor, y: Tensor) -> SampleGradients:
        """Measure what :meth:`of_samples` does: that is less than their sum would be."""
        return self.of_samples(x, y)


def meter_of(net: nn.Module, x: Tensor, *, training: bool = False) -> GradientMeter:
    """Return what measures a net: all its layers, or the last one where it is large.

    Parameters are those of :class:`faircil.learners.sample_gradients.GradientMeter`; for nets that
    are large see :mod:`faircil.nets`.
    """
    if getattr(net, "large", False):
        return HeadMeter(net, x)
    return GradientMeter(net, x, training=training)
