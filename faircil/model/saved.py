"""Models as folders: a human-readable text file and tensors, without pickle.

The text contains the hash of the tensors and its own hash, so changes made after writing are
detected. The hash is also part of the tensors' file name. A new text file can thus replace the old
one in a single step, and whatever happens in between, the folder has a complete model.
Hashes are not signatures. A manipulated file can contain other numbers, but reading it creates
only faircil's own objects, and inconsistent contents are rejected in any case.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from faircil import __version__
from faircil.auditing.audit_files import KEPT, KEPT_PAGE
from faircil.data.splits import hold_out
from faircil.data.stream import TaskStream
from faircil.errors import DataError, StorageError, UsageError
from faircil.files import (
    ESCAPED,
    SEAL,
    file_digest,
    is_intact,
    locked,
    open_private,
    resolved,
    write_sealed,
)
from faircil.learners import learner_named
from faircil.metrics import evaluate
from faircil.model.card import card_of, summary_of
from faircil.model.history import Lesson, now
from faircil.model.model import Model
from faircil.packing import Packed, pack, told, unpack
from faircil.results.folder import MODEL_TEXT
from faircil.runs.config import RunConfig
from faircil.runs.state import DataShape, RunState
from faircil.samples import group_counts

FORMAT = 6
CONTENT, TENSORS = MODEL_TEXT, "tensors-*.safetensors"
CARD, CARD_PAGE = "card.json", "card.md"
DIGITS = 12  # of the tensors' hash, in their file name
LOCK = ".lock"  # file locked by a process that changes the model
AGAIN = "use a copy of the model, or fit it again"


@dataclass(frozen=True)
class Files:
    """The content of a model's files.

    Parameters
    ----------
    packed : Packed
        Its tensors, and the text without hashes.
    card : dict
        See :func:`faircil.model.card.card_of`.
    """

    packed: Packed
    card: dict[str, Any]


def save_model(model: Model, folder: Path) -> None:
    """Write a model to a folder, completely or not at all, with its card.

    An existing model is replaced; anything else in the folder is left alone and raises an error.
    Files are readable by the owner only: they contain sums over people, and with replay their rows.
    """
    check_place(folder)
    _write(_files(model), folder)


def _files(model: Model) -> Files:
    packed = pack(model)
    content = {
        "format": FORMAT,
        "faircil": __version__,
        "summary": summary_of(model),
        "content": packed.document,
    }
    return Files(replace(packed, document=content), card_of(model))


def _write(files: Files, folder: Path) -> None:
    packed = files.packed
    with changing(folder):
        before = set(folder.glob(TENSORS))
        text, partial_tensors = folder / f".{CONTENT}.partial", folder / ".tensors.partial"
        try:
            with _written(folder):
                open_private(partial_tensors, "w").close()
                save_file(packed.tensors, partial_tensors)
                digest = file_digest(partial_tensors)
                cards = _card_texts(files.card, digest)
                content = packed.document | {"tensors_sha256": digest}
                content["cards_sha256"] = {name: _text_digest(cards[name]) for name in cards}
                write_sealed(text, content)
                tensors = folder / _name_of_tensors(digest)
                partial_tensors.replace(tensors)
                text.replace(folder / CONTENT)  # from here on, the new model is in place
                for name, text_of_card in cards.items():
                    _write_card(folder, name, text_of_card)
        finally:
            for path in (partial_tensors, text):
                path.unlink(missing_ok=True)
        for path in before - {tensors}:
            path.unlink(missing_ok=True)


def _card_texts(card: dict[str, Any], digest: str) -> dict[str, str]:
    """Return the card as a document and as a page; both state the hash of their tensors."""
    document = {name: value for name, value in card.items() if name != "page"}
    document["tensors_sha256"] = digest
    page = f"{card['page']}\nThis card is about `{_name_of_tensors(digest)}`.\n"
    return {CARD: json.dumps(document, indent=2, ensure_ascii=False) + "\n", CARD_PAGE: page}


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors=ESCAPED)).hexdigest()


def _write_card(folder: Path, name: str, text: str) -> None:
    partial = folder / f".{name}.partial"
    with open_private(partial, "w", newline="\n") as file:
        file.write(text)
    partial.replace(folder / name)


def card_notes(folder: Path) -> list[str]:
    """Report cards of a model that are missing or were changed after writing."""
    content, _ = _read_content(folder)
    written = content.get("cards_sha256", {})
    altered = [
        name
        for name in (CARD, CARD_PAGE)
        if not (folder / name).is_file() or file_digest(folder / name) != written.get(name)
    ]
    if not altered:
        return []
    return [
        f"{' and '.join(altered)}: missing, or not what was written with the model, so do not "
        "rely on it; measure the model to write it again"
    ]


def _name_of_tensors(digest: object) -> str:
    return TENSORS.replace("*", str(digest)[:DIGITS])


@contextmanager
def changing(folder: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Keep other processes from changing a model in the block; wait for one that does.

    Parameters
    ----------
    folder : Path
        Folder of the model; created if it does not exist.
    waiting : callable
        Called if another process must be waited for.
    """
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    with ExitStack() as lock:
        with _written(folder):
            lock.enter_context(locked(resolved(folder) / LOCK, waiting, nested=True))
        try:
            yield
        finally:
            if new and not (folder / CONTENT).exists():  # no model was written
                with suppress(OSError):
                    (folder / LOCK).unlink(missing_ok=True)
                    for path in new:
                        path.rmdir()


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise StorageError(
            f"cannot write the model {folder}: {getattr(error, 'strerror', None) or error}; free "
            "space, or choose another folder"
        ) from None


