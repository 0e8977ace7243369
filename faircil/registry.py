"""Registries of components: built-in, registered by a call, and from installed packages.

A piece is a measure, metric, learner, dataset, buffer rule, loss or solver. Each kind has one
:class:`Registry` of its built-in and added pieces, in which the command line, configurations and
tuning look up names. Packages add pieces by entry points of the group given in :data:`KINDS`;
notebooks add them with :func:`register`.

Files refer to classes by name as well: :func:`class_named` resolves only faircil's own classes,
torch's layers and optimizers, and the classes of registered pieces.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, Protocol, TypeVar, overload

from faircil.errors import DataError, FaircilError, UsageError, unknown_name

Row = TypeVar("Row")
Value = TypeVar("Value")
logger = logging.getLogger(__name__)


class PluginError(FaircilError):
    """A piece of another package that cannot be used."""


def load_reference(reference: str) -> Any:
    """Return the object that ``"module:name"`` refers to."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


class Loaded(Generic[Value]):
    """A field of a row that may be given as ``"module:name"`` and is imported when it is read.

    Tables can thus be read, listed and checked without importing torch.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, row: None, owner: type) -> Loaded[Value]: ...
    @overload
    def __get__(self, row: object, owner: type) -> Value: ...
    def __get__(self, row: object | None, owner: type) -> Loaded[Value] | Value:
        if row is None:
            raise AttributeError(self._name)  # tells dataclasses that the field has no default
        value = vars(row)[self._name]
        if isinstance(value, str):
            value = vars(row)[self._name] = load_reference(value)
        result: Value = value
        return result

    def __set__(self, row: object, value: Value | str) -> None:
        vars(row)[self._name] = value


def implementation(row: object) -> Any:
    """Return the function or class behind a row of any registry.

    Its ``__module__`` is the file that defines the piece.
    """
    for kind in type(row).__mro__:
        for name, field in vars(kind).items():
            if isinstance(field, Loaded):
                return getattr(row, name)
    return row


def summary_of(piece: object) -> str:
    """Return the first line of a docstring, without its final period."""
    line = (getattr(piece, "__doc__", None) or "").strip().partition("\n")[0]
    return line.removesuffix(".")


class Registry(Mapping[str, Row]):
    """Rows of one kind by name.

    Names in installed packages are discovered at the first lookup, and their code is imported when
    their row is first used. A package that fails to import affects only its own pieces: looking one
    up raises :class:`PluginError`, and listings omit it with a logged warning.

    Parameters
    ----------
    kind : str
        What messages call a row, such as ``measure``.
    group : str
        Entry point group of other packages.
    row_of : callable
        Makes a row of a given piece: a row, or a bare function or class. Raises a TypeError with
        the sentence to show if the piece is neither.
    built_in : mapping
    """

    def __init__(
        self,
        kind: str,
        group: str,
        row_of: Callable[[Any], Row],
        built_in: Mapping[str, Row],
    ) -> None:
        self.kind, self.group = kind, group
        self._row_of = row_of
        self._built_in = dict(built_in)
        self._added: dict[str, Row] = {}
        self._loaded: dict[str, Row] = {}
        self._warned: set[str] = set()

    def __repr__(self) -> str:
        return f"Registry of {len(self)} {self.kind}s: {', '.join(self)}"

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._built_in, *self._added, *self._points()]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self._added or name in self._points()

    def __getitem__(self, name: str) -> Row:
        points = self._points().get(name, [])
        origins = [*self._origins(name), *map(_origin, points)]
        if len(origins) > 1:
            raise PluginError(
                f"{self.kind} '{name}' is defined more than once: by {' and by '.join(origins)}; "
                "rename or uninstall all but one"
            )
        if not points:
            return self._added[name] if name in self._added else self._built_in[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name, points[0])
        return self._loaded[name]

    def items(self) -> ItemsView[str, Row]:
        """Return names and rows, without those that cannot be loaded."""
        return self._usable().items()

    def values(self) -> ValuesView[Row]:
        """Return the rows, without those that cannot be loaded."""
        return self._usable().values()

    def find(self, name: str) -> Row:
        """Return the row of a name; a UsageError lists the known ones if there is none."""
        if name not in self:
            raise UsageError(unknown_name(self.kind, name, self))
        return self[name]

    def add(self, name: str, piece: object) -> Row:
        """Add a row, or a piece to make it of; a name that was added before is replaced.

        Replacement allows a notebook cell to be run again.
        """
        if (
            not isinstance(name, str)
            or not name
            or not name.isprintable()
            or set(name) & set(" ,=")
        ):
            raise UsageError(
                f"{name!r} is not a name for a {self.kind}; use letters, digits and hyphens"
            )
        origins = [*self._origins(name), *map(_origin, self._points().get(name, []))]
        if origins and name not in self._added:
            raise UsageError(
                f"{self.kind} '{name}' exists already, defined by {' and by '.join(origins)}; "
                "choose another name"
            )
        self._added[name] = row = self._made(name, piece)
        return row

    def remove(self, name: str) -> None:
        """Remove a row added by :meth:`add`."""
        if name not in self._added:
            raise UsageError(f"no {self.kind} '{name}' was added, so none can be removed")
        del self._added[name]

    @contextmanager
    def temporarily(self, name: str, piece: object) -> Iterator[Row]:
        """Add a row for the duration of a ``with`` block."""
        row = self.add(name, piece)
        try:
            yield row
        finally:
            self.remove(name)

    @property
    def added(self) -> Mapping[str, Row]:
        """The rows added by :meth:`add`, by name."""
        return dict(self._added)

    def _made(self, name: str, piece: object) -> Row:
        try:
            return self._row_of(piece)
        except TypeError as error:
            raise UsageError(f"{self.kind} '{name}': {error}") from None

    def _points(self) -> Mapping[str, list[EntryPoint]]:
        return _entry_points(self.group)

    def _origins(self, name: str) -> list[str]:
        """Return the origins of a name, other than entry points."""
        origins = []
        if name in self._built_in:
            origins.append("faircil itself")
        if name in self._added:
            module = getattr(implementation(self._added[name]), "__module__", "?")
            origins.append(f"a call of faircil.register (from {module})")
        return origins

    def _load(self, name: str, point: EntryPoint) -> Row:
        try:
            return self._made(name, point.load())
        except UsageError as error:
            raise PluginError(f"{error} ({_origin(point)})") from error
        except Exception as error:  # code of another package may raise anything
            raise PluginError(
                f"{self.kind} '{name}' cannot be loaded from {_origin(point)}: "
                f"{type(error).__name__}: {error}; repair or uninstall that package"
            ) from error

    def _usable(self) -> dict[str, Row]:
        rows = {}
        for name in self:
            try:
                rows[name] = self[name]
            except PluginError as error:
                if name not in self._warned:
                    self._warned.add(name)
                    logger.warning("%s", error)
        return rows


def _origin(point: EntryPoint) -> str:
    package = point.dist.name if point.dist else "an unnamed package"
    return f"package {package} ({point.group}: {point.name} = {point.value})"


@cache
def _entry_points(group: str) -> Mapping[str, list[EntryPoint]]:
    """Return the entry points of a group by name; installed packages are scanned once."""
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, []).append(point)
    return found


@dataclass(frozen=True)
class Kind:
    """Where pieces of a kind are found: the entry point group, and the table as ``module:name``."""

    group: str
    registry: str


KINDS: dict[str, Kind] = {
    "measure": Kind("faircil.measures", "faircil.weighting.measures:MEASURES"),
    "learner": Kind("faircil.learners", "faircil.learners:LEARNERS"),
    "dataset": Kind("faircil.datasets", "faircil.data.datasets:DATASETS"),
    "buffer": Kind("faircil.buffers", "faircil.buffer:RULES"),
    "loss": Kind("faircil.losses", "faircil.weighting.losses:LOSSES"),
    "solver": Kind("faircil.solvers", "faircil.weighting.solver:SOLVERS"),
    "metric": Kind("faircil.metrics", "faircil.metrics:METRICS"),
}


def registry_of(kind: str) -> Registry[Any]:
    """Return the registry of a kind, a key of :data:`KINDS`."""
    if kind not in KINDS:
        raise UsageError(unknown_name("kind of piece", kind, KINDS))
    registry: Registry[Any] = load_reference(KINDS[kind].registry)
    return registry


def added_pieces() -> dict[tuple[str, str], object]:
    """Return the rows added by :func:`register`, by kind and name."""
    # A table that is not loaded has no added rows, and loading it takes seconds.
    loaded = [kind for kind in KINDS if KINDS[kind].registry.partition(":")[0] in sys.modules]
    return {(kind, name): row for kind in loaded for name, row in registry_of(kind).added.items()}


def register(kind: str, name: str, piece: object) -> None:
    """Register your own piece under a name that settings can use, for the rest of this process.

    Worker processes of a sweep know the piece if they can import it. Packages should register
    pieces by entry points instead, which the command line finds as well.

    Parameters
    ----------
    kind : {"measure", "learner", "dataset", "buffer", "loss", "solver", "metric"}
    name : str
        A name that no piece from another source has.
    piece : object
        A row (``Measure``, ``Method``, ``Dataset``, ``BufferRule``, ``Loss``, ``Solver``,
        ``Metric``), or what a row is made of: a function, or the class of a learner.

    Examples
    --------
    >>> from faircil.weighting.measures import MEASURES, equal_error_rate
    >>> register("measure", "mine", equal_error_rate)
    >>> "mine" in MEASURES
    True
    >>> MEASURES.remove("mine")
    """
    registry_of(kind).add(name, piece)


# Classes that files may refer to besides registered pieces. torch's layers and optimizers contain
# only numbers and other modules.
OWN = "faircil"
LAYERS = ("torch.nn.modules.", "torch.optim.")


class Registered(Protocol):
    """Looks up classes of other packages, which must be registered to be instantiated."""

    def __call__(self, name: str) -> type | None:
        """Return the class with the name ``module:qualified.name``, if it is registered."""


def name_of(kind: type) -> str:
    """Return the name by which files refer to a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_own(kind: type) -> bool:
    """Whether a class is defined by faircil."""
    return kind.__module__ == OWN or kind.__module__.startswith(f"{OWN}.")


def is_layer(kind: type) -> bool:
    """Whether a class is one of torch's layers and optimizers."""
    return kind.__module__.startswith(LAYERS)


def class_named(name: object, registered: Registered) -> type:
    """Resolve the name of a class in a file: of faircil, torch's layers, or registered pieces.

    Raises
    ------
    DataError
        For any other name.
    """
    module, _, qualified = str(name).partition(":")
    if module == OWN or module.startswith((f"{OWN}.", *LAYERS)):
        # Private modules are excluded; one of them runs the command line.
        private = any(part.startswith("_") for part in module.split("."))
        found: Any = None if private else import_module(module)
        for part in () if private else qualified.split("."):
            found = getattr(found, part)
    else:
        found = registered(str(name))
    # A module also contains its imports: accept only classes that it defines.
    if not isinstance(found, type) or name_of(found) != name:
        raise DataError(
            f"the content names the class '{name}', which is not among faircil's and those of "
            "registered pieces; register the piece that it belongs to, or do not trust the file"
        )
    return found
