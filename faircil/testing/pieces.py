"""The contracts of measures, metrics, datasets, buffer rules, losses and solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from itertools import chain, count as numbers
from typing import Any

import numpy as np
import torch
from torch import Tensor

from faircil.buffer import RULES, BufferRule, ReplayBuffer, RuleFunction
from faircil.counts import Counts, count
from faircil.data.datasets import DATASETS, Dataset, load_dataset
from faircil.data.stream import Parts, TaskStream, shuffled_classes
from faircil.errors import SolverError
from faircil.metrics import METRICS, Metric
from faircil.nets import build_mlp
from faircil.registry import Registry
from faircil.samples import Samples, group_counts
from faircil.weighting.groups import Groups
from faircil.weighting.losses import LOSSES, Loss, LossFunction
from faircil.weighting.measures import MEASURES, Measure, MeasureFunction
from faircil.weighting.program import PROOF, Solution, WeightProgram
from faircil.weighting.solver import SOLVERS, Solver, SolverFunction, solve
from faircil.weighting.weights import FairSampleWeights

Named = tuple[str, Callable[[], None]]  # a promise, and what checks it


def demand(condition: object, broken: str) -> None:
    """Raise an AssertionError that says what is broken unless the condition holds."""
    if not condition:
        raise AssertionError(broken)


def fulfil(what: str, promises: Iterable[Named]) -> None:
    """Check all promises, and raise one AssertionError that lists those that are broken."""
    broken: dict[str, None] = {}
    for promise, check in promises:
        try:
            check()
        except AssertionError as error:
            broken[f"{promise}: {error}"] = None
        except Exception as error:  # whatever a piece of others raises
            broken[f"{promise}: {type(error).__name__}: {error}"] = None
    if broken:
        lines = "".join(f"\n- {line}" for line in broken)
        raise AssertionError(f"{what} breaks {len(broken)} promise(s) of its contract:{lines}")


def promise(check: Callable[..., object]) -> str:
    """Return what a check is about, from its docstring."""
    return (check.__doc__ or "").partition("\n")[0].removesuffix(".").lower()


_numbers = numbers(1)


@contextmanager
def known(registry: Registry[Any], piece: object) -> Iterator[str]:
    """Give a piece a name for the time of its checks; a name is taken as it is."""
    if isinstance(piece, str):
        registry.find(piece)
        yield piece
        return
    name = f"checked-{next(_numbers)}"
    with registry.temporarily(name, piece):
        yield name


def title(piece: object) -> str:
    """Return what a message calls a piece."""
    return piece if isinstance(piece, str) else getattr(piece, "__name__", type(piece).__name__)


# Measures.


def example_groups(*, by_attribute: bool, seen: bool) -> Iterator[Groups]:
    """Yield groups such as runs have: one, several classes, values that are missing, many."""
    for keys in (
        [(0, 0)],
        [(0, 0), (1, 0)],
        [(0, 0), (0, 1), (1, 0)],
        [(y, z) for y in range(4) for z in range(3) if (y, z) != (2, 1)],
    ):
        chosen = keys if by_attribute else sorted({(y, 0) for y, _ in keys})
        label, attribute = np.array(chosen, dtype=np.int64).T
        samples = 10 + 7 * label + 3 * attribute
        totals = {value: samples[attribute == value].sum() for value in attribute}
        yield Groups(
            label=label,
            attribute=attribute,
            current=label == label.max(),
            size=np.minimum(samples, 12),
            seen=samples if seen else None,
            seen_with_attribute=np.array([totals[v] for v in attribute]) if seen else None,
        )


def gives_a_matrix(row: Measure) -> None:
    """It gives finite numbers of shape (rows, groups) for any groups, the same each time."""
    row = _favouring(row)
    for groups in example_groups(by_attribute=row.by_attribute, seen=row.needs_seen):
        before = deepcopy(groups)
        first, again = (np.asarray(row(groups), dtype=np.float64) for _ in range(2))
        there = f"with {len(groups)} group(s)"
        shape = f"got shape {first.shape} {there}"
        demand(first.ndim == 2 and first.shape[1] == len(groups), shape)
        demand(np.isfinite(first).all(), f"it has NaN or infinite entries {there}")
        demand(np.array_equal(first, again), f"two calls differ {there}")
        same = all(
            np.array_equal(getattr(groups, n), v) for n, v in vars(before).items() if v is not None
        )
        demand(same, f"it changes the groups {there}")


def weighs_with_a_measure(row: Measure) -> None:
    """It gives weights in [0, 1] whose objective is at least the proven bound, if a sum counts."""
    if row.combine == "sum":
        _weighs(FairSampleWeights(measure=_favouring(row), alpha=0.1))


def _favouring(row: Measure) -> Measure:
    """Return the measure with favoured classes, if it needs any."""
    return row.favouring((0, 2)) if row.needs_favoured else row


def names_a_metric(row: Measure) -> None:
    """It has a summary, and its metrics exist."""
    demand(row.summary, "it has no summary: give the function a docstring")
    for name in (row.disparity, row.shown):
        demand(name in METRICS, f"'{name}' is no metric; see `faircil list metrics`")


def check_measure(measure: str | Measure | MeasureFunction) -> None:
    """Check that a measure keeps its contract."""
    with known(MEASURES, measure) as name:
        _check(f"measure {title(measure)}", MEASURE_CHECKS, MEASURES[name])


MEASURE_CHECKS: tuple[Callable[[Measure], None], ...] = (
    gives_a_matrix,
    weighs_with_a_measure,
    names_a_metric,
)

# Metrics.


def example_counts(*, perfect: bool = False) -> Iterator[tuple[str, Counts]]:
    """Yield counts such as runs have, with what is special about them."""
    rng = np.random.default_rng(0)

    def drawn(classes: int, values: int | None, before: Counts | None = None) -> Counts:
        y = np.arange(60) % classes
        z = None if values is None else rng.integers(min(values, 0), max(values, 1), 60)
        guess = y if perfect else np.where(rng.random(60) < 0.5, y, rng.integers(0, classes, 60))
        return count(y, guess, task=y // 2, sensitive=z, before=before, favoured=[0])

    yield "one class", drawn(1, 2)
    yield "two classes", drawn(2, 2)
    yield "several tasks, without the counts before", drawn(5, 3)
    yield "several tasks, with the counts before", drawn(6, 3, drawn(4, 3, drawn(2, 3)))
    yield "no attribute", drawn(4, None)
    yield "all attribute values unknown", drawn(4, -1)
    yield "favoured classes unknown", replace(drawn(4, 2), favoured=None)


def gives_a_number(row: Metric) -> None:
    """It gives a finite number within its limits, or None, for any counts, the same each time."""
    low, high = row.limits
    for what, counts in example_counts():
        before = deepcopy(counts)
        value, again = row.of(counts), row.of(counts)
        demand(value == again, f"two calls differ ({what}): {value} and {again}")
        kept = {name: array for name, array in vars(before).items() if name != "before"}
        same = all(np.array_equal(getattr(counts, name), array) for name, array in kept.items())
        demand(same, f"it changes the counts ({what})")
        if value is None:
            continue
        demand(isinstance(value, float), f"{value!r} is no float ({what})")
        demand(np.isfinite(value), f"it gives {value} ({what}); None is for what is undefined")
        demand(low is None or value >= low, f"it gives {value}, below its limit {low} ({what})")
        demand(high is None or value <= high, f"it gives {value}, above its limit {high} ({what})")


def needs_what_it_compares(row: Metric) -> None:
    """It is None without the attribute whose values it compares."""
    for what, counts in example_counts():
        if row.by_attribute and "attribute" in what:
            value = row.of(counts)
            demand(value is None, f"it gives {value} ({what}); compares='{row.compares}' needs it")


def perfect_is_best(row: Metric) -> None:
    """No predictions are better than perfect ones, unless shares of predictions are compared."""
    if not (row.higher_is_better or row.is_disparity) or row.compares == "value":
        return
    pairs = zip(example_counts(), example_counts(perfect=True), strict=True)
    for (what, counts), (_, perfect) in pairs:
        value, best = row.of(counts), row.of(perfect)
        if value is not None and best is not None:
            better = value > best if row.higher_is_better else value < best
            better_is = "higher" if row.higher_is_better else "lower"
            demand(
                not better, f"wrong ones have {value}, perfect {best}, {better_is} better ({what})"
            )


def can_be_shown(row: Metric) -> None:
    """It has a title, and a summary that is a sentence without its period."""
    demand(row.title, "it has no title")
    demand(row.summary, "it has no summary")
    demand(not row.summary.endswith("."), "its summary ends with a period")


METRIC_CHECKS: tuple[Callable[[Metric], None], ...] = (
    gives_a_number,
    needs_what_it_compares,
    perfect_is_best,
    can_be_shown,
)


def check_metric(metric: str | Metric) -> None:
    """Check that a metric keeps its contract."""
    with known(METRICS, metric) as name:
        _check(f"metric {title(metric)}", METRIC_CHECKS, METRICS[name])


# Losses.


def _logits(n: int, classes: int, size: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n + classes)
    logits = size * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(classes, (n,), generator=generator)


def returns_losses_and_gradients(row: Loss) -> None:
    """It returns losses, (n,), and gradients, (n, classes), finite and of the logits' type."""
    for n, classes in ((0, 3), (1, 1), (7, 4)):
        for dtype in (torch.float32, torch.float64):
            logits, y = _logits(n, classes, 3.0, dtype)
            kept = logits.clone()
            losses, gradients = row.function(logits, y)
            there = f"with logits of shape {(n, classes)}"
            demand(losses.shape == (n,), f"losses have shape {tuple(losses.shape)} {there}")
            demand(gradients.shape == (n, classes), f"gradients: {tuple(gradients.shape)} {there}")
            demand(losses.dtype == gradients.dtype == dtype, f"the type is not {dtype} {there}")
            finite = torch.isfinite(losses).all() and torch.isfinite(gradients).all()
            demand(finite, f"it has NaN or infinite values {there}")
            demand(torch.equal(logits, kept), f"it changes the logits {there}")


