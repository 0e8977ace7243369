"""Texts and images as inputs, for the tasks of a stream and for later rows of a model.

An *item* is a text, or the path of an image file. A frozen encoder computes a vector for each item.
Vectors are standardised with the first task's training rows, since later tasks are unknown when it
is learned. An encoder that is fine-tuned takes tokens, and a net that learns from images takes
pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import torch
from pydantic import BaseModel
from torch import Tensor

from faircil.cache import EmbeddingProgress, Rows, cache_folder
from faircil.data.own import OwnData
from faircil.data.stream import Integers, TaskStream
from faircil.data.table_columns import text_mistakes
from faircil.errors import DataError, UsageError, raise_all, shortened
from faircil.files import expanded
from faircil.samples import Samples
from faircil.text.embeddings import embed
from faircil.text.encoders import PACKAGES, content_digest, find_folder, kept_encoder
from faircil.text.options import TextOptions
from faircil.text.passes import FINE_TUNED as FIRST_TOKEN
from faircil.text.tokens import odd_notes, tokenize
from faircil.vision.checkpoints import PACKAGED, encoder_digest, load_image_encoder
from faircil.vision.picture_inputs import ImageOptions, embed_images, pixel_inputs
from faircil.vision.pictures import AUGMENTS

Medium = Literal["text", "images"]
MEDIA: Mapping[Medium, type[BaseModel]] = {"text": TextOptions, "images": ImageOptions}
MediaOptions = TextOptions | ImageOptions
Progress = Callable[[EmbeddingProgress], None]
ROUNDING = 1e-5  # relative to the largest value: smaller variation counts as constant


def digest_of(options: MediaOptions) -> str | None:
    """Return the hash of the encoder's files; None if inputs are pixels."""
    if isinstance(options, TextOptions):
        return content_digest(find_folder(options.encoder))
    return None if options.pixels else encoder_digest(options.image_encoder)


@dataclass(frozen=True)
class ItemVectors:
    """Inputs of n items, not standardised.

    Parameters
    ----------
    x : ndarray of float32, shape (n · copies, d)
        Copies of an item are consecutive.
    notes : tuple of str
        Notes for the user.
    """

    x: Rows
    notes: tuple[str, ...]


def item_vectors(
    items: Sequence[str],
    options: MediaOptions,
    *,
    augmented: bool = False,
    device: torch.device | str = "cpu",
    progress: Progress = lambda _: None,
) -> ItemVectors:
    """Return embeddings of texts or images by a frozen encoder, or the pixels of images.

    Parameters
    ----------
    items : sequence of str, length n
        Texts, or paths of image files.
    options : TextOptions or ImageOptions
    augmented : bool
        Whether to return all copies of each image for training, instead of the image only.
    device : torch.device or str
        Device for embeddings that are not cached.
    progress : callable
    """
    said: list[str] = []
    if isinstance(options, TextOptions):
        check_pooling(options)
        found = embed(
            items,
            kept_encoder(options.encoder),
            pooling=options.pool,
            max_tokens=options.max_tokens,
            precision=options.precision,
            device=device,
            cache=cache_folder(),
            progress=progress,
            report=said.append,
        )
        return ItemVectors(found.vectors, (*odd_notes(found.odd, options.max_tokens), *said))
    copies = AUGMENTS[options.augment if augmented else "none"]
    if options.pixels:
        return ItemVectors(pixel_inputs(items, options, copies), ())
    vectors = embed_images(
        items,
        load_image_encoder(options.image_encoder),
        options,
        copies=copies,
        device=device,
        cache=cache_folder(),
        progress=progress,
        report=said.append,
    )
    return ItemVectors(vectors, tuple(said))


def image_of(options: MediaOptions) -> tuple[int, int, int] | None:
    """Return channels, height and width, if inputs are pixels."""
    return options.image if isinstance(options, ImageOptions) else None


def copies_of(options: MediaOptions) -> int:
    """Return the number of inputs of each training item."""
    return options.copies if isinstance(options, ImageOptions) else 1


@dataclass(frozen=True)
class Standard:
    """Mean and standard deviation of each coordinate, (d,) each; None: inputs stay as they are."""

    shift: Tensor | None = None
    scale: Tensor | None = None

    @classmethod
    def of(cls, known: Tensor) -> Standard:
        """Return mean and standard deviation of vectors (n, d)."""
        spread = known.std(dim=0, correction=0)
        # Otherwise, coordinates that are constant up to rounding would be amplified.
        varies = spread > ROUNDING * known.abs().amax(dim=0)
        return cls(known.mean(dim=0), torch.where(varies, spread, 1))

    def apply(self, vectors: Tensor) -> Tensor:
        """Standardise vectors (n, d), in place."""
        if self.shift is None or self.scale is None:
            return vectors
        return vectors.sub_(self.shift).div_(self.scale)


