"""Forecasts of which groups a new task will hurt, made before training on it.

Both forecasts need the current net and one pass over the task and over rows of the old groups, the
buffer. They rank groups; neither predicts a loss that will be measured.

**Slope**, Theorem 1 of the paper. A step of size η on the task changes the mean loss of group g by
``−η ⟨ḡ_g, ḡ_T⟩`` to first order, with mean gradients of the last layer. The slope is
``s_g = −⟨ḡ_g, ḡ_T⟩``: above 0, the step hurts the group. It forecasts training on the task alone.

**Crowding**, for training that replays rows of the old classes. Replay recovers what the first
steps cost, so the slope says little about the outcome. The last layer ends as a classifier by class
means: row k of its gradient is ``Σ_i (p_ik − y_ik) h_i``, which moves ``w_k`` towards the mean
feature ``m_k`` of its class, for old classes by replay. A row i of class y is lost to a new class
k by the degree to which it is closer to ``m_k`` than to the mean of its own class without itself:

    c_i = max_{k new, k≠y} cos(h_i, m_k) − cos(h_i, m_y^(−i))

The crowding of a group is the mean over its rows, between −2 and 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from faircil.errors import DataError
from faircil.nets import layer_named
from faircil.samples import refuse_unknown, unique_rows
from faircil.weighting.any_data import BatchFunction, Data, open_stream
from faircil.weighting.any_net import Classifier, Logits, plain_head, unchanged
from faircil.weighting.groups import Floats, Groups, find_groups
from faircil.weighting.last_layer import LastLayer, group_sums, mean_losses, stream_layer


@dataclass(frozen=True)
class Forecast:
    """The predicted effect of a task on the old groups, before training.

    Parameters
    ----------
    groups : Groups
        The G groups of the old rows that do not occur in the task.
    losses : ndarray, shape (G,)
        Current mean loss of each group on these rows.
    slopes : ndarray, shape (G,)
        Change of this loss per unit of step size, to first order, for a step on the task alone.
    crowding : ndarray, shape (G,)
        How much closer its rows are to a new class than to their own; NaN if the task has no class
        but theirs.
    replayed : bool
        Whether training replays the old rows along with the task.
    """

    groups: Groups
    losses: Floats
    slopes: Floats
    crowding: Floats
    replayed: bool

    @property
    def harm(self) -> Floats:
        """The forecast that fits the training, (G,); larger values mean more harm to the group."""
        return self.crowding if self.replayed else self.slopes


def forecast(
    net: nn.Module,
    current: Data,
    memory: Data,
    *,
    replayed: bool = True,
    head: nn.Linear | str | None = None,
    batch: BatchFunction | Sequence[Any] | None = None,
    logits: Logits | None = None,
) -> Forecast:
    """Forecast which old groups a task will hurt, before training on it.

    Parameters
    ----------
    net : Module
        Any classifier whose logits are the output of a linear layer, before training on the task.
        It is left unchanged, even after errors.
    current : Samples, map-style dataset or DataLoader
        Training data of the task.
    memory : Samples, map-style dataset or DataLoader
        Rows of the old groups: the buffer, or any others. Groups are classes with an attribute
        value if there is an attribute, else classes.
    replayed : bool
        Whether training replays rows of the old classes; otherwise it uses the task alone.
    head : Linear or str, optional
        The net's last linear layer, or its name; by default found automatically.
    batch, logits : optional
        Definitions of batches and of the net's outputs; see
        :class:`faircil.weighting.weights.FairSampleWeights`.

    Examples
    --------
    >>> from faircil.samples import Samples
    >>> _ = torch.manual_seed(0)
    >>> old = Samples(torch.eye(2).repeat(4, 1), torch.tensor([0, 1] * 4))
    >>> new = Samples(torch.tensor([[1.0, 0.1]] * 4), torch.full((4,), 2))  # like class 0
    >>> found = forecast(torch.nn.Linear(2, 3), new, old)
    >>> found.groups.label, found.crowding.round(2)
    (array([0, 1]), array([-0. , -0.9]))
    """
    classifier = Classifier(net, logits)
    with unchanged(net), classifier.uncast():
        device = classifier.device
        streams = [open_stream(given, batch, device) for given in (current, memory)]
        for stream, name in zip(streams, ("current", "memory"), strict=True):
            if len(stream) == 0:
                raise DataError(f"`{name}` has no samples; a forecast compares a task to old rows")
        head = layer_named(net, head) if isinstance(head, str) else head
        layer = plain_head(classifier, streams[0].first(), head)
        task, old = (stream_layer(classifier, layer, stream) for stream in streams)
        now, before = (stream.labels for stream in streams)
        for part in (now, before):
            refuse_unknown(part, "a forecast for groups")
        membership = find_groups(now, before, by_attribute=now.z is not None)
        groups, kept = membership.groups, ~membership.groups.current
        if not kept.any():
            raise DataError(
                "every group of `memory` is in the task too, so none can be forgotten; give the "
                "buffer as it is before the task"
            )
        for layer_of, name in ((task, "current"), (old, "memory")):
            if not torch.isfinite(layer_of.features).all():
                raise DataError(
                    f"features of `{name}` are not finite; replace NaN and infinite inputs, and "
                    "check whether the net has diverged"
                )
        sums, losses = group_sums(old, membership.memory, len(groups))
        everything = torch.zeros_like(membership.current)
        step = group_sums(task, everything, 1)[0][0].double() / len(now)
        size = torch.from_numpy(groups.size).to(sums.device)
        slopes = -(sums.double() * step).sum(dim=(1, 2)) / size
        crowded = _crowding(old, before.y, task, now.y)
        crowding = _group_totals(crowded, membership.memory, len(groups)) / size
        return Forecast(
            groups.take(kept),
            mean_losses(losses, membership)[kept],
            slopes.cpu().numpy()[kept],
            crowding.cpu().numpy()[kept],
            replayed,
        )


def _crowding(old: LastLayer, y: Tensor, task: LastLayer, new: Tensor) -> Tensor:
    """Return how much closer each old row is to a new class than to its own, (m,).

    Parameters
    ----------
    old, task : LastLayer
        Factors of the old rows and of the task.
    y, new : Tensor of int64, shapes (m,) and (n,)
        Their classes.
    """
    features = old.features.double()
    (_, own), (rivals, rival) = (unique_rows(labels[:, None]) for labels in (y, new))
    means, counts = _class_means(features, own)
    others, _ = _class_means(task.features.double(), rival)
    # Without row i, the mean of its n rows is (n m − h_i)/(n − 1). A single row leaves no mean; its
    # cosine is 0.
    n = counts[own][:, None]
    without = (n * means[own] - features) / (n - 1).clamp(min=1)
    nearest = torch.full_like(features[:, 0], -torch.inf)
    for label, mean in zip(rivals[:, 0], others, strict=True):
        cosine = cosine_similarity(features, mean[None], dim=1)
        nearest = torch.where(y == label, nearest, torch.maximum(nearest, cosine))
    crowded = nearest - cosine_similarity(features, without, dim=1)
    return torch.where(torch.isinf(nearest), torch.nan, crowded)


def _class_means(features: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
    """Return the class means, (C, d), and class sizes, (C,); ``place`` is each row's class."""
    counts = torch.bincount(place)
    sums = features.new_zeros(len(counts), features.shape[1]).index_add_(0, place, features)
    return sums / counts[:, None], counts


def _group_totals(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Sum values, (m,), within groups, (G,); rows with a negative group are ignored."""
    inside = group >= 0
    sums = values.new_zeros(groups)
    return sums.index_add_(0, group[inside], values[inside])
