"""Files of models that are damaged, altered or of another version: one line says so, no code runs.

Cases change a file after its hashes are computed, as accidents do, or compute them anew, as
somebody does on purpose.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from safetensors.torch import load_file, save_file

from faircil.data.features import fit_encoder
from faircil.data.own import OwnData
from faircil.errors import DataError
from faircil.files import SEAL, file_digest, write_sealed
from faircil.model.model import Model
from faircil.model.saved import CONTENT, FORMAT, TENSORS, load_model, save_model
from faircil.runs.config import resolve

Document = dict[str, Any]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small model that is whole; tests change copies."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.normal(size=(60, 3)), columns=["a", "b", "c"])
    encoder = fit_encoder(table, np.arange(60), np.arange(60))
    own = OwnData(path="", label="class", sensitive=("sex",))
    model = Model(resolve(own=own, method="moments", overrides=["width=8"]), encoder=encoder)
    labels, values = ["xyz"[n % 3] for n in range(60)], ["fm"[n // 3 % 2] for n in range(60)]
    model.learn(encoder.inputs(table), labels, values)
    model.measure(encoder.inputs(table), labels, values)
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_model(model, folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


def refusal(folder: Path) -> str:
    """Return the message of a model that is refused, which is a line."""
    with pytest.raises(DataError) as caught:
        load_model(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder}: ")
    assert "\n" not in message
    assert len(message) < len(str(folder)) + 400
    return message


def rewrite(folder: Path, content: Document) -> None:
    """Write a text with its right hash."""
    write_sealed(folder / CONTENT, content)


def test_the_model_of_these_tests_is_whole(folder: Path) -> None:
    model = load_model(folder)
    assert model.measured[0].rows == 60
    assert model.measured[0].lessons == 1
    content = json.loads((folder / CONTENT).read_text())
    rewrite(folder, content)  # laid out otherwise, and the same
    load_model(folder)


def members(content: Document, name: str) -> Document:
    """Return the attributes of the model in a text, or of an object in it."""
    found: Document = content["content"]["of"]
    for part in filter(None, name.split(".")):
        found = found[part]["of"]
    return found


def set_(path: str, value: Any) -> Callable[[Document], None]:
    def change(content: Document) -> None:
        at, _, name = path.rpartition(".")
        members(content, at)[name] = value

    return change


def parts_of(content: Document, kind: str) -> list[Document]:
    """Return the parts of a kind."""
    todo: list[Any] = [content["content"]]
    found = []
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            found += [one] * (one.get("$") == kind)
            todo += one.values()
        elif isinstance(one, list):
            todo += one
    return found


def fewer_names(content: Document) -> None:
    members(content, "")["labels"]["items"].pop()


def more_names(content: Document) -> None:
    members(content, "")["labels"]["items"].append("new")


def fewer_values(content: Document) -> None:
    members(content, "")["values"]["items"].pop()


def columns_gone(content: Document) -> None:
    members(content, "encoder")["columns"]["items"].pop()


def other_tensors(content: Document) -> None:
    for number, part in enumerate(parts_of(content, "tensor")):
        part["name"] = str((number + 3) % 7)


def in_place_of(kind: str, document: Document) -> Callable[[Document], None]:
    def change(content: Document) -> None:
        part = parts_of(content, kind)[0]
        number = part["id"]
        part.clear()
        part.update(document, id=number)

    return change


def nested(content: Document) -> None:
    deep: Any = {"$": "list", "items": [], "id": 9000}
    for number in range(150):
        deep = {"$": "list", "items": [deep], "id": 9001 + number}
    members(content, "")["labels"] = deep


# What somebody writes on purpose, with the right hash, and what the line says.
ON_PURPOSE: dict[str, tuple[Callable[[Document], None], str]] = {
    "fewer class names": (fewer_names, "damaged"),
    "more class names": (more_names, "names of 4 classes, and 3 scores"),
    "fewer attribute values": (fewer_values, "do not fit"),
    "class names that are no list": (set_("labels", 3), "do not fit"),
    "another number of inputs": (set_("inputs", 5), "columns for 3 inputs, and 5"),
    "inputs that are no number": (set_("inputs", "many"), "columns for 3 inputs"),
    "a column less": (columns_gone, "columns for 2 inputs"),
    "a huge number of inputs": (set_("inputs", 10**30), "columns for 3 inputs"),
    "tensors in other places": (other_tensors, "damaged"),
    "an extra field": (set_("extra", 1), "Model has no place for extra"),
    "a method replaced": (set_("predict", 1), "Model has no place for predict"),
    "a class replaced": (set_("__class__", 1), "Model has no place for __class__"),
    "a field less": (lambda content: members(content, "").pop("labels"), "Model needs labels"),
    "no state": (set_("state", None), "learned nothing"),
    "lists in lists": (nested, "damaged"),
    "not a model": (lambda content: content.update(content=3), "holds no model"),
    "nothing": (lambda content: content.update(content=None), "holds no model"),
    "an unknown kind": (in_place_of("tensor", {"$": "code"}), "unknown kind 'code'"),
    "a tensor that is not there": (in_place_of("tensor", {"$": "tensor", "name": "x"}), "damaged"),
    "a module for a dtype": (in_place_of("tensor", {"$": "dtype", "name": "os"}), "a dtype"),
    "any object as a number": (
        in_place_of("tensor", {"$": "number", "type": "O", "value": 1}),
        "a type of numbers",
    ),
    "a state of no generator": (
        in_place_of("generator", {"$": "generator", "name": "0"}),
        "damaged",
    ),
    "the setting of another method": (
        lambda content: parts_of(content, "settings")[0]["of"].update(method="er"),
        "damaged",
    ),
    "an unknown measure": (
        lambda content: parts_of(content, "settings")[0]["of"].update(measure="none"),
        "damaged",
    ),
}


@pytest.mark.parametrize("case", ON_PURPOSE)
def test_what_does_not_fit_is_refused_though_its_hash_is_right(case: str, folder: Path) -> None:
    change, says = ON_PURPOSE[case]
    content = json.loads((folder / CONTENT).read_text())
    change(content)
    rewrite(folder, content)
    assert says in refusal(folder)


@pytest.mark.parametrize(
    "name",
    [
        "faircil.__main__:main",  # importing it would run the command line
        "faircil.files:tempfile.TemporaryDirectory",  # a class that a module of ours imports
        "faircil.sweep.processes:pickle.Unpickler",
        "torch.optim.optimizer:OrderedDict",
        "os:system",
        "faircil.nowhere:Model",
        "faircil.model.model:nothing",
        7,
    ],
)
def test_only_classes_of_ours_are_made(
    name: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["faircil", "--version"])
    content = json.loads((folder / CONTENT).read_text())
    content["content"]["of"]["notes"] = {"$": "object", "class": name, "of": {}, "id": 9000}
    rewrite(folder, content)
    assert "class" in refusal(folder) or "damaged" in refusal(folder)


ACCIDENTS: dict[str, tuple[Callable[[Document], None], str]] = {
    "a newer version": (lambda content: content.update(format=FORMAT + 1), "update faircil"),
    "a version without end": (lambda content: content.update(format=10**400), "update faircil"),
    "an older version": (lambda content: content.update(format=1), "fit it again"),
    "no version": (lambda content: content.update(format=None), "names no format"),
    "a version that is a truth": (lambda content: content.update(format=True), "names no format"),
    "another number": (set_("seed", 1), "damaged or altered"),
    "another name": (lambda content: content["summary"].update(method="er"), "damaged or altered"),
    "no hash": (lambda content: content.pop(SEAL), "damaged or altered"),
}


@pytest.mark.parametrize("case", ACCIDENTS)
def test_what_was_altered_is_refused(case: str, folder: Path) -> None:
    change, says = ACCIDENTS[case]
    content = json.loads((folder / CONTENT).read_text())
    change(content)
    (folder / CONTENT).write_text(json.dumps(content))
    assert says in refusal(folder)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "3", "\x00", '{"format": 1e999}', "[" * 100_000, "9" * 5000, '{"a": "\\ud8'],
)
def test_texts_that_hold_no_model(text: str, folder: Path) -> None:
    (folder / CONTENT).write_text(text)
    assert "is damaged: it" in refusal(folder)


def test_texts_that_are_no_texts(folder: Path) -> None:
    (folder / CONTENT).write_bytes(b'{"format": "\xff\xfe"}')
    assert "not the JSON document" in refusal(folder)
    (folder / CONTENT).unlink()
    with pytest.raises(DataError, match="there is no model"):
        load_model(folder)
    (folder / CONTENT).mkdir()
    with pytest.raises(DataError, match="there is no model"):
        load_model(folder)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("name", [CONTENT, TENSORS])
def test_truncated_files(name: str, share: float, folder: Path) -> None:
    (path,) = folder.glob(name)
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    assert "damaged" in refusal(folder)


def test_tensors_of_another_model(folder: Path) -> None:
    (path,) = folder.glob(TENSORS)
    tensors = load_file(path)
    names = list(tensors)
    swapped = {name: tensors[names[(n + 1) % len(names)]] for n, name in enumerate(names)}
    save_file(swapped, path)
    assert "damaged or altered" in refusal(folder)
    content = json.loads((folder / CONTENT).read_text())

    def put_in(others: dict[str, torch.Tensor]) -> Path:
        save_file(others, path)
        digest = content["tensors_sha256"] = file_digest(path)
        rewrite(folder, content)
        return Path(shutil.copy(path, folder / TENSORS.replace("*", digest[:12])))

    put_in(swapped)
    assert "damaged" in refusal(folder)
    last = put_in({name: tensor * torch.nan for name, tensor in tensors.items()})
    assert "damaged" in refusal(folder)
    last.unlink()
    assert "is missing" in refusal(folder)


def copied(saved: Path, factory: pytest.TempPathFactory) -> Path:
    place = factory.getbasetemp() / "altered"
    return Path(shutil.copytree(saved, place, dirs_exist_ok=True))


def is_read(folder: Path) -> bool:
    """Whether a model is read; else the error is a line."""
    try:
        load_model(folder)
    except DataError as error:
        message = str(error)
    else:
        return True
    assert "\n" not in message
    return False


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(1, 255))
def test_any_altered_byte_is_noticed(
    place: float, byte: int, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = copied(saved, tmp_path_factory)
    data = bytearray((folder / CONTENT).read_bytes())
    data[int(place * len(data))] ^= byte
    (folder / CONTENT).write_bytes(data)
    assert not is_read(folder)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=4),
    st.just([]),
    st.just({}),
    st.sampled_from(["object", "same", "module", "tensor", "class", "float", "settings"]),
)


@settings(max_examples=40, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), value=VALUES)
@example(place=0.0, value="\n")  # of an unknown kind, which the error must not print as it is
def test_any_value_for_another_leads_to_a_model_or_a_line(
    place: float, value: Any, saved: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = copied(saved, tmp_path_factory)
    content = json.loads((folder / CONTENT).read_text())
    places: list[tuple[Any, Any]] = []
    todo: list[Any] = [content["content"]]
    while todo:
        one = todo.pop()
        keys = one.keys() if isinstance(one, dict) else range(len(one))
        places += [(one, key) for key in keys]
        todo += [one[key] for key in keys if isinstance(one[key], dict | list)]
    at, key = places[int(place * len(places))]
    at[key] = value
    rewrite(folder, content)
    is_read(folder)


@pytest.mark.parametrize("digest", ["../../x", "/etc/passwd", "", None, 3, "A" * 64])
def test_the_name_of_the_tensors_never_leads_elsewhere(folder: Path, digest: object) -> None:
    content = json.loads((folder / CONTENT).read_text())
    rewrite(folder, content | {"tensors_sha256": digest})
    assert "has no hash of its tensors" in refusal(folder)