def encoded(
    stream: TaskStream,
    options: MediaOptions,
    *,
    column: str | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = lambda _: None,
) -> TaskStream:
    """Encode the texts or images of a stream that occur in its tasks.

    Parameters
    ----------
    stream : TaskStream
        A stream with texts, or with files.
    options : TextOptions or ImageOptions
    column : str, optional
        Column of the user's table that has the texts or images. If given, the stream gets an
        encoder for further rows.
    device : torch.device or str
        Device for embeddings that are not cached.
    progress : callable
        Receives the progress of embedding.

    Returns
    -------
    TaskStream
        A sample's ``x`` is a row of token ids, int32 (L,), if the encoder is fine-tuned; pixels,
        float32 (3 · S · S,), without an image encoder; else an embedding, float32 (d,),
        standardised with the first task's training samples.
    """
    training = torch.cat([task.train.x for task in stream.tasks])
    used, places = _used(stream, torch.cat([training, *(task.test.x for task in stream.tasks)]))
    if isinstance(options, TextOptions) and options.finetune:
        check_pooling(options)
        tokens = tokenize(used, kept_encoder(options.encoder), options.max_tokens)
        whole = (tokens.ids, places)
        return _with_inputs(stream, whole, whole, odd_notes(tokens.odd, options.max_tokens))
    found = item_vectors(used, options, device=device, progress=progress)
    whole = (torch.from_numpy(found.x), places)
    standard = Standard()
    if image_of(options) is None:
        standard = Standard.of(whole[0].index_select(0, places[stream.tasks[0].train.x]))
    standard.apply(whole[0])
    if column is not None:
        stream = replace(stream, encoder=item_encoder(column, options, standard))
    copies = copies_of(options)
    if copies == 1:
        return _with_inputs(stream, whole, whole, found.notes)
    # Only training images have further copies.
    trained, places = _used(stream, training)
    more = item_vectors(trained, options, augmented=True, device=device, progress=progress)
    with_copies = (standard.apply(torch.from_numpy(more.x)), places)
    return _with_inputs(stream, with_copies, whole, found.notes, copies)


def _used(stream: TaskStream, numbers: Tensor) -> tuple[list[str], Tensor]:
    """Return the items with these numbers, each once, and the index of each item among them."""
    items = stream.texts or stream.files or ()
    used = torch.unique(numbers)
    places = torch.full((len(items),), -1)
    places[used] = torch.arange(len(used))
    return [items[number] for number in used.tolist()], places


def _with_inputs(
    stream: TaskStream,
    training: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    notes: Sequence[str],
    copies: int = 1,
) -> TaskStream:
    """Return the stream with inputs, given those of each part and the indices of its items."""

    def with_inputs(samples: Samples, inputs: Tensor, places: Tensor, copies: int = 1) -> Samples:
        rows = places[samples.x].repeat_interleave(copies) * copies
        rows += torch.arange(copies).repeat(len(samples))
        repeated = samples.take(torch.arange(len(samples)).repeat_interleave(copies))
        return replace(repeated, x=inputs.index_select(0, rows))

    return replace(
        stream,
        tasks=tuple(
            replace(
                task,
                train=with_inputs(task.train, *training, copies),
                test=with_inputs(task.test, *test),
            )
            for task in stream.tasks
        ),
        notes=(*stream.notes, *notes),
        texts=None,
        files=None,
        copies=stream.copies * copies,
    )


def check_pooling(options: TextOptions) -> None:
    """Refuse pooling by the first token if it does not depend on the rest of the text."""
    if options.pool == FIRST_TOKEN and not kept_encoder(options.encoder).bidirectional:
        raise UsageError(
            f"encoder '{options.encoder}' reads from left to right, so its first token, which "
            "pooling=cls takes for the text, knows nothing of it; use `pooling=mean`"
        )


