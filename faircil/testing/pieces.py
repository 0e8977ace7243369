"""The contracts of metrics, buffer rules and datasets, and how contracts are checked."""

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
from faircil.metrics import METRICS, Metric
from faircil.registry import Registry
from faircil.samples import Samples, group_counts

Named = tuple[str, Callable[[], None]]  # a promise, and its check


def demand(condition: object, broken: str) -> None:
    """Raise an AssertionError that describes what is broken, unless the condition holds."""
    if not condition:
        raise AssertionError(broken)


def fulfil(what: str, promises: Iterable[Named]) -> None:
    """Check all promises; raise a single AssertionError that lists the broken ones."""
    broken: dict[str, None] = {}
    for promise, check in promises:
        try:
            check()
        except AssertionError as error:
            broken[f"{promise}: {error}"] = None
        except Exception as error:  # a user's piece may raise anything
            broken[f"{promise}: {type(error).__name__}: {error}"] = None
    if broken:
        lines = "".join(f"\n- {line}" for line in broken)
        raise AssertionError(f"{what} breaks {len(broken)} promise(s) of its contract:{lines}")


def promise(check: Callable[..., object]) -> str:
    """Return a description of a check, from its docstring."""
    return (check.__doc__ or "").partition("\n")[0].removesuffix(".").lower()


def check_each(what: str, checks: Iterable[Callable[..., None]], subject: object) -> None:
    """Check the promises of a piece, each by a separate function."""
    fulfil(what, [(promise(check), partial(check, subject)) for check in checks])


_numbers = numbers(1)


@contextmanager
def known(registry: Registry[Any], piece: object) -> Iterator[str]:
    """Register a piece under a name during its checks; a name is used as it is."""
    if isinstance(piece, str):
        registry.find(piece)
        yield piece
        return
    name = f"checked-{next(_numbers)}"
    with registry.temporarily(name, piece):
        yield name


def title(piece: object) -> str:
    """Return the name of a piece for messages."""
    return piece if isinstance(piece, str) else getattr(piece, "__name__", type(piece).__name__)


# Metrics.


def example_counts(*, perfect: bool = False) -> Iterator[tuple[str, Counts]]:
    """Yield counts as in runs, with a description of each."""
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
        demand(isinstance(value, float), f"{value!r} is not a float ({what})")
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
    """Check that a metric fulfils its contract."""
    with known(METRICS, metric) as name:
        check_each(f"metric {title(metric)}", METRIC_CHECKS, METRICS[name])


# Buffer rules.


def _task() -> Samples:
    """Return samples of groups with 20, 3 and 9 members, mixed; the first input is the row."""
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
        demand(len(set(numbers.tolist())) == len(kept), "a sample occurs twice")
        demand(torch.equal(task.keys()[numbers], kept.keys()), "a sample has the wrong group")


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
    """Check that a buffer rule fulfils its contract."""
    with known(RULES, rule) as name:
        check_each(f"buffer rule {title(rule)}", BUFFER_CHECKS, RULES[name])


# Datasets.


def _samples(stream: TaskStream) -> list[Samples]:
    parts = chain.from_iterable((task.train, task.test) for task in stream.tasks)
    return [samples for samples in parts if len(samples)]


def shares_out_its_classes(name: str) -> None:
    """Its tasks share out the classes, each with training and test samples.

    If rows are rearranged, those of a class may come in any task; a stream itself checks that
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
    """Check that a dataset fulfils its contract; loads it several times."""
    with known(DATASETS, dataset) as name:
        check_each(f"dataset {title(dataset)}", DATASET_CHECKS, name)
