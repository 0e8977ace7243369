"""Objects as JSON and tensors, and back, without pickle.

A model or the state of a run is a tree of objects: learners, nets, buffers, sums, generators. Every
object becomes a JSON document, with its tensors separate, so that a file is a ``safetensors`` file
next to a human-readable text. Reading a file runs no code from it: it refers to classes by name,
and only classes that :func:`faircil.registry.class_named` allows are instantiated. Their attributes
are set, and their constructors are not called. Attributes that would replace methods are rejected,
as are those that a dataclass does not have.

An object that occurs twice is written once and is a single object again after reading: a net shared
by a learner and its optimizer stays shared.

Classes can customise this. ``unsaved`` lists attributes that are omitted, such as caches, and
``restored`` is called after reading to reinitialise them; or ``packed`` returns an object as JSON,
and ``from_packed`` creates it. A net lists its parts from other libraries in ``remade``: only their
weights are written, and ``remake`` creates a part with them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numpy as np
import torch
from pydantic import BaseModel
from torch import Tensor, nn

from faircil.errors import DataError, FaircilError
from faircil.registry import Registered, class_named, is_layer, is_own, name_of as name_of

KIND = "$"  # key for the type of a JSON object
Document = Any  # anything that json can write
Base = TypeVar("Base")
NUMBERS = "biuf"  # kinds of numpy types that are stored as numbers
# Attributes of nn.Module itself, other than parameters, buffers and modules: hooks, which none of
# our nets has, and caches.
MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))


@dataclass(frozen=True)
class Packed:
    """An object as data.

    Parameters
    ----------
    document : JSON
    tensors : dict
        Keyed by their names in the document.
    """

    document: Document
    tensors: dict[str, Tensor]


def pack(value: object, registered: Registered = lambda _: None) -> Packed:
    """Return an object as JSON and tensors.

    Parameters
    ----------
    value : object
    registered : callable
        Finds classes of other packages that may be written; see :func:`unpack`.

    Raises
    ------
    FaircilError
        If a part of it cannot be written, for example a function.
    """
    packer = _Packer(registered)
    document = packer.write(value, "")
    return Packed(document, packer.tensors)


def unpack(
    packed: Packed,
    *,
    device: torch.device | str = "cpu",
    registered: Registered = lambda _: None,
) -> Any:
    """Return the packed object, with its tensors on a device.

    Parameters
    ----------
    packed : Packed
    device : torch.device or str
    registered : callable
        Finds classes of other packages that may be instantiated.

    Raises
    ------
    DataError
        If the document is damaged, or refers to a class that is not allowed.
    """
    reader = _Reader(packed.tensors, torch.device(device), registered)
    try:
        return reader.read(packed.document)
    except DataError:
        raise
    except Exception as error:  # a document from elsewhere may raise anything
        raise DataError(f"the content is damaged: {told(error)}") from None


def told(error: Exception) -> str:
    """Return an error as a single line."""
    return f"{type(error).__name__} {' '.join(str(error).split()):.200}".strip()


class _Packer:
    """Writes objects, each of them once."""

    def __init__(self, registered: Registered) -> None:
        self.registered = registered
        self.tensors: dict[str, Tensor] = {}
        self.numbers: dict[int, int] = {}  # numbers of written objects, keyed by id
        self.kept: list[object] = []  # keeps objects alive, so that no id is reused

    def write(self, value: Any, path: str) -> Document:
        """Return the document of a value; ``path`` is its place, for messages."""
        if value is None or type(value) in PLAIN:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {KIND: "float", "value": str(value)}
        if id(value) in self.numbers:
            return {KIND: "same", "as": self.numbers[id(value)]}
        number = self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)
        found = self._written(value, path)
        if found is None:
            raise FaircilError(
                f"{path.lstrip('.') or 'the value'} is {value!r:.60} of {type(value).__name__}, "
                "which cannot be saved; keep tensors, arrays, numbers, texts and faircil's objects"
            )
        return {**found, "id": number}

    def _written(self, value: Any, path: str) -> dict[str, Document] | None:
        for kinds, writer in WRITERS:
            if isinstance(value, kinds):
                return writer(self, value, path)
        if isinstance(value, type):
            return {KIND: "class", "class": name_of(value)} if self._known(value) else None
        if not self._known(type(value)):
            return None
        own = {"class": name_of(type(value))}
        if hasattr(value, "from_packed"):
            return {KIND: "packed", **own, "of": value.packed()}
        return {KIND: "object", **own, "of": self._attributes(value, path)}

    def _known(self, kind: type) -> bool:
        return is_own(kind) or self.registered(name_of(kind)) is kind

    def _attributes(self, value: Any, path: str) -> Document:
        kind = type(value)
        unsaved = {*getattr(kind, "unsaved", ())}
        if hasattr(value, "__dict__"):
            own = vars(value)
        else:
            own = {name: getattr(value, name) for name in kind.__slots__}
        if is_dataclass(kind):  # attributes derived from its fields are recomputed
            unsaved |= {n for n in own if isinstance(getattr(kind, n, None), cached_property)}
        return {
            name: self.write(each, f"{path}.{name}")
            for name, each in own.items()
            if name not in unsaved
        }

    def tensor(self, value: Tensor) -> str:
        """Store a tensor and return its name."""
        name = f"{len(self.tensors)}"
        self.tensors[name] = value.detach().contiguous().cpu()
        return name

    def _tensor(self, value: Tensor, _path: str) -> dict[str, Document]:
        found: dict[str, Document] = {KIND: "tensor", "name": self.tensor(value)}
        if isinstance(value, nn.Parameter):
            found["parameter"] = value.requires_grad
        if value.device.type == "cpu" and not isinstance(value, nn.Parameter):
            found["host"] = True
        return found

    def _array(self, value: np.ndarray[Any, Any], _path: str) -> dict[str, Document]:
        if value.dtype.kind not in NUMBERS:
            return {KIND: "texts", "items": value.tolist()}
        return {KIND: "array", "name": self.tensor(torch.from_numpy(value.copy()))}

    def _number(self, value: np.generic, _path: str) -> dict[str, Document]:
        return {KIND: "number", "type": str(value.dtype), "value": value.item()}

    def _generator(self, value: torch.Generator, _path: str) -> dict[str, Document]:
        return {KIND: "generator", "name": self.tensor(value.get_state())}

    def _items(self, value: list[Any] | tuple[Any, ...], path: str) -> dict[str, Document]:
        items = [self.write(each, f"{path}[{place}]") for place, each in enumerate(value)]
        return {KIND: "list" if isinstance(value, list) else "tuple", "items": items}

    def _set(self, value: set[Any] | frozenset[Any], path: str) -> dict[str, Document]:
        items = [self.write(each, path) for each in sorted(value)]
        return {KIND: "frozenset" if isinstance(value, frozenset) else "set", "items": items}

    def _dict(self, value: Mapping[Any, Any], path: str) -> dict[str, Document]:
        items = [
            [self.write(key, path), self.write(each, f"{path}[{key!r}]")]
            for key, each in value.items()
        ]
        return {KIND: "dict", "items": items}

    def _options(self, value: BaseModel, _path: str) -> dict[str, Document]:
        return {
            KIND: "settings",
            "class": name_of(type(value)),
            "of": value.model_dump(mode="json"),
        }

    def _module(self, value: nn.Module, path: str) -> dict[str, Document] | None:
        if not (is_own(type(value)) or is_layer(type(value))):
            return None
        remade = getattr(type(value), "remade", ())
        parts: dict[str, Mapping[str, Any]] = {
            "parameters": value._parameters,
            "buffers": value._buffers,
            "modules": {
                name: _weights(part) if name in remade else part
                for name, part in value._modules.items()
            },
            "others": {
                name: each
                for name, each in vars(value).items()
                if name not in MODULE_ATTRIBUTES or name == "training"
            },
        }
        return {
            KIND: "module",
            "class": name_of(type(value)),
            "volatile": sorted(value._non_persistent_buffers_set),
            **{
                part: {name: self.write(each, f"{path}.{name}") for name, each in held.items()}
                for part, held in parts.items()
            },
        }

    def _path(self, value: Path, _path: str) -> dict[str, Document]:
        return {KIND: "path", "value": str(value)}

    def _optimizer(self, value: torch.optim.Optimizer, path: str) -> dict[str, Document] | None:
        if not is_layer(type(value)):
            return None
        return {
            KIND: "optimizer",
            "class": name_of(type(value)),
            "groups": self.write([dict(group) for group in value.param_groups], path),
            "state": self.write([[key, dict(each)] for key, each in value.state.items()], path),
            "defaults": self.write(dict(value.defaults), path),
        }

    def _torch_name(self, value: torch.dtype | torch.device, _path: str) -> dict[str, Document]:
        kind = "dtype" if isinstance(value, torch.dtype) else "device"
        return {KIND: kind, "name": str(value).removeprefix("torch.")}


PLAIN = (bool, int, str)
Writer = Callable[[_Packer, Any, str], "dict[str, Document] | None"]
WRITERS: tuple[tuple[tuple[type, ...], Writer], ...] = (
    ((Tensor,), _Packer._tensor),
    ((np.ndarray,), _Packer._array),
    ((np.generic,), _Packer._number),
    ((Path,), _Packer._path),
    ((torch.Generator,), _Packer._generator),
    ((BaseModel,), _Packer._options),
    ((nn.Module,), _Packer._module),
    ((torch.optim.Optimizer,), _Packer._optimizer),
    ((list, tuple), _Packer._items),
    ((set, frozenset), _Packer._set),
    ((dict,), _Packer._dict),
    ((torch.dtype, torch.device), _Packer._torch_name),
)


class _Reader:
    """Creates objects from documents."""

    def __init__(
        self, tensors: Mapping[str, Tensor], device: torch.device, registered: Registered
    ) -> None:
        self.tensors, self.device, self.registered = tensors, device, registered
        self.made: dict[int, Any] = {}

    def read(self, document: Document) -> Any:
        """Return the value of a document."""
        if not isinstance(document, dict):
            if document is None or isinstance(document, bool | int | float | str):
                return document
            raise DataError(f"the content is damaged: {document!r:.60} stands alone")
        kind = document[KIND]
        if kind == "float":
            return float(document["value"])
        if kind == "same":
            return self.made[document["as"]]
        if kind not in READERS:
            raise DataError(f"the content has a part of an unknown kind {kind!r:.60}")
        value = self.made[document["id"]] = READERS[kind](self, document)
        return value

    def _tensor(self, document: dict[str, Any]) -> Tensor:
        found = self.tensors[document["name"]]
        found = found.clone() if document.get("host") else found.to(self.device, copy=True)
        if "parameter" in document:
            return nn.Parameter(found, requires_grad=document["parameter"])
        return found

    def _generator(self, document: dict[str, Any]) -> torch.Generator:
        return torch.Generator().set_state(self.tensors[document["name"]].clone())

    def _items(self, document: dict[str, Any]) -> list[Any]:
        return [self.read(each) for each in document["items"]]

    def _list(self, document: dict[str, Any]) -> list[Any]:
        found: list[Any] = []
        self.made[document["id"]] = found
        found += self._items(document)
        return found

    def _dict(self, document: dict[str, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        self.made[document["id"]] = found
        for key, each in document["items"]:
            found[self.read(key)] = self.read(each)
        return found

    def _object(self, document: dict[str, Any]) -> Any:
        kind = self._class(document, object)
        found: Any = object.__new__(kind)
        self.made[document["id"]] = found
        _check_attributes(kind, document["of"])
        for name, each in document["of"].items():
            object.__setattr__(found, name, self.read(each))
        if hasattr(kind, "restored"):
            found.restored()
        return found

    def _packed(self, document: dict[str, Any]) -> Any:
        kind: Any = self._class(document, object)
        return kind.from_packed(document["of"])

    def _settings(self, document: dict[str, Any]) -> BaseModel:
        return self._class(document, BaseModel, "settings are").model_validate(document["of"])

    def _module(self, document: dict[str, Any]) -> nn.Module:
        kind = self._class(document, nn.Module, "a net is")
        found = self.made[document["id"]] = kind.__new__(kind)
        nn.Module.__init__(found)
        _check_attributes(kind, document["others"])
        for name, each in document["others"].items():
            vars(found)[name] = self.read(each)
        for name, each in document["parameters"].items():
            found.register_parameter(name, self.read(each))
        for name, each in document["buffers"].items():
            value = self.read(each)
            value = value if value is None else value.to(self.device)
            found.register_buffer(name, value, persistent=name not in document["volatile"])
        remade = getattr(kind, "remade", ())
        for name, each in document["modules"].items():
            part = self.read(each)
            if name in remade:
                part = found.remake(name, part)  # type: ignore[operator]
            found.add_module(name, part)
        return found

    def _optimizer(self, document: dict[str, Any]) -> torch.optim.Optimizer:
        kind = self._class(document, torch.optim.Optimizer, "an optimizer is")
        groups = self.read(document["groups"])
        found = kind(groups, **self.read(document["defaults"]))
        found.state = defaultdict(dict, self.read(document["state"]))
        return found

    def _dtype(self, document: dict[str, Any]) -> torch.dtype:
        found = getattr(torch, document["name"])
        if not isinstance(found, torch.dtype):
            raise DataError(f"the content names {document['name']} where a dtype is expected")
        return found

    def _number(self, document: dict[str, Any]) -> np.generic:
        kind = np.dtype(document["type"])
        if kind.kind not in NUMBERS:
            raise DataError(f"the content names {kind} where a type of numbers is expected")
        found: np.generic = kind.type(document["value"])
        return found

    def _class(self, document: dict[str, Any], base: type[Base], what: str = "") -> type[Base]:
        """Return the class that a document refers to; ``what`` describes the expected class."""
        kind = class_named(document["class"], self.registered)
        if not issubclass(kind, base):
            raise DataError(f"the content names {kind.__name__} where {what} expected")
        return kind


def _weights(part: nn.Module | None) -> dict[str, Tensor]:
    """Return parameters and buffers of a part by name."""
    assert part is not None
    return {**dict(part.named_parameters()), **dict(part.named_buffers())}


def _check_attributes(kind: type, names: Mapping[str, Document]) -> None:
    """Reject missing attributes, unknown ones, and those that would replace methods."""
    known = [one.name for one in fields(kind)] if is_dataclass(kind) else []
    closed = bool(known) and not hasattr(kind, "__post_init__")  # which may add attributes
    wrong = [
        name
        for name in names
        if name.startswith("__")
        or isinstance(getattr(kind, name, None), FunctionType | property)
        or (closed and name not in known)
    ]
    absent = [name for name in known if name not in {*names, *getattr(kind, "unsaved", ())}]
    said = [f"has no place for {', '.join(wrong)}"] * bool(wrong)
    said += [f"needs {', '.join(absent)}"] * bool(absent)
    if said:
        raise DataError(f"the content is damaged: {kind.__name__} {' and '.join(said)}")


READERS: Mapping[str, Callable[[_Reader, dict[str, Any]], Any]] = {
    "tensor": _Reader._tensor,
    "array": lambda reader, document: reader.tensors[document["name"]].numpy().copy(),
    "texts": lambda _, document: np.array(document["items"], dtype=object),
    "number": _Reader._number,
    "path": lambda _, document: Path(document["value"]),
    "generator": _Reader._generator,
    "list": _Reader._list,
    "tuple": lambda reader, document: tuple(reader._items(document)),
    "set": lambda reader, document: set(reader._items(document)),
    "frozenset": lambda reader, document: frozenset(reader._items(document)),
    "dict": _Reader._dict,
    "object": _Reader._object,
    "packed": _Reader._packed,
    "class": lambda reader, document: reader._class(document, object),
    "settings": _Reader._settings,
    "module": _Reader._module,
    "optimizer": _Reader._optimizer,
    "dtype": _Reader._dtype,
    "device": lambda reader, _: reader.device,
}
