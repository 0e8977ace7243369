"""A changed byte in any file of a run, a model or a cache is noticed where the file is read."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from faircil.auditing.reading import audit_file
from faircil.cache import EmbeddingStore, Recipe
from faircil.cli import main
from faircil.errors import DataError
from faircil.files import SUMS
from faircil.metrics import read_predictions
from faircil.model.saved import card_notes, load_model
from faircil.report.study import studies_of
from faircil.results.folder import READ, find_runs
from faircil.results.processed import process_run
from faircil.sweep.store import Store
from sweeps import small_work

RUN, MODEL, NOTE, CACHE = "run/seed-0", "model", "note", "cache"
RECIPE, TEXTS = Recipe("encoder", 8), [str(number).encode() for number in range(40)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run, its model, the note of a divergence, and a cache."""
    folder = tmp_path_factory.mktemp("whole")
    words = ["run", "--dataset", "toy-groups", "--method", "fsw", "--set", "epochs=1", "hidden=8"]
    assert main([*words, "--out", str(folder / "run"), "--quiet"]) == 0
    (folder / RUN / "model").rename(folder / MODEL)
    Store(folder / NOTE).note_divergence(small_work(), "training diverged")
    store = EmbeddingStore(folder / CACHE, 8, lambda _: None)
    with store.alone():
        store.append(RECIPE.keys(TEXTS), np.ones((len(TEXTS), 8), dtype=np.float32))
    return folder


Reader = Callable[[Path], object]


def _read_cache(folder: Path) -> None:
    """Read the cache; raise what it reports, with what it goes on without."""
    said: list[str] = []
    out = np.zeros((len(TEXTS), 8), dtype=np.float32)
    found = EmbeddingStore(folder / CACHE, 8, said.append).read(
        RECIPE.keys(TEXTS), out, np.arange(len(TEXTS))
    )
    assert np.array_equal(out, np.repeat(found[:, None], 8, axis=1))  # nothing wrong is used
    if said:
        raise DataError(*said)


def _read_model(folder: Path) -> None:
    """Read the model as `faircil show` does; raise what is wrong with its card."""
    load_model(folder / MODEL)
    if said := card_notes(folder / MODEL):
        raise DataError(*said)


def _processed(folder: Path) -> object:
    return process_run(find_runs([folder / RUN])[0], [0.1])


RESULTS: tuple[Reader, ...] = (lambda folder: find_runs([folder / "run"]),)
PREDICTIONS: tuple[Reader, ...] = (
    lambda folder: read_predictions(folder / RUN),
    lambda folder: audit_file(folder / RUN),
    lambda folder: audit_file(
        folder / RUN / "predictions.csv", truth="y_true", prediction="y_pred"
    ),
    lambda folder: studies_of(find_runs([folder / RUN]), {"eo": "eo_gap"}),
)
# Every file, by the readers that each have to notice.
READERS: dict[str, tuple[Reader, ...]] = {
    **{f"{RUN}/{name}": RESULTS for name in READ},
    f"{RUN}/predictions.csv": PREDICTIONS,
    f"{RUN}/probabilities.npz": (_processed,),
    MODEL: (_read_model,),
    NOTE: (lambda folder: Store(folder / NOTE).find(small_work()),),
    CACHE: (_read_cache,),
}
FILES = (*READERS, f"{RUN}/{SUMS}")
ADVICE = ("run it again", "fit it again", "write it again", "remove it", "is removed")


def noticed(reader: Reader, folder: Path) -> str:
    """Return what a reader says; nothing if it is content."""
    try:
        reader(folder)
    except DataError as error:
        return str(error)
    return ""


def check(draw: random.Random, whole: Path, folder: Path, kind: str) -> None:
    """Change a byte of a file of some kind, and look whether its readers notice."""
    shutil.copytree(whole, folder)
    place = folder / kind
    paths = [path for path in sorted(place.rglob("*")) if path.is_file()] or [place]
    path = draw.choice([path for path in paths if path.stat().st_size])
    data = bytearray(path.read_bytes())
    data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
    path.write_bytes(data)
    if path.name == SUMS:  # each reader looks at the sums of its own files
        every = {reader for readers in READERS.values() for reader in readers}
        said = [message for reader in every if (message := noticed(reader, folder))]
        assert said, path
    else:
        said = [noticed(reader, folder) for reader in READERS[kind]]
        assert all(path.name in message or path.parent.name in message for message in said), said
    assert all(any(advice in message for advice in ADVICE) for message in said), said
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", FILES)
def test_a_changed_byte_is_noticed(kind: str, whole: Path, tmp_path: Path) -> None:
    draw = random.Random(kind)
    for number in range(3):
        check(draw, whole, tmp_path / str(number), kind)


@pytest.mark.soak
def test_a_thousand_changed_bytes_are_noticed(whole: Path, tmp_path: Path) -> None:
    draw = random.Random(0)
    for number in range(1000):
        check(draw, whole, tmp_path / str(number), FILES[number % len(FILES)])


@pytest.mark.parametrize("kind", FILES)
def test_what_is_whole_is_read(kind: str, whole: Path) -> None:
    assert [noticed(reader, whole) for reader in READERS.get(kind, ())] == [""] * len(
        READERS.get(kind, ())
    )
