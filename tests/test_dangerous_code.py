"""Nothing in product or laboratory runs what a file says: no pickle, no eval, no shell.

The rules are about the syntax. What files may name is tested where they are read: classes in
`test_packing`, members of archives in `data/test_archives`, paths in `test_files_paths`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PICKLES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
# Full names of functions that are not called, and why.
REFUSED = {
    "eval": "runs text",
    "exec": "runs text",
    "compile": "makes code of text",
    "__import__": "imports by name without the checks of the registry",
    "os.system": "starts a shell",
    "os.popen": "starts a shell",
    "subprocess.getoutput": "starts a shell",
    "yaml.load": "makes objects that a file names",
    "torch.save": "pickles",
    "torch.hub.load": "runs downloaded code",
    "pandas.read_pickle": "unpickles",
    "tempfile.mktemp": "names a file that others may make first",
    "shutil.unpack_archive": "writes where members say",
}
# Methods of any object that are not called.
METHODS = {
    "to_pickle": "pickles",
    "read_pickle": "unpickles",
    "extractall": "writes where members say",
    "extract": "writes where a member says",
}
# Calls that need a keyword with this value.
NEEDED = {
    "torch.load": ("weights_only", True),
    "numpy.load": ("allow_pickle", False),
    "numpy.save": ("allow_pickle", False),
}
REMOTE = ("from_pretrained", "trust_remote_code")  # by keyword, or in **FROM_HERE
KINDS = (ast.Import, ast.ImportFrom, ast.Assert, ast.Call)
EXCEPTIONS = {
    ("faircil/sending.py", "pickle"): (
        "work, results and registered pieces go between processes that trust each other, over "
        "pipes and sockets; nothing of it is a file"
    ),
    ("faircil/vision/checkpoints.py", "pickle"): (
        "the error that torch.load raises with weights_only=True"
    ),
}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def full_names(nodes: list[ast.AST]) -> dict[str, str]:
    """Return what names of modules and functions stand for, wherever they are imported."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def called(function: ast.expr, names: dict[str, str]) -> str:
    """Return the full name of a function that is called, as far as the syntax tells."""
    parts = []
    while isinstance(function, ast.Attribute):
        parts.append(function.attr)
        function = function.value
    if not isinstance(function, ast.Name):
        return ".".join(["?", *reversed(parts)])
    return ".".join([names.get(function.id, function.id), *reversed(parts)])


def problems(tree: ast.AST) -> Iterator[tuple[str, int, str]]:
    """Yield what is refused: a short name, the line, and why."""
    nodes = [one for one in ast.walk(tree) if isinstance(one, KINDS)]
    names = full_names(nodes)
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = [alias.name for alias in node.names]
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else modules
            if PICKLES & {module.split(".")[0] for module in modules}:
                yield "pickle", node.lineno, "reading a pickle runs what it says"
        elif isinstance(node, ast.Assert) and node.msg is not None:
            yield "assert", node.lineno, "python -O skips it; raise an error of faircil"
        elif isinstance(node, ast.Call):
            yield from ((what, node.lineno, why) for what, why in problems_of_call(node, names))


def problems_of_call(node: ast.Call, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    name = called(node.func, names)
    given = {one.arg: one.value for one in node.keywords}

    def is_given(keyword: str, value: object) -> bool:
        found = given.get(keyword)
        return isinstance(found, ast.Constant) and found.value is value

    if name in REFUSED:
        yield name, REFUSED[name]
    if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        yield node.func.attr, METHODS[node.func.attr]
    if name in NEEDED and not is_given(*NEEDED[name]):
        keyword, value = NEEDED[name]
        yield name, f"needs {keyword}={value}"
    if "shell" in given and not is_given("shell", False):
        yield "shell", "starts a shell"
    if name.split(".")[-1] == REMOTE[0] and not is_given(REMOTE[1], False):
        rest = [ast.unparse(one.value) for one in node.keywords if one.arg is None]
        if rest != ["FROM_HERE"]:
            yield REMOTE[0], f"needs {REMOTE[1]}=False"


def found_in(path: Path) -> dict[str, str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        what: f"{path.relative_to(ROOT)}:{line}: {what}: {why}"
        for what, line, why in problems(tree)
        # Checks of faircil.testing are asserts: they are for tests.
        if not (what == "assert" and "testing" in path.parts)
    }


@pytest.mark.skipif(not (ROOT / "faircil").is_dir(), reason="the product is installed, not here")
def test_no_file_does_what_is_refused() -> None:
    files = sources("faircil", "lab", "examples")
    assert len(files) > 200
    files = [path for path in files if "tests" not in path.parts[len(ROOT.parts) :]]
    found = {
        (str(path.relative_to(ROOT)), what): line
        for path in files
        for what, line in found_in(path).items()
    }
    new = [line for key, line in found.items() if key not in EXCEPTIONS]
    assert new == []
    # An exception that nothing needs any more goes.
    assert set(EXCEPTIONS) - set(found) == set()


def test_remote_code_is_refused_and_nothing_is_fetched() -> None:
    from faircil.text.encoders import FROM_HERE

    assert FROM_HERE == {"local_files_only": True, "trust_remote_code": False}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import load",
        "eval('1')",
        "import os; os.system('x')",
        "from os import popen as run; run('x')",
        "import torch as t; t.load('x')",
        "import torch; torch.load('x', weights_only=False)",
        "import numpy as np; np.load('x', allow_pickle=True)",
        "import numpy as np; np.load('x')",
        "import subprocess; subprocess.run('x', shell=True)",
        "frame.to_pickle('x')",
        "archive.extractall()",
        "import tempfile; tempfile.mktemp()",
        "from yaml import load; load('x')",
        "assert x, 'must be'",
        "model.from_pretrained('x')",
        "model.from_pretrained('x', trust_remote_code=True)",
    ],
)
def test_each_rule_finds_what_it_is_for(line: str) -> None:
    assert len(list(problems(ast.parse(line)))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import torch; torch.load('x', weights_only=True)",
        "import numpy as np; np.load('x', allow_pickle=False)",
        "import re; re.compile('x')",
        "net.eval()",
        "assert x is not None  # the caller's",
        "model.from_pretrained('x', **FROM_HERE)",
        "import subprocess; subprocess.run(['x'])",
    ],
)
def test_what_is_fine_is_left_alone(line: str) -> None:
    assert list(problems(ast.parse(line))) == []