def gradient_is_that_of_the_loss(row: Loss) -> None:
    """The gradient is that of the loss, by central differences, and of one sample only."""
    for classes in (2, 5):
        logits, y = _logits(6, classes, 1.0, torch.float64)
        gradients, step = row.function(logits.clone(), y)[1], 1e-5
        for output in range(classes):
            change = torch.zeros(classes, dtype=torch.float64)
            change[output] = step
            up, down = (row.function(logits + sign * change, y)[0] for sign in (1, -1))
            slow = (up - down) / (2 * step)
            error = float((gradients[:, output] - slow).abs().max())
            demand(error < 1e-6 * (1 + float(slow.abs().max())), f"it is off by {error:.2g}")
        alone = row.function(logits[:1].clone(), y[:1])[0]
        whole = row.function(logits.clone(), y)[0][:1]
        demand(torch.allclose(alone, whole, rtol=1e-12), "a loss depends on other samples")


def weighs_with_a_loss(row: Loss) -> None:
    """It gives weights in [0, 1] whose objective is at least the proven bound."""
    for gradient in ("last", "all"):
        _weighs(FairSampleWeights("eer", alpha=0.1, loss=row, gradient=gradient))


LOSS_CHECKS: tuple[Callable[[Loss], None], ...] = (
    returns_losses_and_gradients,
    gradient_is_that_of_the_loss,
    weighs_with_a_loss,
)


