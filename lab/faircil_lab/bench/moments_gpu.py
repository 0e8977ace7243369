"""What learning from moments costs on a GPU: many features, and many rows of the host's memory."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators, chunks_of, free_memory, same_bits
from faircil.learners.moments import Moments
from faircil.learners.moments_options import MomentsOptions
from faircil.moments.group_moments import GroupMoments
from faircil.moments.ridge import RidgeProblem
from faircil.moments.sketch import Plan
from faircil.nets import build_mlp
from faircil.report import Table
from faircil.samples import Samples
from faircil.weighting.measures import MEASURES
from faircil_lab.bench.benchmark import Benchmark, sections, table_of
from faircil_lab.bench.measuring import Circumstances
from faircil_lab.wording import percent, seconds_text, three_digits

CLASSES = 10  # of two groups each
LEAST_ROWS = 10 * 2 * CLASSES
INPUTS = 64  # where features are many
RAW = "raw"
PRODUCT = 8192  # rows and columns of the product whose speed is taken as the GPU's own
MADE = 2**27  # numbers that are made together
COMPARED = 64  # columns of second moments that are compared with those of a CPU
GOAL = 20.0  # seconds for 10 million × 512 embeddings


@dataclass(frozen=True)
class GpuWorkload:
    """Normal clusters, two groups a class, in the host's memory.

    Parameters
    ----------
    rows : int
        In all.
    inputs : int
    width : int
        Number of features: random ReLU features, or the inputs themselves if they are as many and
        a constant.
    tf32 : bool
        Whether products of float32 may round their factors to ten bits.
    """

    rows: int
    inputs: int
    width: int
    tf32: bool = False

    @property
    def raw(self) -> bool:
        """Whether features are the inputs."""
        return self.width == self.inputs + 1

    @property
    def operations(self) -> float:
        """Products and sums that the sums take: features, and half of a symmetric matrix."""
        features = 0.0 if self.raw else 2.0 * self.inputs * self.width
        return self.rows * (features + self.width * (self.width + 1.0))

    def learner(self, device: torch.device) -> Moments:
        """Return a learner that has seen nothing, on a device."""
        kind = {"features": RAW} if self.raw else {"width": self.width}
        settings = MomentsOptions.model_validate({"rank": "full", **kind})
        net = build_mlp(self.inputs, CLASSES, (), 0).to(device)
        learner = Moments(net, settings, Generators.from_seed(0))
        learner.measure, learner.lam = MEASURES["eo"], 1.0
        return learner

    def samples(self, device: torch.device) -> Samples:
        """Return rows in the host's memory, drawn on a device: a CPU would take minutes."""
        generator = torch.Generator(device).manual_seed(0)
        y = torch.arange(self.rows) % CLASSES
        z = torch.arange(self.rows) // CLASSES % 2
        centres = torch.randn(CLASSES, self.inputs, generator=generator, device=device)
        x = torch.empty(self.rows, self.inputs)
        for rows in chunks_of(self.rows, max(1, MADE // self.inputs)):
            shape = (rows.stop - rows.start, self.inputs)
            drawn = torch.randn(shape, generator=generator, device=device)
            drawn *= 1 + z[rows].to(device)[:, None]
            x[rows] = (drawn + 0.5 * centres[y[rows].to(device)]).cpu()
        return Samples(x, y, z)


@dataclass(frozen=True)
class GpuCost:
    """What learning took.

    Parameters
    ----------
    workload : GpuWorkload
    fitting, summing, solving : float
        Seconds: of the features, of one pass over all rows, and of all solutions.
    solved : int
        Solutions to choose the weights, without those for the penalty.
    memory : float or None
        Peak of the GPU in GiB; None on a CPU.
    sums_off, losses_off : float or None
        Largest relative errors of second moments of a group and of the losses of groups, against
        float64; None where that was not computed.
    product : float
        Operations per second of a large product on the device, in float64 or, with tf32, in that.
    """

    workload: GpuWorkload
    fitting: float
    summing: float
    solving: float
    solved: int
    memory: float | None
    sums_off: float | None
    losses_off: float | None
    product: float

    @property
    def total(self) -> float:
        """Seconds in all."""
        return self.fitting + self.summing + self.solving

    @property
    def speed(self) -> float:
        """Operations per second of the sums."""
        return self.workload.operations / self.summing


@dataclass(frozen=True)
class GpuResults(Circumstances):
    """A benchmark of learning from moments on a GPU.

    Parameters
    ----------
    outcomes : tuple of GpuCost
    """

    outcomes: tuple[GpuCost, ...]

    @property
    def wide(self) -> list[GpuCost]:
        """Those with many features."""
        return [cost for cost in self.outcomes if cost.workload.inputs == INPUTS]

    @property
    def long(self) -> list[GpuCost]:
        """Those with many rows."""
        return [cost for cost in self.outcomes if cost.workload.inputs != INPUTS]


def workloads_of(
    widths: Sequence[int], *, rows: int, embeddings: int, inputs: int
) -> list[GpuWorkload]:
    """Return a workload for each width, one of them with TF32 too, and the embeddings."""
    found = [GpuWorkload(rows, INPUTS, width) for width in dict.fromkeys(widths)]
    middle = sorted(found, key=lambda one: one.width)[(len(found) - 1) // 2]
    found.append(replace(middle, tf32=True))
    if embeddings:
        found += [GpuWorkload(embeddings, inputs, width) for width in (inputs + 1, 2000)]
    return found


def measure_on_gpu(workloads: Sequence[GpuWorkload], device: torch.device) -> Iterator[GpuCost]:
    """Learn each workload once; a small one before warms up."""
    warm = GpuWorkload(5000, INPUTS, 500)
    _measure(warm, warm.samples(device), device)
    made: dict[tuple[int, int], Samples] = {}
    for workload in workloads:
        size = workload.rows, workload.inputs
        if size not in made:
            made = {size: workload.samples(device)}  # one at a time: it may be large
        with tf32_set(workload.tf32):
            yield _measure(workload, made[size], device)


@contextmanager
def tf32_set(allowed: bool) -> Iterator[None]:
    """Set in the block whether products of float32 may be rounded."""
    settings = torch.backends.cuda.matmul
    before = settings.allow_tf32
    settings.allow_tf32 = allowed
    try:
        yield
    finally:
        settings.allow_tf32 = before


def _measure(workload: GpuWorkload, train: Samples, device: torch.device) -> GpuCost:
    on_gpu = device.type == "cuda"
    gc.collect()
    if on_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    learner = workload.learner(device)
    learner.begin_task(train, ReplayBuffer(0))
    start = time.perf_counter()
    with threadpool_limits(1, user_api="blas"), same_bits():  # as in a run
        learner.begin(train)
        begun = time.perf_counter()
        record = learner.learn(train)
    ended = time.perf_counter()
    memory = torch.cuda.max_memory_allocated(device) / 2**30 if on_gpu else None
    assert learner.moments is not None
    with torch.no_grad():
        return GpuCost(
            workload,
            fitting=begun - start,
            summing=ended - begun - record.solving,
            solving=record.solving,
            solved=record.solved,
            memory=memory,
            sums_off=_sums_off(learner, learner.moments, train),
            losses_off=_losses_off(learner, train),
            product=_product_speed(device, torch.float32 if workload.tf32 else torch.float64),
        )


def _sums_off(learner: Moments, moments: GroupMoments, train: Samples) -> float:
    """Return the relative error of some columns of S of a group, against float64 on the CPU."""
    key = moments.keys[0]
    rows = (train.keys() == torch.tensor(key)).all(dim=1).nonzero()[:, 0]
    width, features = moments.width, learner.net.features
    exact = torch.zeros(min(COMPARED, width), width, dtype=torch.float64)
    for part in torch.split(rows, max(1, MADE // width)):
        phi = features(train.x[part].to(moments.device)).cpu().double()
        exact += phi[:, : len(exact)].T @ phi
    panel = next(panel for _, panel in moments.panels.of(moments.cells()[0]))
    found = panel[: len(exact)].cpu().double()
    return float((found - exact).norm() / exact.norm())


def _losses_off(learner: Moments, train: Samples) -> float | None:
    """Return the largest relative error of a loss, against sums and solution in float64 there."""
    evening, moments = learner.evened(), learner.moments
    assert evening is not None
    assert moments is not None
    free = free_memory(moments.device)
    if free is not None and Plan(moments.width, len(moments), torch.float64).needed > free:
        return None
    exact = GroupMoments(moments.width, torch.float64, moments.device)
    exact.add(train, learner.net.features)
    problem = evening.problem
    other = RidgeProblem(exact, problem.group.tolist(), problem.label.cpu().numpy(), learner.ridge)
    expected = other.solve(evening.after.weights, slopes=False).losses
    return float((abs(evening.after.losses - expected) / expected).max())


def _product_speed(device: torch.device, dtype: torch.dtype) -> float:
    size = PRODUCT if device.type == "cuda" else 256
    left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))

    def product() -> Tensor:
        found = left.T @ right
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return found

    product()
    start = time.perf_counter()
    product()
    return 2 * size**3 / (time.perf_counter() - start)


def wide_table(costs: Sequence[GpuCost]) -> Table:
    """Make a table of many features, a row for each number."""
    header = ["features", "rows", "sums", "rows per second", "TFLOP/s", "of a large product"]
    header += ["weights", "solutions", "peak GPU memory", "error of sums", "error of losses"]
    return table_of("Many features", header, map(_wide_texts, costs))


def _wide_texts(cost: GpuCost) -> tuple[str, ...]:
    workload = cost.workload
    return (
        f"{workload.width:,}" + (", TF32 allowed" if workload.tf32 else ""),
        f"{workload.rows:,}",
        seconds_text(cost.summing),
        f"{float(three_digits(workload.rows / cost.summing)):,.0f}",
        three_digits(cost.speed / 1e12),
        percent(cost.speed / cost.product),
        seconds_text(cost.solving),
        str(cost.solved),
        _memory(cost),
        _error(cost.sums_off),
        _error(cost.losses_off),
    )


def _memory(cost: GpuCost) -> str:
    return "–" if cost.memory is None else f"{cost.memory:.1f} GiB"


def _error(value: float | None) -> str:
    return "–" if value is None else f"{value:.1e}"


def long_table(costs: Sequence[GpuCost]) -> Table:
    """Make a table of many rows, a row for each kind of features."""
    header = ["features", "rows", "inputs", "fitting the features", "sums", "weights", "in all"]
    header += ["peak GPU memory", "error of sums"]
    return table_of("Embeddings from the host's memory", header, map(_long_texts, costs))


def _long_texts(cost: GpuCost) -> tuple[str, ...]:
    workload = cost.workload
    return (
        f"{workload.width:,}, {'the inputs' if workload.raw else 'relu'}",
        f"{workload.rows:,}",
        f"{workload.inputs:,}",
        *map(seconds_text, (cost.fitting, cost.summing, cost.solving, cost.total)),
        _memory(cost),
        _error(cost.sums_off),
    )


ABOUT = """
Normal clusters, {classes} classes of two groups each, measure `eo`, exact sums in float32. Rows are
in the host's memory, pageable, and go to the GPU part by part while it computes. *Fitting* is one
pass over them for mean and deviation of the inputs, *sums* one for checksums, features and sums
(and whether rows are copies), *weights* all solutions that choose penalty and weights; *solutions*
is their number, without those for the penalty. Everything is timed from rows in memory to the
fitted learner.

Products are in float64, which GPUs for data centres such as the H200 multiply as fast as float32,
unless TF32 is allowed by `torch.backends.cuda.matmul.allow_tf32`, which is off by default and never
changed by faircil.
*Of a large product* is the speed of the sums, half of a symmetric matrix counted, by that of a
product of {product:,}³ in the same arithmetic. *Error of sums* is that of {columns} columns of a
group's second moments, of the same features, against float64 on the CPU (relative, Frobenius
norm); *error of losses* the largest one of a group's loss, against sums and solution in float64,
where these fit.
"""


def _sentences(results: GpuResults) -> Iterator[str]:
    for cost in results.long:
        rows, inputs = cost.workload.rows, cost.workload.inputs
        verdict = ""
        if (rows, inputs) == (10_000_000, 512):
            reached = "reached" if cost.total <= GOAL else "**missed**"
            verdict = f"; the goal of {GOAL:.0f} s is {reached}"
        yield (
            f"{rows:,} × {inputs} embeddings, {_long_texts(cost)[0]}: {seconds_text(cost.total)}"
            f"{verdict}."
        )


def _tables(results: GpuResults) -> list[Table]:
    tables = [wide_table(results.wide)] if results.wide else []
    return tables + ([long_table(results.long)] if results.long else [])


def _text(results: GpuResults, pictures: Mapping[str, str]) -> str:
    del pictures  # there are none
    text = ABOUT.format(classes=CLASSES, product=PRODUCT, columns=COMPARED)
    said = "".join(f"- {sentence}\n" for sentence in _sentences(results))
    return text + (f"\n{said}" if said else "") + sections(_tables(results))


def _rows(results: GpuResults) -> Iterator[dict[str, Any]]:
    for outcome in results.outcomes:
        values = asdict(outcome)
        workload = values.pop("workload")
        for quantity, value in values.items():
            yield workload | {"quantity": quantity, "value": value}


def _line(cost: GpuCost) -> str:
    return (
        f"{cost.workload.rows:,} rows, {cost.workload.width:,} features: fitting "
        f"{seconds_text(cost.fitting)}, sums {seconds_text(cost.summing)}, weights "
        f"{seconds_text(cost.solving)}, peak {_memory(cost)}, errors {_error(cost.sums_off)} and "
        f"{_error(cost.losses_off)}"
    )


GPU_MOMENTS = Benchmark[GpuResults](
    title="Cost of learning from moments on a GPU",
    line=_line,
    document=lambda results: {"costs": [asdict(cost) for cost in results.outcomes]},
    rows=_rows,
    tables=_tables,
    figures=lambda _: {},
    text=_text,
    sentences=_sentences,
)