def check_place(folder: Path) -> None:
    """Raise an error if a folder contains anything but a model."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder for the model")
    own = _own_files(folder)
    if (folder / CONTENT).exists():  # an audit may be stored next to its model
        own |= {folder / KEPT, folder / KEPT_PAGE}
    others = sorted(
        path.name
        for path in folder.iterdir()
        if path not in own and not path.name.startswith(".")  # such as files of file managers
    )
    if others:
        raise UsageError(
            f"{folder} has other files, such as {others[0]}; name a new folder for the model"
        )


def check_there(folder: Path) -> None:
    """Raise an error if a folder has no model."""
    if not (folder / CONTENT).is_file():
        raise DataError(
            f"there is no model in {folder}: {CONTENT} is missing; make one with `faircil fit`"
        )


def load_model(folder: Path, device: torch.device | str = "cpu") -> Model:
    """Read a model.

    Raises
    ------
    DataError
        If there is no model, or it is damaged, altered, or of another version.
    """
    check_there(folder)
    try:
        model = unpack(_read(folder), device=device, registered=learner_named)
        return _whole(model)
    except DataError as error:
        raise DataError(f"{folder}: {error}") from None


def _read(folder: Path) -> Packed:
    """Read the text of a model and its tensors; retry if the model may have been replaced."""
    before = None
    while True:
        content, same = _read_content(folder)
        _check_version(content)
        if not same:
            raise DataError(f"{CONTENT} is not what was saved: it is damaged or altered; {AGAIN}")
        try:
            return Packed(content.get("content"), _read_tensors(folder, content))
        except DataError:
            if before == content[SEAL]:
                raise
            before = content[SEAL]


def _read_content(folder: Path) -> tuple[dict[str, Any], bool]:
    """Read the text of a model; the second value is whether its hash is correct."""
    try:
        text = (folder / CONTENT).read_bytes().decode("utf-8")
        content = json.loads(text)
        if isinstance(content, dict):
            return content, is_intact(text, content)
    except OSError as error:
        raise DataError(f"{CONTENT} cannot be read ({error.strerror}); {AGAIN}") from None
    except (ValueError, RecursionError):  # neither JSON nor UTF-8, or nested too deeply
        pass
    raise DataError(f"{CONTENT} is damaged: it is not the JSON document of a model; {AGAIN}")


def _check_version(content: dict[str, Any]) -> None:
    version, other = content.get("format"), f"faircil {content.get('faircil')!s:.20}"
    if type(version) is not int:
        raise DataError(f"{CONTENT} is damaged: it names no format; {AGAIN}")
    if version != FORMAT:
        advice = "update faircil" if version > FORMAT else f"fit it again, or read it with {other}"
        raise DataError(
            f"the model has format {version!s:.9}, of {other}, and this faircil ({__version__}) "
            f"reads format {FORMAT}; {advice}"
        )


def _read_tensors(folder: Path, content: dict[str, Any]) -> dict[str, Tensor]:
    """Read the tensors of a model, and check that they match its text."""
    digest = content.get("tensors_sha256")
    if not re.fullmatch("[0-9a-f]{64}", str(digest)):  # it is part of a file name
        raise DataError(f"{CONTENT} is damaged: it has no hash of its tensors; {AGAIN}")
    path = folder / _name_of_tensors(digest)
    try:
        if file_digest(path) != digest:
            raise DataError(
                f"{path.name} is not what was saved with {CONTENT}: it is damaged or altered; "
                f"{AGAIN}"
            )
        return load_file(path)
    except FileNotFoundError:
        raise DataError(
            f"{path.name} is missing: the folder has a part of the model only; copy it again, or "
            "make the model again"
        ) from None
    except (SafetensorError, OSError, ValueError, RuntimeError) as error:  # torch's, if missing
        raise DataError(f"{path.name!r:.40} cannot be read ({told(error)}); {AGAIN}") from None


def _whole(model: object) -> Model:
    """Return a model; raise an error if names, columns and net are inconsistent."""
    if not isinstance(model, Model):
        raise DataError(f"{CONTENT} holds no model; {AGAIN}")
    try:
        summary_of(model)  # names of all groups, and all lessons
        if model.encoder is not None and model.encoder.width != model.inputs:
            problem = f"columns for {model.encoder.width} inputs, and {model.inputs} inputs"
        else:
            place = next(model.learner.net.parameters()).device
            scores = model.learner.scores(torch.zeros(1, model.inputs, device=place))
            problem = f"names of {len(model.labels)} classes, and {scores.shape[-1]} scores"
            if scores.shape == (1, len(model.labels)):
                # A class whose rows were all forgotten scores minus infinity.
                if place.type == "meta" or not torch.isnan(scores).any():
                    return model
                problem = "scores that are not numbers"
    except Exception as error:  # inconsistent parts may raise anything
        problem = f"parts that do not fit ({told(error)})"
    raise DataError(f"the content is damaged: the model has {problem}; {AGAIN}")


def size_of(folder: Path) -> int:
    """Return the size of a model's files in bytes."""
    return sum(path.stat().st_size for path in _own_files(folder) if path.is_file())


