"""FairSampleWeights: fairness-aware sample weights for any training loop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import ConfigDict, ValidationError, model_validator
from pydantic.dataclasses import dataclass as settings_dataclass
from pydantic_core import ArgsKwargs
from torch import Tensor, nn

from faircil.errors import DataError, UsageError, raise_all
from faircil.fields import (
    SETTINGS,
    Count,
    NonNegative,
    Positive,
    documented,
    one_of,
    setting_mistakes,
)
from faircil.nets import HeadError, layer_named
from faircil.ranks import Ranks
from faircil.samples import Samples, refuse_unknown
from faircil.weighting.all_layers import all_layer_statistics
from faircil.weighting.any_data import PROBE, Data, Stream, open_stream
from faircil.weighting.any_net import Classifier, plain_head, precise, unchanged
from faircil.weighting.choice import (
    MANY,
    Choice,
    ProgramInputs,
    WeightResult,
    choose,
    choose_on_device,
    described,
)
from faircil.weighting.granularity import GRANULARITIES, cluster, required
from faircil.weighting.groups import Floats, Membership, Seen, find_groups
from faircil.weighting.in_blocks import block_statistics
from faircil.weighting.last_layer import (
    GroupStatistics,
    LastLayerStatistics,
    group_statistics,
    stream_layer,
    stream_statistics,
)
from faircil.weighting.losses import LOSSES, find_loss
from faircil.weighting.measures import MEASURES, Measure, disparity_matrix, find_measure
from faircil.weighting.over_ranks import (
    choose_over_ranks,
    divided_mistakes,
    groups_over_ranks,
    statistics_over_ranks,
)
from faircil.weighting.program import program_rows
from faircil.weighting.solver import SOLVERS

logger = logging.getLogger(__name__)

AUTO_BUDGET = 12.0  # alpha = AUTO_BUDGET / |T|, that is .001 at 12,000 samples
GRADIENTS = ("last", "all")
KEPT = 2**30  # bytes of factors to store; larger ones are computed twice, in blocks
Function = Callable[..., Any]  # a function given instead of a name


@settings_dataclass(config=ConfigDict({**SETTINGS, "arbitrary_types_allowed": True}))
class FairSampleWeights:
    """Weight the samples of the current task so that losses of all groups stay balanced.

    Call it at the start of each epoch, from the second task on. Its fields are also the weighting
    settings of a run.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Linear(2, 3)
    >>> new = Samples(torch.randn(8, 2), torch.full((8,), 2))
    >>> old = Samples(torch.randn(4, 2), torch.tensor([0, 0, 1, 1]))
    >>> FairSampleWeights(measure="eer", lam=1.0)(net, new, old).weights.shape
    torch.Size([8])
    """

    measure: Annotated[str, one_of("measure", MEASURES)] | Function = "eo"
    """eer, eo, dp, another registered name, a Measure, or a function from Groups to a matrix of
    shape (rows, groups)"""
    alpha: Positive | Literal["auto"] = "auto"
    """step size α of the predicted losses ℓ_g − α · Σ_i w_i cos(i, g); a larger α keeps fewer
    samples; auto: 12/n for n current samples"""
    lam: NonNegative = 0.5
    """weight λ of the current classes' loss relative to the disparity"""
    granularity: Annotated[str, one_of("granularity", GRANULARITIES)] = "sample"
    """variables of the program: sample, a weight per sample; group or cluster, the fraction of each
    to draw; cluster-weights, a weight per cluster"""
    gradient: Annotated[str, one_of("gradient", GRADIENTS)] = "last"
    """layers whose gradients are compared: last or all"""
    loss: Annotated[str, one_of("loss", LOSSES)] | Function = "cross-entropy"
    """loss in the program, see `faircil list losses`, or a function of logits and labels that
    returns losses and their gradients at the logits; the training loss is separate"""
    clusters: Count = 300
    """number of clusters of last-layer gradients within groups, for granularity=cluster"""
    floor: bool = True
    """whether to constrain the predicted loss of each current class to be at least 0"""
    solver: Annotated[str, one_of("solver", SOLVERS, "auto")] | Function = "auto"
    """solver of the linear program, see `faircil list solvers`"""
    head: nn.Linear | str | None = None
    """the net's last linear layer, or its name; found automatically; unused by gradient=all"""
    batch: Function | Sequence[Any] | None = None
    """what a batch of a dataset or loader consists of: a function of it that returns (x, y) or
    (x, y, z), or names of its fields for these; by default it is (x, y), (x, y, z) or a mapping
    with labels, sensitive if there is an attribute, and the net's inputs by keyword"""
    logits: Function | None = None
    """function of net and inputs that returns logits; by default they are what the net returns, its
    .logits, or the only matrix of a tuple"""

    @model_validator(mode="wrap")
    @classmethod
    def _all_mistakes_at_once(cls, given: Any, build: Callable[[Any], Self]) -> Self:
        """Raise a faircil error instead of a pydantic error."""
        try:
            weights = build(given)
        except ValidationError as error:
            raise_all(setting_mistakes(error, _by_name(given)))
            raise
        raise_all(_cluster_mistakes(weights.gradient, weights.granularity))
        return weights

    def __call__(
        self,
        net: nn.Module,
        current: Data,
        memory: Data | None = None,
        *,
        seen: Seen | None = None,
        generator: torch.Generator | None = None,
        ranks: Ranks | None = None,
    ) -> WeightResult:
        """Compute weights of ``current`` for the current net.

        Parameters
        ----------
        net : Module
            Any classifier. It is left unchanged, even if an error occurs.
        current, memory : Samples, map-style dataset or DataLoader
            The task's training data (n samples) and the replay buffer with the old groups, if there
            is one. Without it, only the groups of the task are balanced; a run of faircil gives all
            samples of its first task weight 1 instead. A dataset is read in batches and in order,
            regardless of the order of its loader: weight i belongs to ``dataset[i]``.
        seen : mapping, optional
            ``{(y, z): samples seen so far}``, including the current task; needed by ``dp``.
        generator : torch.Generator, optional
            Draws clusters and samples; needed by every granularity except ``sample``.
        ranks : Ranks, optional
            Processes that train together, such as ``Ranks.of()``. Each process passes its own part
            of the current samples; net and memory are the same for all. Each gets the weights of
            its part, which balance the groups of all parts together.
        """
        if ranks is not None:
            return self.of_shards(net, [current], memory, ranks, seen=seen, generator=generator)[0]
        start = time.perf_counter()
        net = _unwrapped(net)
        classifier = Classifier(net, self.logits)
        # Gradients of all layers may need torch's backward passes, which inference mode rules out.
        with torch.inference_mode(False), unchanged(net), classifier.uncast():
            now, old = self._opened(current, memory, classifier.device)
            if len(now) == 0:
                raise DataError("there are no current samples to weight")
            measured = self._measured(classifier, now, old, seen)
            gradient_seconds = time.perf_counter() - start
            return self._result(measured, generator, precise(_dtype(net)), gradient_seconds)

    def of_shards(
        self,
        net: nn.Module,
        parts: Sequence[Data],
        memory: Data | None,
        ranks: Ranks,
        *,
        seen: Seen | None = None,
        generator: torch.Generator | None = None,
        drawn: bool = True,
    ) -> list[WeightResult]:
        """Compute weights of samples that are divided into parts, one or more per rank.

        Parameters
        ----------
        net, memory, seen, generator
            As for a call; the same on all ranks.
        parts : sequence of Samples, datasets or loaders
            The parts of this rank; all ranks have the same number.
        ranks : Ranks
        drawn : bool
            With granularity ``group``: whether to draw samples by the share of their group;
            otherwise, the share is their weight.

        Returns
        -------
        list of WeightResult
            Result for each part. Groups, objective and bound refer to all parts of all ranks.
        """
        start = time.perf_counter()
        net = _unwrapped(net)
        classifier, measure = Classifier(net, self.logits), self._summed_measure()
        raise_all(divided_mistakes(self.gradient, self.granularity, "`ranks`"))
        head, loss = self.head, find_loss(self.loss)
        head = layer_named(net, head) if isinstance(head, str) else head
        with torch.inference_mode(False), unchanged(net), classifier.uncast():
            with ranks.alike():
                opened = [self._opened(part, memory, classifier.device) for part in parts]
                now, old = [each[0] for each in opened], opened[0][1]
                labels = [_labels_of(each) for each in now]
                known = None if old is None else _labels_of(old)
                self._refuse_unknown(measure, [*labels, known])
            members = groups_over_ranks(
                labels, known, ranks, by_attribute=measure.by_attribute, seen=seen
            )
            disparity = disparity_matrix(measure, members[0].groups)
            groups = members[0].groups
            rows = int(groups.size[groups.current].sum())
            measured = statistics_over_ranks(classifier, now, old, members, ranks, head, loss)
            inputs = [
                self._inputs(statistics, member, disparity, combined=False, samples=rows)
                for statistics, member in zip(measured, members, strict=True)
            ]
            for each in inputs:
                if not self._on_device(each.membership):
                    _ = each.statistics.alignment  # compute it now, so that its time is measured
            seconds = time.perf_counter() - start
            choices = choose_over_ranks(
                inputs, self.granularity, self.solver, generator, ranks, drawn=drawn
            )
            dtype, took = precise(_dtype(net)), time.perf_counter() - start - seconds
            return [
                described(each, choice, dtype, (seconds, took))
                for each, choice in zip(inputs, choices, strict=True)
            ]

    def _opened(
        self, current: Data, memory: Data | None, device: torch.device
    ) -> tuple[Samples | Stream, Samples | Stream | None]:
        """Return both unchanged if they are samples in memory, else as streams."""
        plain = self.logits is None
        if plain and isinstance(current, Samples) and isinstance(memory, Samples | None):
            return current, memory
        old = None if memory is None else open_stream(memory, self.batch, device)
        return open_stream(current, self.batch, device), old if old else None

    def _measured(
        self,
        net: Classifier,
        current: Samples | Stream,
        memory: Samples | Stream | None,
        seen: Seen | None,
    ) -> ProgramInputs:
        """Compute groups and statistics; from all layers if requested, or if there is no head."""
        measure = self._summed_measure()
        if self.gradient == "last":
            try:
                return self._of_last_layer(net, current, memory, measure, seen)
            except HeadError as error:
                if self.head is not None or self.granularity.startswith("cluster"):
                    raise
                logger.warning(
                    "%s; weights follow from the gradients of all layers (gradient='all') instead, "
                    "which takes longer",
                    error,
                )
        membership, disparity = self._grouped(current, memory, measure, seen)
        combine, loss = program_rows(disparity, membership.groups), find_loss(self.loss)
        statistics = all_layer_statistics(net, current, memory, membership, combine, loss)
        return self._inputs(statistics, membership, disparity, combined=True)

    def _summed_measure(self) -> Measure:
        """Return the measure; raise an error if the program cannot minimise it."""
        measure = find_measure(self.measure)
        if measure.combine != "sum":
            raise UsageError(
                "the program of sample weights minimises a sum over comparisons of groups, and "
                "this measure is the largest loss of a group; choose a measure such as 'eo'"
            )
        return measure

    def _of_last_layer(
        self,
        net: Classifier,
        current: Samples | Stream,
        memory: Samples | Stream | None,
        measure: Measure,
        seen: Seen | None,
    ) -> ProgramInputs:
        """Compute groups and statistics of the last layer; streams are read once."""
        statistics: GroupStatistics
        loss, head = find_loss(self.loss), self.head
        head = layer_named(net.net, head) if isinstance(head, str) else head
        if isinstance(current, Samples):
            assert not isinstance(memory, Stream)  # both are opened in the same way
            membership, disparity = self._grouped(current, memory, measure, seen)
            in_blocks = self._in_blocks(net, current, head)
            measure_all = block_statistics if in_blocks else group_statistics
            statistics = measure_all(net, current, memory, membership, head, loss)
        else:
            head = plain_head(net, current.first(), head)
            streams = [part for part in (current, memory) if isinstance(part, Stream)]
            layers = [stream_layer(net, head, stream, loss) for stream in streams]
            membership, disparity = self._grouped(current, memory, measure, seen)
            statistics = stream_statistics(layers, membership)
        if not self._on_device(membership):
            _ = statistics.alignment  # compute it now, so that its time is measured
        return self._inputs(statistics, membership, disparity, combined=False)

    def _grouped(
        self,
        current: Samples | Stream,
        memory: Samples | Stream | None,
        measure: Measure,
        seen: Seen | None,
    ) -> tuple[Membership, Floats]:
        """Return the groups and the measure's matrix, whose rows compare them."""
        now = _labels_of(current)
        old = None if memory is None else _labels_of(memory)
        self._refuse_unknown(measure, [now, old])
        membership = find_groups(now, old, by_attribute=measure.by_attribute, seen=seen)
        return membership, disparity_matrix(measure, membership.groups)

    def _refuse_unknown(self, measure: Measure, parts: Sequence[Samples | None]) -> None:
        for part in parts:
            if measure.by_attribute and part is not None:
                refuse_unknown(part, "a measure of attribute values")

    def _inputs(
        self,
        statistics: GroupStatistics,
        membership: Membership,
        disparity: Floats,
        *,
        combined: bool,
        samples: int | None = None,
    ) -> ProgramInputs:
        n = len(membership.current) if samples is None else samples
        alpha = AUTO_BUDGET / n if self.alpha == "auto" else float(self.alpha)
        return ProgramInputs(
            statistics, membership, disparity, alpha, self.lam, self.floor, combined
        )

    def _result(
        self,
        inputs: ProgramInputs,
        generator: torch.Generator | None,
        dtype: torch.dtype,
        gradient_seconds: float,
    ) -> WeightResult:
        """Solve the program and describe its solution."""
        start = time.perf_counter()
        choice = self._choose(inputs, generator)
        took = time.perf_counter() - start
        return described(inputs, choice, dtype, (gradient_seconds, took))

    def _in_blocks(self, net: Classifier, current: Samples, head: nn.Linear | None) -> bool:
        """Return whether factors are too large to store and not needed later."""
        if self.granularity not in ("sample", "group") or current.y.is_cuda:
            return False
        layer = plain_head(net, current.x[:PROBE], head)
        numbers = 1 + layer.out_features + layer.in_features
        return len(current) * numbers * precise(layer.weight.dtype).itemsize > KEPT

    def _on_device(self, membership: Membership) -> bool:
        """Return whether the program is solved on the GPU, without its matrix."""
        plain = (self.granularity, self.gradient, self.solver) == ("sample", "last", "auto")
        return plain and membership.current.is_cuda and len(membership.current) >= MANY

    def _choose(self, inputs: ProgramInputs, generator: torch.Generator | None) -> Choice:
        """Solve the program and return the weights."""
        statistics, member = inputs.statistics, inputs.membership
        if self._on_device(member) and isinstance(statistics, LastLayerStatistics):
            return choose_on_device(inputs, statistics)

        def clustering() -> Tensor:
            assert isinstance(statistics, LastLayerStatistics)  # checked by the constructor
            draw, count = required(generator), len(member.groups)
            return cluster(statistics.factors, member.current, count, self.clusters, draw)

        granularity = GRANULARITIES[self.granularity]
        return choose(inputs, granularity, clustering, self.solver, generator)


