"""The code that a result depends on, found by static analysis.

Imports are followed from the modules where a computation begins, and from the pieces in its
configuration, within faircil and within the packages of the pieces. The syntax is hashed, without
comments, docstrings and formatting. A table of pieces, such as the learners by name, leads to the
chosen piece only.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import sys
import sysconfig
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

import faircil

LENGTH = 12  # of a digest
_known: dict[tuple[Any, ...], tuple[Any, str]] = {}


def digest_code(
    modules: Iterable[str], pieces: Iterable[object] = (), tables: Collection[str] = ()
) -> str:
    """Return a short hash of the code that a result depends on.

    The result is cached by arguments, unless a piece is defined in a script or notebook.

    Parameters
    ----------
    modules : iterable of str
        Names of the modules where the computation begins.
    pieces : iterable of object
        Functions, classes or table rows that it also uses. Their modules belong to the code; for
        those defined in a script or notebook, their source and what they refer to there.
    tables : collection of str
        Tables of pieces as ``"module:NAME"``. Imports of a module for such a table only do not
        belong to the code.
    """
    modules, pieces, tables = tuple(modules), tuple(pieces), tuple(tables)
    key = modules, tuple(map(id, pieces)), tables
    if key in _known:
        return _known[key][1]
    found = Pieces()
    found.add(pieces)
    starts = [_source(import_module(name)) for name in modules]
    digest = hashlib.sha256()
    reached = _reached([*starts, *found.sources], tables)
    for line in sorted({f"{source.name} {_parsed(source, tables).digest}" for source in reached}):
        digest.update(f"{line}\n".encode())
    for text in found.texts:
        digest.update(f"{text}\0".encode())
    result = digest.hexdigest()[:LENGTH]
    if found.from_files:
        _known[key] = pieces, result  # keeps the pieces alive, so that their ids are not reused
    return result


class Source(NamedTuple):
    """A module and its file."""

    name: str
    path: Path

    @property
    def home(self) -> Path:
        """The folder that contains its top-level package."""
        return self.path.parents[self.name.count(".") + (self.path.name == "__init__.py")]

    @property
    def package(self) -> str:
        """The package to which relative imports refer."""
        own = self.path.name == "__init__.py"
        return self.name if own else self.name.rpartition(".")[0]


def _source(module: ModuleType | None) -> Source | None:
    """Return the source of a module; None if it has no Python file."""
    file = getattr(module, "__file__", None)
    if module is None or file is None or not file.endswith(".py"):
        return None
    return Source(module.__name__, Path(file))


def _below(home: Path, name: str) -> Source | None:
    """Find a module by name below the folder of its top-level package."""
    path = home.joinpath(*name.split("."))
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if file.is_file():
            return Source(name, file)
    return None


INSTALLED = frozenset(Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib"))
# The libraries that faircil uses: their versions are recorded, their code is not read.
LIBRARIES = {"torch", "numpy", "scipy", "highspy", "sklearn", "transformers", "tokenizers"}
HOME = Path(faircil.__file__).parents[1]


def _reached(starts: Iterable[Source | None], tables: tuple[str, ...]) -> set[Source]:
    """Return these modules, their parent packages, and all their direct and indirect imports."""
    todo, reached = [source for source in starts if source is not None], set[Source]()
    while todo:
        source = todo.pop()
        if source not in reached:
            reached.add(source)
            todo += _parsed(source, tables).imports
    return reached


def _found(names: Iterable[str], importer: Source) -> frozenset[Source]:
    """Return the modules of these names and their parent packages that belong to the code."""
    # For a.b.c, also a and a.b.
    parts = {part for name in names for part in accumulate(name.split("."), "{}.{}".format)}
    # Its names are defined elsewhere, and its version does not affect results.
    parts.discard(faircil.__name__)
    found = {_below(home, name) for name in parts if (home := _home(name, importer)) is not None}
    return frozenset(source for source in found if source is not None)


def _home(name: str, importer: Source) -> Path | None:
    """Return where to look for a module: next to its importer, unless libraries are there too."""
    top = name.partition(".")[0]
    if top == faircil.__name__:
        return HOME
    same = top == importer.name.partition(".")[0]
    return importer.home if same or importer.home not in INSTALLED else None


class Parsed(NamedTuple):
    """The relevant content of a module: a hash of its syntax, and its imports."""

    digest: str
    imports: frozenset[Source]


def _parsed(source: Source, tables: tuple[str, ...]) -> Parsed:
    state = source.path.stat()
    pairs = (table.split(":") for table in tables)
    here = tuple(name for module, name in pairs if module == source.name)
    return _parse(source, here, state.st_mtime_ns, state.st_size)


@cache
def _parse(source: Source, tables: tuple[str, ...], written: int, size: int) -> Parsed:
    del written, size  # part of the cache key, so that an edited file is read again
    tree = ast.parse(source.path.read_bytes())
    if tables:
        _drop_tables(tree, tables)
    writer = SyntaxWriter(source.package, _constants(tree))
    writer.write(tree)
    names = [source.name, *writer.imports]
    return Parsed(hashlib.sha256(writer.text.encode()).hexdigest(), _found(names, source))


def _drop_tables(tree: ast.Module, tables: Collection[str]) -> None:
    """Remove the assignments of tables, and imports and constants that only they use.

    Functions that are defined in a table stay.
    """
    dropped = [node for node in tree.body if _assigned(node).keys() & set(tables)]
    values = [value for node in dropped for value in _assigned(node).values()]
    inside = [node for value in values for node in ast.walk(value)]
    tree.body = [node for node in tree.body if node not in dropped]
    tree.body += [ast.Expr(node) for node in inside if isinstance(node, ast.Lambda)]
    only = _read(inside) - _read(ast.walk(tree))
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            node.names = [name for name in node.names if (name.asname or name.name) not in only]
    tree.body = [
        node
        for node in tree.body
        if getattr(node, "names", True) and not (_assigned(node) and _assigned(node).keys() <= only)
    ]


def _constants(tree: ast.Module) -> dict[str, str]:
    """Return the string constants of a module by name."""
    return {
        name: value.value
        for node in tree.body
        for name, value in _assigned(node).items()
        if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _assigned(node: ast.stmt) -> dict[str, ast.expr]:
    """Return the names that a statement assigns, with their values."""
    found: dict[str, ast.expr] = {}
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return found
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            names = [getattr(name, "id", "") for name in target.elts]
            found |= zip(names, node.value.elts, strict=False)
        elif isinstance(target, ast.Name):
            found[target.id] = node.value
    return found


def _read(nodes: Iterable[ast.AST]) -> set[str]:
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


# "module:name": references to objects that are imported on use
REFERENCE = re.compile(r"([A-Za-z_]\w*(?:\.\w+)+):[A-Za-z_]\w*")


class SyntaxWriter:
    """Writes a syntax tree as text, independent of the Python version, and collects imports.

    It omits docstrings and other bare strings, positions, and what only a type checker sees.
    """

    def __init__(self, package: str = "", constants: Mapping[str, str] | None = None) -> None:
        self._package, self._constants = package, constants or {}
        self._parts: list[str] = []
        self.imports: set[str] = set()

    @property
    def text(self) -> str:
        """The text written so far."""
        return " ".join(self._parts)

    def write(self, node: ast.AST) -> None:
        """Write a node and everything below it."""
        if isinstance(node, ast.Import):
            self.imports.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node)
        elif match := REFERENCE.fullmatch(self._text(node)):
            self.imports.add(match[1])
        self._parts.append(f"({type(node).__name__}")
        for name in node._fields:
            value = getattr(node, name, None)
            if value is None or name == "ctx":
                continue
            values = value if isinstance(value, list) else [value]
            if values:
                self._parts.append(name)
            for item in values:
                if not isinstance(item, ast.AST):
                    self._parts.append(repr(item))
                elif not _is_silent(item):
                    self.write(item)
        self._parts.append(")")

    def _text(self, node: ast.AST) -> str:
        """Return a string, with constants of the module inserted for their names; else nothing."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else ""
        if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
            return self._constants.get(node.value.id, "")
        return "".join(map(self._text, node.values)) if isinstance(node, ast.JoinedStr) else ""

    def _import_from(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            parts = self._package.split(".")
            above = ".".join(parts[: len(parts) - node.level + 1])
            base = f"{above}.{base}" if base else above
        # A name may be that of a module; for others, no file is found.
        self.imports.update([base, *(f"{base}.{name.name}" for name in node.names)])


def _is_silent(node: ast.AST) -> bool:
    """Whether a statement has no effect when it is executed."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.If) and not node.orelse:
        test = node.test
        return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"
    return False


MAIN = ("__main__", "__mp_main__")  # a script or notebook; the second in its child processes
FOR_PEOPLE = "summary"  # the field of a row that does not affect results


class Pieces:
    """The code of objects: modules with a file, and texts for code that is not in a file."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.texts: list[str] = []
        self.from_files = True  # whether nothing is defined in a script or notebook
        self._seen: dict[int, object] = {}

    def add(self, piece: Any) -> None:
        """Add an object and everything that it consists of."""
        if piece is None or isinstance(piece, str | bytes | int | float | complex):
            self.texts.append(repr(piece))
            return
        if id(piece) in self._seen:
            return
        self._seen[id(piece)] = piece
        if isinstance(piece, type):
            self._add_class(piece)
        elif isinstance(piece, FunctionType):
            self._add_function(piece)
        elif isinstance(piece, MethodType):
            self._add_all([piece.__func__, piece.__self__])
        elif isinstance(piece, partial):
            self._add_all([piece.func, piece.args, piece.keywords])
        elif isinstance(piece, ModuleType):
            self.texts.append(piece.__name__)
            self._add_module(piece.__name__)
        elif isinstance(piece, Mapping):
            self._add_all(part for item in sorted(piece.items(), key=repr) for part in item)
        elif isinstance(piece, tuple | list):
            self._add_all(piece)
        elif isinstance(piece, set | frozenset):
            self._add_all(sorted(piece, key=repr))
        else:
            self._add_instance(piece)

    def _add_all(self, pieces: Iterable[object]) -> None:
        for piece in pieces:
            self.add(piece)

    def _add_instance(self, piece: Any) -> None:
        self.add(type(piece))
        if hasattr(piece, "__array__"):
            self.texts.append(hashlib.sha256(np.asarray(piece).tobytes()).hexdigest())
        elif is_dataclass(piece):
            names = [field.name for field in fields(piece) if field.name != FOR_PEOPLE]
            self._add_all(getattr(piece, name) for name in names)
        else:
            self.texts.append(getattr(piece, "__qualname__", ""))  # such as a built-in function
            self._add_all([getattr(piece, "__module__", None), getattr(piece, "__dict__", {})])

    def _add_class(self, piece: type) -> None:
        self.texts.append(piece.__qualname__)
        self._add_all(base for base in piece.__bases__ if _is_near(base.__module__))
        if self._add_module(piece.__module__):
            return
        self._add_syntax(piece)
        for value in vars(piece).values():
            if isinstance(function := getattr(value, "__func__", value), FunctionType):
                self._add_globals(function)

    def _add_function(self, piece: FunctionType) -> None:
        self.texts.append(piece.__qualname__)
        # Variables captured by a closure are in no file.
        self._add_all(_captured(piece))
        if not self._add_module(piece.__module__):
            self._add_syntax(piece)
            self._add_all([piece.__defaults__, piece.__kwdefaults__])
            self._add_globals(piece)

    def _add_module(self, name: str) -> bool:
        """Add a module; return False for a script or notebook, of which only the piece counts."""
        top = name.partition(".")[0]
        if name not in MAIN and (top in sys.stdlib_module_names or top in LIBRARIES):
            return True
        source = None if name in MAIN else _source(sys.modules.get(name))
        if source is not None:
            self.sources.append(source)
        self.from_files &= source is not None
        return source is not None

    def _add_syntax(self, piece: Any) -> None:
        writer = SyntaxWriter()
        try:
            writer.write(ast.parse(textwrap.dedent(inspect.getsource(piece))))
            self.texts.append(writer.text)
        except (OSError, TypeError, SyntaxError):  # typed into an interpreter: compiled code only
            functions = [piece] if isinstance(piece, FunctionType) else vars(piece).values()
            self.texts += [_compiled(f.__code__) for f in functions if isinstance(f, FunctionType)]

    def _add_globals(self, function: FunctionType) -> None:
        """Add what a script's or notebook's function refers to there, except installed packages."""
        for name in _names(function.__code__):
            value = function.__globals__.get(name)
            module = value if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            if module is None or _is_near(str(getattr(module, "__name__", module))):
                self.add(value)


def _is_near(module: str) -> bool:
    """Whether a module is of faircil, a script or notebook, or a package next to them."""
    top = module.partition(".")[0]
    source = _source(sys.modules.get(top))
    near = source is not None and source.home not in INSTALLED
    return near or top == faircil.__name__ or top in MAIN


def _captured(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            yield None


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _compiled(code: CodeType) -> str:
    constants = [_compiled(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return repr((code.co_code, code.co_names, constants))