def check_loss(loss: str | Loss | LossFunction) -> None:
    """Check that a loss of the program keeps its contract."""
    with known(LOSSES, loss) as name:
        _check(f"loss {title(loss)}", LOSS_CHECKS, LOSSES[name])


def _weighs(weigh: FairSampleWeights) -> None:
    generator = torch.Generator().manual_seed(0)
    net = build_mlp(6, 4, (8,), seed=0).double()

    def samples(classes: tuple[int, ...]) -> Samples:
        y = torch.tensor(classes).repeat(12)
        x = torch.randn(len(y), 6, generator=generator, dtype=torch.float64)
        return Samples(x, y, torch.arange(len(y)) // len(classes) % 2)

    seen = {(y, z): 6 for y in range(4) for z in range(2)}
    result = weigh(net, samples((2, 3)), samples((0, 1)), seen=seen)
    weights = result.weights
    demand(((weights >= 0) & (weights <= 1)).all(), "weights are outside [0, 1]")
    demand(result.objective >= result.bound - 1e-9, "the objective is below its proven bound")


# Buffer rules.


def _task() -> Samples:
    """Return samples of groups with 20, 3 and 9 members, mixed; the first input is the number."""
    generator = torch.Generator().manual_seed(0)
    keys = torch.tensor([[0, 0]] * 20 + [[0, 1]] * 3 + [[1, 0]] * 9)
    keys = keys[torch.randperm(len(keys), generator=generator)]
    x = torch.randn(len(keys), 4, generator=generator)
    x[:, 0] = torch.arange(len(keys))
    return Samples(x, keys[:, 0], keys[:, 1])


def _kept(row: BufferRule, quota: int, task: Samples, weights: Tensor | None = None) -> Samples:
    generator = torch.Generator().manual_seed(1)
    features = task.x[:, 1:].clone
    kept = ReplayBuffer(quota).with_task(task, weights, generator, row.order, features).samples
    assert kept is not None
    return kept


def keeps_the_quota_of_every_group(row: BufferRule) -> None:
    """It keeps the quota of every group, all of a smaller one, and nothing twice."""
    task = _task()
    for quota in (1, 5, 100):
        kept = _kept(row, quota, task)
        expected = {key: min(quota, n) for key, n in group_counts(task).items()}
        found = group_counts(kept)
        demand(found == expected, f"of a quota of {quota} it keeps {found}, by group")
        numbers = kept.x[:, 0].long()
        demand(len(set(numbers.tolist())) == len(kept), "a sample is there twice")
        demand(torch.equal(task.keys()[numbers], kept.keys()), "a sample has another group")


def draws_by_the_generator(row: BufferRule) -> None:
    """It gives the same samples for the same generator, and leaves samples and weights alone."""
    task, weights = _task(), torch.linspace(0, 1, 32)
    before, kept_weights = deepcopy(task), weights.clone()
    first, again = (_kept(row, 5, task, weights) for _ in range(2))
    demand(torch.equal(first.x, again.x), "two draws with the same seed differ")
    same = torch.equal(task.x, before.x) and torch.equal(weights, kept_weights)
    demand(same, "it changes the samples or the weights")


BUFFER_CHECKS: tuple[Callable[[BufferRule], None], ...] = (
    keeps_the_quota_of_every_group,
    draws_by_the_generator,
)


def check_buffer_rule(rule: str | BufferRule | RuleFunction) -> None:
    """Check that a rule of the buffer keeps its contract."""
    with known(RULES, rule) as name:
        _check(f"buffer rule {title(rule)}", BUFFER_CHECKS, RULES[name])


# Datasets.


def _samples(stream: TaskStream) -> list[Samples]:
    parts = chain.from_iterable((task.train, task.test) for task in stream.tasks)
    return [samples for samples in parts if len(samples)]


def shares_out_its_classes(name: str) -> None:
    """Its tasks share out the classes, each with training and test samples.

    If rows are arranged anew, those of a class may come in any task; a stream itself checks that
    each class has some where it is new.
    """
    stream, row = load_dataset(name, 0), DATASETS[name]
    classes = list(chain.from_iterable(task.classes for task in stream.tasks))
    demand(sorted(classes) == list(range(stream.n_classes)), f"its tasks have classes {classes}")
    if row.arrange is not None:
        return
    demand(classes == sorted(classes), f"its tasks have the classes in the order {classes}")
    for task in stream.tasks:
        same = set(task.classes) == set(task.train.y.tolist()) == set(task.test.y.tolist())
        demand(same, f"a class of {task.classes} lacks training or test samples")
    sizes = {len(task.classes) for task in stream.tasks[:-1]} or {row.classes_per_task}
    demand(sizes == {row.classes_per_task}, f"its tasks have {sizes} classes")


def has_inputs_for_a_net(name: str) -> None:
    """Its inputs are finite float32 numbers of one width, or numbers of its texts."""
    stream = load_dataset(name, 0)
    parts = _samples(stream)
    demand((stream.texts is not None) == DATASETS[name].texts, "its row is wrong about texts")
    if stream.texts is not None:
        numbers = torch.cat([samples.x for samples in parts])
        demand(numbers.dtype == torch.int64, f"numbers of texts are {numbers.dtype}")
        all_of_them = sorted(numbers.tolist()) == list(range(len(stream.texts)))
        demand(all_of_them, "its samples are not the numbers of its texts, each once")
        return
    widths = {tuple(samples.x.shape[1:]) for samples in parts}
    demand(len(widths) == 1, f"its inputs have the shapes {widths}")
    for samples in parts:
        demand(samples.x.dtype == torch.float32, f"its inputs are {samples.x.dtype}")
        demand(torch.isfinite(samples.x).all(), "its inputs have NaN or infinite values")
        largest = float(samples.x.abs().max())
        demand(largest < 50, f"an input is {largest:.3g}; scale inputs to about 1")


def names_its_attribute(name: str) -> None:
    """Its attribute is that of its row, and every value has a name."""
    stream, stated = load_dataset(name, 0), DATASETS[name].attribute
    demand(stream.attribute == stated, f"its row says {stated}, the data {stream.attribute}")
    codes: set[int] = set()
    for samples in _samples(stream):
        same = (samples.z is None) == (stream.attribute is None)
        demand(same, "samples have an attribute without a name, or a name without attribute")
        codes |= set() if samples.z is None else set(samples.z.flatten().tolist())
    named = set(range(len(stream.attribute_values)))
    demand(codes == named, f"values {sorted(codes)} occur, {sorted(named)} have names")


def same_seed_same_data(name: str) -> None:
    """The same seed gives the same data, and the order of classes can be drawn."""
    one, again = load_dataset(name, 0), load_dataset(name, 0)
    for mine, yours in zip(_samples(one), _samples(again), strict=True):
        same = torch.equal(mine.x, yours.x) and torch.equal(mine.keys(), yours.keys())
        demand(same and one.texts == again.texts, "two calls with seed 0 differ")
    shuffled = load_dataset(name, 1, shuffle_classes=True)
    order = list(chain.from_iterable(task.classes for task in shuffled.tasks))
    demand(order == shuffled_classes(one.n_classes, 1), "its classes cannot be shuffled")
    demand(shuffled.class_names == one.class_names, "its class names depend on the seed")


def summarizes_the_dataset(name: str) -> None:
    """Its row has a summary."""
    demand(DATASETS[name].summary, "it has no summary: give the function a docstring")


DATASET_CHECKS: tuple[Callable[[str], None], ...] = (
    summarizes_the_dataset,
    shares_out_its_classes,
    has_inputs_for_a_net,
    names_its_attribute,
    same_seed_same_data,
)


def check_dataset(dataset: str | Dataset | Callable[[int], Parts]) -> None:
    """Check that a dataset keeps its contract; loads it a few times."""
    with known(DATASETS, dataset) as name:
        _check(f"dataset {title(dataset)}", DATASET_CHECKS, name)


# Solvers.


def example_programs() -> Iterator[WeightProgram]:
    """Yield small programs: few and many rows, rows without a difference, floors that bind."""
    rng = np.random.default_rng(0)
    for k, m, n, scale in [
        (0, 0, 1, 1.0), (1, 0, 3, 1.0), (0, 2, 9, 1e-2), (3, 1, 12, 1.0), (4, 2, 40, 1e-3),
        (6, 3, 30, 10.0), (2, 1, 300, 1e-2), (5, 3, 400, 0.1), (8, 2, 5000, 1e-2),
    ]:  # fmt: skip
        for _ in range(3):
            program = WeightProgram(
                rng.uniform(-1, 1, (k, n)) * scale,
                rng.uniform(-1, 1, k) * rng.choice([0, scale, 1]),
                rng.uniform(-1, 1, n) * rng.choice([0, 0.1 * scale, scale]),
                rng.uniform(-0.5, 1, (m, n)) * scale,
                rng.uniform(0, 1, m) * rng.choice([0, scale, 1]),
            )
            yield program
            yield program.columns(np.arange(n) // 3)


def check_solution(program: WeightProgram, solution: Solution, *, exact: bool = True) -> None:
    """Check all that a solution promises.

    Weights in [0, 1] that keep the floors, their exact objective, and a bound that the dual proves.
    An exact solution is proven optimal, and a vertex.
    """
    weights, objective, bound = solution.weights, solution.objective, solution.bound
    digits = 1 + abs(objective)
    demand(weights.shape == (len(program),), f"weights have shape {weights.shape}")
    demand(np.isfinite(weights).all(), "weights are not finite")
    demand(weights.min() >= 0 and weights.max() <= 1, "weights are outside [0, 1]")
    broken = program.violation(weights)
    demand(broken <= 1e-9, f"a floor is broken by {broken:.2g}")
    value = program.objective(weights)
    demand(abs(objective - value) <= 1e-12 * (1 + abs(value)), f"{objective} is not the objective")
    proven = program.bound(solution.dual)
    demand(
        abs(bound - proven) <= 1e-9 * (1 + abs(proven)), f"the dual proves {proven}, not {bound}"
    )
    gap = solution.gap
    demand(gap >= -PROOF * digits, f"the bound is {-gap:.2g} above the objective")
    rng = np.random.default_rng(0)
    for other in (np.zeros_like(weights), np.ones_like(weights), np.full_like(weights, 0.5)):
        for candidate in (other, other * rng.random(len(weights))):
            if program.violation(candidate) == 0:
                least = program.objective(candidate)
                demand(bound <= least + 1e-12 * digits, "a feasible point is below the bound")
                better = objective <= least + 1e-9 * digits
                demand(better or not exact, "a simple feasible point is better")
    if exact:
        demand(gap <= PROOF * digits, f"optimality is not proven: the gap is {gap:.2g}")
        fractional = int(((weights > 1e-9) & (weights < 1 - 1e-9)).sum())
        rows = len(program.gap_rows) + len(program.floor_rows)
        demand(fractional <= rows, f"{fractional} weights are fractional with {rows} rows")


def solves_small_programs(row: Solver) -> None:
    """Its solutions keep their promises, and an exact solver finds the optimum."""
    for program in example_programs():
        before = deepcopy(program)
        solution = row.solve(program)
        rows = f"{len(program.gap_rows)} gaps, {len(program.floor_rows)} floors"
        size = f"{len(program)} weights, {rows}"
        try:
            check_solution(program, solution, exact=row.exact)
        except AssertionError as error:
            raise AssertionError(f"{error} ({size})") from None
        optimum = solve(program, "exact").objective
        digits = 1 + abs(optimum)
        demand(solution.bound <= optimum + 1e-9 * digits, f"the bound is not valid ({size})")
        off = solution.objective - optimum
        demand(off >= -1e-8 * digits, f"its objective is below the optimum ({size})")
        demand(not row.exact or off <= 1e-8 * digits, f"it is {off:.2g} above the optimum ({size})")
        same = all(
            np.array_equal(getattr(program, name), array) for name, array in vars(before).items()
        )
        demand(same, f"it changes the program ({size})")


def refuses_impossible_floors(row: Solver) -> None:
    """An exact solver raises SolverError where no weights keep the floors."""
    floor = np.full((1, 3), -1 / 3)
    program = WeightProgram(np.ones((1, 3)), np.ones(1), np.zeros(3), floor, np.array([-2.0]))
    if row.exact:
        try:
            row.solve(program)
        except SolverError:
            return
        raise AssertionError("it returns weights")


SOLVER_CHECKS: tuple[Callable[[Solver], None], ...] = (
    solves_small_programs,
    refuses_impossible_floors,
)


def check_solver(solver: str | Solver | SolverFunction) -> None:
    """Check that a solver keeps its contract; a bare function is taken as an exact one."""
    with known(SOLVERS, solver) as name:
        _check(f"solver {title(solver)}", SOLVER_CHECKS, SOLVERS[name])


def _check(what: str, checks: Iterable[Callable[..., None]], subject: object) -> None:
    fulfil(what, [(promise(check), partial(check, subject)) for check in checks])