def _labels_of(source: Samples | Stream) -> Samples:
    """Return the classes and attribute values of samples."""
    return source.labels if isinstance(source, Stream) else source


def _by_name(given: Any) -> Mapping[str, Any]:
    """Return the arguments of a constructor by name."""
    if not isinstance(given, ArgsKwargs):
        return given if isinstance(given, Mapping) else {}
    names = [field.name for field in fields(FairSampleWeights)]
    return {**dict(zip(names, given.args, strict=False)), **(given.kwargs or {})}


def _unwrapped(net: nn.Module) -> nn.Module:
    """Return the net itself: a distributed wrapper would wait for others at each pass."""
    return net.module if isinstance(net, nn.parallel.DistributedDataParallel) else net


def _dtype(net: nn.Module) -> torch.dtype:
    return next((p.dtype for p in net.parameters()), torch.float32)


FairSampleWeights.__doc__ = documented(FairSampleWeights)


def _cluster_mistakes(gradient: str, granularity: str) -> list[str]:
    """Return a mistake if clusters are combined with gradients of all layers."""
    if gradient != "all" or not granularity.startswith("cluster"):
        return []
    return [
        f"granularity '{granularity}' clusters last-layer gradients, but gradient is 'all'; use "
        "gradient='last', or granularity 'sample' or 'group'"
    ]