@dataclass(frozen=True)
class ItemEncoder:
    """Turns a column of texts, or of paths of images, into inputs, for a model.

    The encoder itself is not stored: its name identifies its files, and a hash detects changes.

    Parameters
    ----------
    column : str
    options : TextOptions or ImageOptions
    digest : str or None
        Hash of the encoder's files; None if inputs are pixels.
    standard : Standard
    notes : tuple of str
        Notes for the user on the inputs.
    """

    column: str
    options: MediaOptions
    digest: str | None = None
    standard: Standard = Standard()
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [self.column]

    @property
    def width(self) -> int:
        """Number of inputs per row."""
        if self.standard.shift is not None:
            return len(self.standard.shift)
        return prod(self.image or ())

    @property
    def images(self) -> bool:
        """Whether items are images."""
        return isinstance(self.options, ImageOptions)

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Channels, height and width, if inputs are pixels."""
        return image_of(self.options)

    @property
    def copies(self) -> int:
        """Number of training inputs per row."""
        return copies_of(self.options)

    def check(self, table: pd.DataFrame) -> list[str]:
        """Check a table; return notes, of which there are none.

        Raises
        ------
        DataError
            If the column is missing, or has gaps or values of another type.
        """
        kind = "image" if self.images else "text"
        if self.column not in table:
            raise DataError(
                f"the table has no column '{self.column}', whose {kind}s the model learned; "
                f"it has {shortened([str(name) for name in table.columns])}"
            )
        raise_all(text_mistakes(table[self.column], kind), DataError)
        return []

    def inputs(
        self,
        table: pd.DataFrame,
        path: str | Path = "",
        *,
        augmented: bool = False,
        device: torch.device | str = "cpu",
        progress: Progress = lambda _: None,
    ) -> Rows:
        """Return the inputs of rows, (n, d), or all copies for training, (n · copies, d).

        Parameters
        ----------
        table : DataFrame, shape (n, columns)
        path : str or Path
            Path of the table; paths of images are relative to its folder.
        augmented, device, progress
            See :func:`item_vectors`.

        Raises
        ------
        DataError
            If the encoder's files on this machine are not those of the fit.
        """
        self._check_encoder()
        items = items_of(self, table[self.column], path)
        found = item_vectors(
            items, self.options, augmented=augmented, device=device, progress=progress
        )
        return self.standard.apply(torch.from_numpy(found.x)).numpy()

    def _check_encoder(self) -> None:
        found = digest_of(self.options)
        if found == self.digest:
            return
        name = getattr(self.options, "image_encoder", None) or getattr(self.options, "encoder", "")
        raise DataError(
            f"the model was fitted with encoder '{name}' of the hash {str(self.digest)[:12]}, and "
            f"the files there now have {str(found)[:12]}, so inputs would differ in meaning; "
            "restore the earlier files, or fit a new model"
        )


def items_of(encoder: ItemEncoder, column: pd.Series, path: str | Path) -> tuple[str, ...]:
    """Return the texts of a column (n,), or the paths of its images."""
    if encoder.images:
        return OwnData(str(path), "", images=encoder.column).files(column)
    return tuple(column)


def fit_items(
    column: pd.Series,
    path: str | Path,
    options: MediaOptions,
    first: Integers,
    *,
    device: torch.device | str = "cpu",
    progress: Progress = lambda _: None,
) -> tuple[ItemEncoder, Rows]:
    """Fit an encoder of items; return it, and the inputs of all rows, (n, d).

    Parameters
    ----------
    column : Series, shape (n,)
        Texts, or paths of images.
    path : str or Path
        Path of the table.
    options : TextOptions or ImageOptions
    first : ndarray of int64
        Rows of the first task, which determine mean and standard deviation.
    device, progress
        See :func:`item_vectors`.
    """
    bare = item_encoder(str(column.name), options, Standard())
    found = item_vectors(items_of(bare, column, path), options, device=device, progress=progress)
    x, standard = torch.from_numpy(found.x), Standard()
    if bare.image is None:
        standard = Standard.of(x.index_select(0, torch.from_numpy(np.asarray(first))))
    told = (_what_inputs_are(options, x.shape[1]), *found.notes)
    if bare.copies > 1:
        told = (*told, f"each image is learned {bare.copies} times, with its augmented copies")
    return replace(bare, standard=standard, notes=told), standard.apply(x).numpy()


def item_encoder(column: str, options: MediaOptions, standard: Standard) -> ItemEncoder:
    """Return an encoder for items of a column, with the given mean and deviation."""
    there = _at_any_place(options)
    return ItemEncoder(column, there, digest_of(there), standard)


def _at_any_place(options: MediaOptions) -> MediaOptions:
    """Return options with the absolute path of an encoder: models are used from other folders."""
    field = "encoder" if isinstance(options, TextOptions) else "image_encoder"
    name = getattr(options, field)
    path = expanded(name, "encoder")
    if name in (*PACKAGES, *PACKAGED) or not path.exists():
        return options
    return options.model_copy(update={field: str(path.absolute())})


def _what_inputs_are(options: MediaOptions, width: int) -> str:
    if isinstance(options, TextOptions):
        return f"each text is {width:,} numbers, by encoder '{options.encoder}'"
    if options.pixels:
        return f"each image is 3 × {options.side} × {options.side} pixels"
    return f"each image is {width:,} numbers, by encoder '{options.image_encoder}'"