def _own_files(folder: Path) -> set[Path]:
    return {*(folder / name for name in (CONTENT, CARD, CARD_PAGE)), *folder.glob(TENSORS)}


def keep_model(
    config: RunConfig, seed: int, stream: TaskStream, state: RunState
) -> Callable[[Path], None]:
    """Return a function that writes the final model of a run to a folder.

    Parameters
    ----------
    config : RunConfig
    seed : int
    stream : TaskStream
        Data of the run.
    state : RunState
        State after the last task.

    Raises
    ------
    FaircilError
        If the model cannot be kept.
    """
    return partial(_write, _files(model_of_run(config, seed, stream, state)))


def model_of_run(config: RunConfig, seed: int, stream: TaskStream, state: RunState) -> Model:
    """Return the final model of a run, with the run's final metrics.

    See :func:`keep_model`.
    """
    if config.trains_encoder:
        raise UsageError("it has a trained encoder of texts, which models cannot hold yet")
    if state.learner.keeps_inputs and config.settings.training.shards > 1:
        raise UsageError("it keeps all rows, which `shards` divides among processes")
    notes = list(stream.notes)
    if config.text is not None and stream.encoder is None:
        notes.append(
            f"the model takes embeddings by the encoder '{config.text.encoder}', standardised as "
            "the run did, and no texts"
        )
    last, metrics = state.predictions[-1], state.per_task[-1]
    if config.postprocess != "none":
        notes.append(
            f"the run's predictions were post-processed by {config.postprocess}; those of the "
            "model are not"
        )
        found = state.probabilities[-1]
        last = replace(last, y_pred=found.classes[np.argmax(found.test, axis=1)])
        metrics = evaluate(
            last.y_true,
            last.y_pred,
            task=last.task,
            sensitive=last.sensitive,
            favoured=state.learner.measure.favoured,
        )
    plain = {"postprocess": "none", "epsilon": None, "held_out": 0}
    own = None if config.own is None else replace(config.own, path="")
    model = Model(
        config.model_copy(update={**plain, "own": own}),
        seed,
        labels=list(stream.class_names),
        values=list(stream.attribute_values),
        encoder=stream.encoder,
        image=stream.image,
        inputs=DataShape.of(stream).inputs,
        # The run's measurements are in its own files; rows that it held out are not part of them.
        state=replace(
            state, held_out=[], per_task=[], predictions=[], epochs=[], notes=[], probabilities=[]
        ),
        notes=notes,
    )
    model.lessons += _lessons_of_run(config, seed, stream, state, model)
    model.remember(metrics, last.y_true, last.y_pred, last.sensitive, "test rows of its run")
    return model


def _lessons_of_run(
    config: RunConfig, seed: int, stream: TaskStream, state: RunState, model: Model
) -> Iterator[Lesson]:
    """Yield a lesson for each task; all are dated to the end of the run."""
    for number, task in enumerate(stream.tasks, start=1):
        epochs = [epoch for epoch in state.epochs if epoch.task == number]
        spent = replace(state, epochs=epochs).seconds()
        train, _ = state.learner.admitted(hold_out(task.train, config.held_out, seed)[0])
        yield Lesson(
            at=now(),
            rows=len(train),
            new_classes=tuple(stream.class_names[label] for label in task.classes),
            groups=tuple(model.groups_of(group_counts(train))),
            seconds=spent.gradient + spent.lp + spent.train,
            passed=epochs[-1].passed,
        )
