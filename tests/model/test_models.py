"""Models: lessons, new classes, files, and what is refused without a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from faircil.data.own import OwnData
from faircil.errors import DataError, FaircilError, StorageError, UsageError
from faircil.model.model import LEARNED_TWICE, Floats32, Model
from faircil.model.saved import CONTENT, TENSORS, card_notes, load_model, save_model
from faircil.runs.config import resolve

OWN = OwnData(path="", label="class", sensitive=("sex",))


def rows(*labels: str, n: int = 40, seed: int = 0) -> tuple[Floats32, list[str], list[str | None]]:
    """Return rows of classes that are easy to tell apart."""
    generator = np.random.default_rng(seed)
    y = [label for label in labels for _ in range(n)]
    centre = np.array([[ord(label) % 7, ord(label) % 5, ord(label) % 3] for label in y])
    x = (3 * centre + generator.normal(size=(len(y), 3))).astype(np.float32)
    return x, y, [("f", "m")[i % 2] for i in range(len(y))]


def model_of(method: str = "moments", **settings: Any) -> Model:
    usual = {"width": 40} if method == "moments" else {"epochs": 2, "hidden": 8}
    given = [f"{name}={value}" for name, value in {**usual, **settings}.items()]
    return Model(resolve(own=OWN, method=method, overrides=given))


@pytest.mark.parametrize("method", ["moments", "er", "gdumb"])
def test_new_classes_come_lesson_by_lesson(method: str) -> None:
    model = model_of(method, **({} if method == "moments" else {"epochs": 20, "lr": 0.01}))
    first = model.learn(*rows("a", "b"))
    second = model.learn(*rows("c", seed=1))
    assert (first.new_classes, second.new_classes) == (("a", "b"), ("c",))
    assert model.labels == ["a", "b", "c"]
    assert [(g.label, g.value, g.rows) for g in model.seen[-2:]] == [("c", "f", 20), ("c", "m", 20)]
    x, y, _ = rows("a", "b", "c", seed=2)
    assert np.mean(np.array(model.labels)[model.predict(x)] == y) > 0.8
    np.testing.assert_allclose(model.probabilities(x).sum(axis=1), 1)


@pytest.mark.parametrize("method", ["moments", "er"])
def test_a_saved_model_predicts_the_same_bits_and_goes_on(method: str, tmp_path: Path) -> None:
    model = model_of(method)
    model.learn(*rows("a", "b"))
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    x = rows("a", "b", seed=3)[0]
    np.testing.assert_array_equal(again.probabilities(x), model.probabilities(x))
    for one in (model, again):
        one.learn(*rows("c", seed=1))
    np.testing.assert_array_equal(again.probabilities(x), model.probabilities(x))
    save_model(again, tmp_path / "model")  # a model is replaced
    assert len(load_model(tmp_path / "model").lessons) == 2


def test_classes_that_are_no_text_are_saved(tmp_path: Path) -> None:
    model = model_of()
    model.learn(*rows("a", "\udcff"))
    save_model(model, tmp_path)
    assert load_model(tmp_path).labels == ["a", "\udcff"]
    assert not card_notes(tmp_path)


def test_forgotten_rows_leave_no_trace() -> None:
    one, other = model_of(arithmetic="float64"), model_of(arithmetic="float64")
    x, y, z = rows("a", "b")
    for model, part in ((one, slice(None)), (other, slice(5, None))):
        model.learn(*rows("a", "b", seed=9))  # features are of the first lesson
        model.learn(x[part], y[part], z[part])
    one.forget(x[:5], y[:5], z[:5])
    assert [g.rows for g in one.seen] == [g.rows for g in other.seen]
    at = rows("a", "b", seed=3)[0]
    # Weights are searched from other starts, so solutions agree as far as the search does.
    np.testing.assert_allclose(one.probabilities(at), other.probabilities(at), atol=0.02)


def test_rows_that_come_again_are_told(tmp_path: Path) -> None:
    model, first = model_of(), rows("a", "b")
    model.learn(*rows("c", "d", seed=1))
    assert model.learn(*first).notes == ()
    save_model(model, tmp_path / "model")
    model = load_model(tmp_path / "model")
    assert LEARNED_TWICE in model.learn(*first).notes
    model.forget(*first)
    model.forget(*first)
    assert LEARNED_TWICE not in model.learn(*first).notes


def test_what_fails_changes_nothing() -> None:
    model = model_of()
    with pytest.raises(DataError, match="all of one class"):
        model.learn(*rows("a"))
    assert model.labels == []
    with pytest.raises(UsageError, match="learned nothing"):
        model.predict(rows("a")[0])
    model.learn(*rows("a", "b"))
    before = model.probabilities(rows("a")[0])
    x, y, z = rows("c")
    with pytest.raises(DataError, match="3 inputs a row"):
        model.learn(x[:, :2], y, z)
    with pytest.raises(DataError, match="NaN"):
        model.learn(x * np.float32(np.nan), y, z)
    with pytest.raises(DataError, match="never learned"):
        model.forget(x, y, z)
    with pytest.raises(FaircilError, match="were not added"):
        model.forget(*rows("a", seed=8))
    assert model.labels == ["a", "b"]
    assert len(model.lessons) == 1
    np.testing.assert_array_equal(model.probabilities(rows("a")[0]), before)


def test_replay_cannot_forget_and_knows_no_unknown_group() -> None:
    model = model_of("er")
    x, y, z = rows("a", "b")
    with pytest.raises(FaircilError, match="unknown"):
        model.learn(x, y, [None, *z[1:]])
    model.learn(x, y, z)
    with pytest.raises(UsageError, match="'moments' can"):
        model.forget(x, y, z)
    assert model.rows_kept == 80


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    model = model_of()
    model.learn(*rows("a", "b"))
    folder = tmp_path / "model"
    save_model(model, folder)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    summary = json.loads((folder / CONTENT).read_text())["summary"]
    assert summary["classes"] == ["a", "b"]
    assert summary["rows_kept"] == 0


def test_whatever_fails_while_it_is_written_the_model_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, folder = model_of(), model_of(), tmp_path / "models/model"
    old.learn(*rows("a", "b"))
    new.learn(*rows("a", "b", "c"))

    def is_stopped(place: str, failure: BaseException) -> None:
        def fails(*_: object) -> None:
            raise failure

        with monkeypatch.context() as patch:
            patch.setattr(f"faircil.model.saved.{place}", fails)
            with pytest.raises((StorageError, KeyboardInterrupt)):
                save_model(new, folder)

    for place in ("save_file", "file_digest", "write_sealed", "Path.replace"):
        is_stopped(place, OSError(28, "No space left on device"))
        is_stopped(place, KeyboardInterrupt())
        assert list(tmp_path.iterdir()) == []
    save_model(old, folder)
    there = sorted(folder.iterdir())
    for place in ("save_file", "write_sealed", "Path.replace"):
        is_stopped(place, KeyboardInterrupt())
        assert sorted(folder.iterdir()) == there
        assert load_model(folder).labels == ["a", "b"]
    save_model(new, folder)
    assert len(list(folder.glob(TENSORS))) == 1


def test_a_model_may_be_replaced_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, folder = model_of(), model_of(), tmp_path / "model"
    old.learn(*rows("a", "b"))
    new.learn(*rows("a", "b", "c"))
    save_model(old, folder)

    def replaced(path: Path) -> dict[str, torch.Tensor]:
        monkeypatch.undo()
        save_model(new, folder)
        return load_file(path)  # which is gone

    monkeypatch.setattr("faircil.model.saved.load_file", replaced)
    assert load_model(folder).labels == ["a", "b", "c"]


def test_a_folder_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of()
    model.learn(*rows("a", "b"))
    save_model(model, tmp_path / "model")
    (tmp_path / "link").symlink_to("model")
    model.learn(*rows("c"))
    save_model(model, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load_model(tmp_path / "model").labels == ["a", "b", "c"]
    monkeypatch.chdir(tmp_path / "model")
    model.learn(*rows("d"))
    save_model(model, Path())
    assert load_model(tmp_path / "model").labels == ["a", "b", "c", "d"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "model"]


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    model = model_of()
    model.learn(*rows("a", "b"))
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"other files, such as mine\.txt"):
        save_model(model, tmp_path)
    with pytest.raises(UsageError, match="is a file"):
        save_model(model, tmp_path / "mine.txt")
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_model_can_be_read_onto_another_device(tmp_path: Path) -> None:
    model = model_of()
    model.learn(*rows("a", "b"))
    save_model(model, tmp_path / "model")
    moved = load_model(tmp_path / "model", torch.device("meta"))
    assert next(moved.learner.net.parameters()).device.type == "meta"
