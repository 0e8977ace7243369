"""Samples to weight: in memory, or read batch by batch from a dataset or loader.

A dataset may be larger than memory. It is read in order, regardless of its loader's order, so that
weight i belongs to ``dataset[i]``. Only its labels and the statistics are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler

from faircil.compute import CHUNK, chunks_of
from faircil.errors import DataError, UsageError, raise_all
from faircil.samples import Inputs, Samples, rows_of

ROWS = 256  # per batch of a dataset without a loader
PROBE = 8  # samples used to inspect a net
LABELS = ("labels", "label", "y")  # fields of a batch; the first one present is used
SENSITIVE = ("sensitive", "z")
HOW = (
    "pass batch=, a function of a batch that returns (x, y) or (x, y, z), or the names of these "
    "fields"
)

Fields = tuple[Any, Any] | tuple[Any, Any, Any]  # inputs, classes, attribute values
BatchFunction = Callable[[Any], Fields]
Data = Samples | Dataset[Any] | DataLoader[Any] | Sequence[Any]  # what can be weighted


class Part(NamedTuple):
    """Consecutive samples: rows, inputs, classes, (k,)."""

    rows: slice
    x: Any
    y: Tensor


@dataclass
class Stream:
    """n samples that are read again in each pass.

    Parameters
    ----------
    n : int
    read : callable
        Returns an iterator over batches (x, y, z), in order.
    first : callable
        Returns the inputs of the first few samples.
    device : torch.device
        Device to which batches are moved.
    """

    n: int
    read: Callable[[], Iterator[Fields]]
    first: Callable[[], Inputs]
    device: torch.device
    _labels: Samples | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return self.n

    @property
    def labels(self) -> Samples:
        """Classes and attribute values of all samples, without inputs; known after a first pass."""
        if self._labels is None:
            for _ in self._batches():
                pass
        assert self._labels is not None
        return self._labels

    def parts(self, size: int | None = None) -> Iterator[Part]:
        """Yield all samples in order, batch by batch, at most ``size`` at once."""
        for start, x, y in self._batches():
            inputs, labels = on_device(x, self.device), y.to(self.device)
            for rows in chunks_of(len(y), size or len(y)):
                moved = slice(start + rows.start, start + rows.stop)
                whole = rows == slice(0, len(y))
                yield Part(moved, inputs if whole else rows_of(inputs, rows), labels[rows])

    def _batches(self) -> Iterator[tuple[int, Any, Tensor]]:
        """Yield the first row, inputs and classes of each batch; store all labels at the end."""
        start = 0
        ys: list[Tensor] = []
        zs: list[Tensor] = []
        for x, *others in self.read():
            y, *z = (_integers(part, start) for part in others if part is not None)
            Samples(torch.empty(len(y), 0), y, *z)  # checks the shapes
            if (y < 0).any():
                raise DataError(no_class(int(y.min()), f" from number {start} on"))
            if start + len(y) > self.n:
                raise self._unequal(f"more than {self.n}")
            yield start, x, y
            start += len(y)
            ys.append(y)
            zs += z
        if start < self.n:
            raise self._unequal(str(start))
        if zs and len(zs) < len(ys):
            raise DataError(
                "some batches have attribute values and others do not; give all or none"
            )
        values = torch.cat(zs).to(self.device) if zs else None
        self._labels = Samples(torch.empty(start, 0), torch.cat(ys).to(self.device), values)

    def _unequal(self, rows: str) -> DataError:
        return DataError(
            f"the dataset has {self.n} samples and its batches have {rows}, so weights would "
            "belong to other samples; use a collate_fn that makes one row of each sample"
        )


def no_class(label: int, where: str = "") -> str:
    """Return the error message for a sample with a negative class."""
    return (
        f"a sample{where} has class {label}; classes count from 0, leave samples without a class "
        "out"
    )


def open_stream(
    given: Data, batch: BatchFunction | Sequence[Any] | None, device: torch.device
) -> Stream:
    """Open samples, a map-style dataset or a DataLoader of one for reading in order.

    Parameters
    ----------
    given : Samples, dataset or DataLoader
    batch : callable or names, optional
        Definition of a batch; see :func:`fields_of_batch`.
    device : torch.device
        Device of the net.
    """
    if isinstance(given, Samples):
        return Stream(
            len(given), partial(_slices, given), lambda: rows_of(given.x, slice(PROBE)), device
        )
    loader = in_order(given)
    fields = partial(fields_of_batch, batch=batch)

    def first() -> Inputs:
        some = [loader.dataset[i] for i in range(min(PROBE, len(loader.dataset)))]  # type: ignore[arg-type]
        inputs: Inputs = on_device(fields(loader.collate_fn(some))[0], device)
        return inputs

    size = len(loader.dataset)  # type: ignore[arg-type]
    return Stream(size, lambda: map(fields, loader), first, device)


def _slices(samples: Samples) -> Iterator[Fields]:
    for rows in chunks_of(len(samples), CHUNK):
        part = samples.take(rows)
        yield part.x, part.y, part.z


def in_order(given: object) -> DataLoader[Any]:
    """Return a loader that reads each sample of a dataset once, in order.

    Parameters
    ----------
    given : dataset or DataLoader
        The batch size, collate function and workers of a loader are used, its sampler is not.
    """
    loader = given if isinstance(given, DataLoader) else None
    dataset: Any = given if loader is None else loader.dataset
    whole = hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    if isinstance(dataset, IterableDataset | Tensor | str | Mapping) or not whole:
        raise UsageError(
            f"a {type(dataset).__name__} cannot be weighted: its samples are not numbered, and "
            "weight i belongs to dataset[i]; give Samples, a dataset with __getitem__ and __len__, "
            "or a DataLoader of one"
        )
    if loader is None:
        return DataLoader(dataset, ROWS)
    if loader.batch_sampler is None:
        raise UsageError(
            "the DataLoader has batch_size=None, so a dataset's item is a batch and not a sample; "
            "give a DataLoader that makes the batches"
        )
    if isinstance(loader.sampler, SubsetRandomSampler):
        raise UsageError(
            "the DataLoader draws from a part of its dataset, and every sample of a dataset gets a "
            "weight; give a DataLoader of torch.utils.data.Subset(dataset, rows)"
        )
    return DataLoader(
        dataset,
        loader.batch_size or ROWS,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        prefetch_factor=loader.prefetch_factor,
        generator=torch.Generator().manual_seed(0),  # does not advance the loader's own
    )


def fields_of_batch(batch_of: Any, batch: BatchFunction | Sequence[Any] | None = None) -> Fields:
    """Return inputs, classes and attribute values (if any) of a batch.

    Parameters
    ----------
    batch_of : object
        ``(x, y)``, ``(x, y, z)``, or a mapping. In a mapping, classes are ``labels``, ``label`` or
        ``y``; attribute values, if any, are ``sensitive`` or ``z``; all other fields are passed
        to the net by keyword, except that a single input called ``x`` is passed as it is.
    batch : callable or sequence, optional
        A function from a batch to its fields; or names of the fields for x, y and, optionally, z.
        Several names for x are passed to the net by keyword.

    Examples
    --------
    >>> fields_of_batch({"pixels": 1, "age": 2, "label": 3}, ("pixels", "label", "age"))
    (1, 3, 2)
    >>> fields_of_batch({"input_ids": 1, "attention_mask": 2, "labels": 3})
    ({'input_ids': 1, 'attention_mask': 2}, 3, None)
    """
    if callable(batch):
        found = batch(batch_of)
        return found if _is_fields(found) else _refused(found, "the function batch= returned")
    if not isinstance(batch_of, Mapping):
        if batch is None and _is_fields(batch_of):
            return tuple(batch_of)
        return _refused(batch_of, "a batch is")
    if batch is None:
        return _by_name(batch_of)
    x, *others = batch
    several = not isinstance(x, str)
    wanted = [*(x if several else [x]), *others]
    raise_all(
        [
            f"a batch has no field '{name}'; it has {', '.join(map(str, batch_of))}"
            for name in wanted
            if name not in batch_of
        ]
    )
    inputs = {name: batch_of[name] for name in x} if several else batch_of[x]
    return (inputs, *(batch_of[name] for name in others))


def _by_name(batch: Mapping[str, Any]) -> Fields:
    label = next((name for name in LABELS if name in batch), None)
    if label is None:
        return _refused(sorted(map(str, batch)), "a batch has no field 'labels' or 'label' among")
    value = next((name for name in SENSITIVE if name in batch), None)
    inputs = {name: part for name, part in batch.items() if name not in (label, value)}
    x = inputs["x"] if list(inputs) == ["x"] else inputs
    return x, batch[label], None if value is None else batch[value]


def _is_fields(found: object) -> bool:
    return isinstance(found, tuple | list) and len(found) in (2, 3)


def _refused(found: object, what: str) -> Fields:
    items = f" of {len(found)} items" if isinstance(found, tuple | list) else ""
    came = f"{found}" if what.endswith("among") else f"a {type(found).__name__}{items}"
    raise DataError(f"{what} {came}, expected (x, y), (x, y, z) or a mapping; {HOW}")


def _integers(values: Any, start: int) -> Tensor:
    """Return classes or attribute values as int64; ``start`` is the first sample, for errors."""
    try:
        found = torch.as_tensor(values)
        came = str(found.dtype)
    except (TypeError, ValueError):
        found, came = None, f"{values!r}"[:80]
    if found is None or found.is_floating_point() or found.is_complex():
        raise DataError(
            f"classes or attribute values from sample {start} on are {came}, expected integers; "
            f"{HOW}"
        )
    return found.detach().to(torch.int64)


def on_device(x: Any, device: torch.device) -> Any:
    """Return inputs on a device, without fields that are None."""
    if isinstance(x, Tensor):
        return x.to(device)
    if isinstance(x, Mapping):
        return {name: on_device(part, device) for name, part in x.items() if part is not None}
    if isinstance(x, tuple | list):
        return tuple(on_device(part, device) for part in x)
    raise DataError(f"the inputs of a batch have a {type(x).__name__}, expected tensors; {HOW}")


def parts_of(source: Samples | Stream, size: int) -> Iterator[Part]:
    """Yield all samples in order, at most ``size`` at once."""
    if isinstance(source, Stream):
        yield from source.parts(size)
        return
    for rows in chunks_of(len(source), size):
        yield Part(rows, source.x[rows], source.y[rows])


def some_inputs(source: Samples | Stream) -> Inputs:
    """Return the inputs of the first few samples, to inspect a net."""
    return source.first() if isinstance(source, Stream) else source.x[:PROBE]
