"""Print the counts of the house: files, lines, imports, names, and the walk of a run.

    python lab/house.py           the counts, and the walk by tracing a real run
    python lab/house.py --quick   without the walk, in a second
    python lab/house.py --picture also docs/images/house.svg: the packages in layers

Definitions:

- A *file* is a Python file of the product (``faircil/``) or of the laboratory (``lab/`` without
  its tests).
- *Internal imports* are import statements that name the package they stand in, wherever in the
  file; a statement counts once, however many names it imports.
- A *name that recurs* is one that two files of a package share, ``__init__`` aside.
- The *walk* is ``faircil run --data people.csv --label job --sensitive sex --method fsw``. Its
  files are those of the product in which a function is called between the command and the printed
  table; what runs while a module is imported does not count. Read in the order of first calls, one
  function after another, a *change* is a step to another file, a *return* one to a file that was
  left before.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import io
import random
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from types import CodeType, FrameType

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).resolve().parent.parent
PRODUCT, LABORATORY = "faircil", "faircil_lab"
# At most what there is: one file more is a decision, with its reason in the message of the commit.
# A piece gets a file of its own when a second place needs it, or when its file has two ideas.
MOST_PRODUCT, MOST_LABORATORY, MOST_WALK, MOST_IMPORTS = 214, 77, 80, 26.0
# Names that two files of the product share: files of models name the classes of two of them by
# module (`features`), `options` is for learners of others, and `tune` is a command and a function.
RECURRING = ("features", "options", "tune")


@dataclass(frozen=True)
class Counts:
    """What is counted of a package.

    Parameters
    ----------
    files : int
    lines : tuple of float
        Median, 90th percentile and maximum of the lines of a file.
    imports : float
        Internal import statements per 1,000 lines.
    recurring : tuple of str
        Names that several files share.
    imported_once : int
        Modules that a single other module of the package imports.
    """

    files: int
    lines: tuple[float, float, float]
    imports: float
    recurring: tuple[str, ...]
    imported_once: int


@dataclass(frozen=True)
class Walk:
    """Files in which functions are called, changes of file, and returns among them."""

    files: tuple[str, ...]
    changes: int
    returns: int


def files_of(package: str, root: Path = ROOT) -> list[Path]:
    """Return the Python files of the product or of the laboratory."""
    folder = root / "lab" if package == LABORATORY else root / package
    found = sorted(folder.rglob("*.py"))
    return [path for path in found if "tests" not in path.relative_to(folder).parts]


def counts_of(package: str, root: Path = ROOT) -> Counts:
    """Count a package."""
    files = files_of(package, root)
    texts = {path: path.read_text("utf-8") for path in files}
    lines = [len(text.splitlines()) for text in texts.values()]
    base = root / "lab" if package == LABORATORY else root
    imports = {path: list(_imports(texts[path], _module(path, base), package)) for path in files}
    modules = {_module(path, base) for path in files}
    importers = Counter(
        name
        for path, found in imports.items()
        for name in {one for names in found for one in names if one in modules}
        if name != _module(path, base)
    )
    names = Counter(path.stem for path in files if path.stem != "__init__")
    return Counts(
        len(files),
        (median(lines), quantiles(lines, n=10)[-1], max(lines)),
        1000 * sum(map(len, imports.values())) / sum(lines),
        tuple(sorted(name for name, times in names.items() if times > 1)),
        sum(times == 1 for times in importers.values()),
    )


def _module(path: Path, base: Path) -> str:
    parts = path.relative_to(base).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(text: str, module: str, package: str) -> Iterator[list[str]]:
    """Yield for each import statement of the same package what it may name, modules or not."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                parent = module.split(".")[: -node.level]
                source = ".".join([*parent, source] if source else parent)
            names = [source, *(f"{source}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        if any(name == package or name.startswith(f"{package}.") for name in names):
            yield names


class Tracer:
    """Notes each function of the product when it is first called."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self._seen: set[CodeType] = set()
        self._folder = str(ROOT / PRODUCT)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Take a call; ``sys.setprofile`` calls this for every function."""
        code = frame.f_code
        if event != "call" or code in self._seen or not code.co_filename.startswith(self._folder):
            return
        # Bodies of modules and classes are no functions, and imports are no part of the walk.
        if not code.co_flags & inspect.CO_OPTIMIZED or self._imports(frame):
            return
        self._seen.add(code)
        self.files.append(str(Path(code.co_filename).relative_to(ROOT)))

    def _imports(self, frame: FrameType) -> bool:
        caller = frame.f_back
        while caller is not None:
            code = caller.f_code
            if code.co_name == "<module>" and code.co_filename.startswith(self._folder):
                return True
            caller = caller.f_back
        return False


def walk() -> Walk:
    """Trace a run on an own table."""
    from faircil.cli import main

    tracer = Tracer()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_people(Path("people.csv"))
        # A named method: `auto` makes several runs before the one that is wanted.
        roles = ["--label", "job", "--sensitive", "sex"]
        command = ["run", "--data", "people.csv", *roles, "--method", "fsw"]
        command += ["--set", "epochs=1", "hidden=8", "buffer_size=4", "--device", "cpu"]
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            threading.setprofile(tracer)
            sys.setprofile(tracer)
            try:
                code = main(command)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)  # type: ignore[arg-type]
    if code:
        raise SystemExit(f"the run of the walk failed:\n{shown.getvalue()}")
    return walk_of(tracer.files)


def walk_of(files: Sequence[str]) -> Walk:
    """Count the steps through files in the order of first calls.

    Examples
    --------
    >>> walk_of(["a", "a", "b", "a", "c"])
    Walk(files=('a', 'b', 'c'), changes=3, returns=1)
    """
    changes = returns = 0
    known: dict[str, None] = {}
    before = None
    for file in files:
        if before is not None and file != before:
            changes += 1
            returns += file in known
        known[file] = None
        before = file
    return Walk(tuple(known), changes, returns)


def write_people(path: Path, rows: int = 400) -> None:
    """Write a table of people: four jobs, a sex, two numbers that depend on the job."""
    draw = random.Random(0)  # made-up people, no secrets  # nosec B311
    lines = ["age,hours,sex,job"]
    for _ in range(rows):
        job = draw.randrange(4)
        age, hours = 20 + 8 * job + draw.gauss(0, 3), 40 - 5 * job + draw.gauss(0, 2)
        lines.append(f"{age:.1f},{hours:.1f},{draw.choice('fm')},{'abcd'[job]}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def table(walked: Walk | None) -> list[tuple[str, str, str, str]]:
    """Return the rows: what is counted, product, laboratory, target."""
    product, laboratory = counts_of(PRODUCT), counts_of(LABORATORY)
    both = (product, laboratory)

    def row(name: str, values: Sequence[object], target: str = "") -> tuple[str, str, str, str]:
        return (name, str(values[0]), str(values[1]) if len(values) > 1 else "", target)

    target = f"<= {MOST_PRODUCT}, <= {MOST_LABORATORY}"
    rows = [
        row("files", [one.files for one in both], target),
        row("lines of a file: median", [f"{one.lines[0]:.0f}" for one in both]),
        row("lines of a file: 90th percentile", [f"{one.lines[1]:.0f}" for one in both]),
        row("lines of a file: maximum", [f"{one.lines[2]:.0f}" for one in both]),
        row(
            "internal imports per 1,000 lines",
            [f"{one.imports:.1f}" for one in both],
            f"<= {MOST_IMPORTS:.0f} (product)",
        ),
        row("names of files that recur", [" ".join(one.recurring) or "none" for one in both]),
        row("modules with a single importer", [one.imported_once for one in both]),
    ]
    if walked is not None:
        rows += [
            row("walk: files", [len(walked.files)], f"<= {MOST_WALK}"),
            row("walk: changes of file", [walked.changes]),
            row("walk: returns among them", [walked.returns]),
        ]
    return rows


def show(rows: Sequence[Sequence[str]]) -> str:
    """Write rows in columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


CONTRACT = "Data flows one way"
WIDTH, HEIGHT, GAP = 10.0, 0.62, 0.16
PRODUCT_COLOUR, LABORATORY_COLOUR = "#DCEAF7", "#F6E7D8"
WHAT = {
    "faircil_lab": "the laboratory: the paper's tables and figures, benchmarks",
    "cli": "the command line",
    "tuning": "settings chosen on held-out training data",
    "sweep": "many runs in several processes, each made once",
    "runs": "one run, from a request to a result",
    "auditing": "how fair predictions are, with intervals; a gate",
    "report": "tables, statistics, pictures",
    "results": "records and folders of runs",
    "learners": "one file per method",
    "moments": "sums of groups, fair weights",
    "text": "encoders of texts",
    "vision": "images: encoders, pixels",
    "media": "texts and images as inputs",
    "data": "streams of tasks",
    "weighting": "FSW: statistics, program, solver, weights",
    "postprocess": "ε-fair predictions",
    "model": "models that people use: tables, sites, scikit-learn",
    "engines": "processes, Dask",
    "cluster": "workers of Dask",
    "sending": "work for other processes",
}


def layers() -> list[list[str]]:
    """Return the layers from top to bottom, each as modules next to each other."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = content["tool"]["importlinter"]["contracts"]
    (rows,) = [contract["layers"] for contract in contracts if contract["name"] == CONTRACT]
    return [[part.strip() for part in row.split("|")] for row in rows]


def described() -> str:
    """Return the layers in words: those of the picture, which has its letters as shapes."""
    return " / ".join(", ".join(map(_label, modules)) for modules in layers())


def count_files(module: str) -> int:
    """Return the number of Python files of a module or package."""
    base = ROOT / "lab" if module.startswith("faircil_lab") else ROOT
    path = base / module.replace(".", "/")
    return len(list(path.rglob("*.py"))) if path.is_dir() else 1


def draw() -> Figure:
    """Draw a row of boxes for each layer that ``lint-imports`` enforces."""
    rows = layers()
    figure = Figure(figsize=(10, 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for number, modules in enumerate(rows):
        _row(axes, modules, -number * (HEIGHT + GAP))
    axes.set_xlim(-0.05, WIDTH + 0.05)
    axes.set_ylim(-len(rows) * (HEIGHT + GAP), HEIGHT + GAP)
    axes.axis("off")
    return figure


def _row(axes: Axes, modules: list[str], bottom: float) -> None:
    """Draw modules next to each other, as wide as what is written in them."""
    texts = {module: _label(module) for module in modules}
    total = sum(map(len, texts.values())) + 4 * len(texts)
    room, left = WIDTH - GAP * (len(modules) - 1), 0.0
    for module, text in texts.items():
        width = room * (len(text) + 4) / total
        box = FancyBboxPatch(
            (left, bottom),
            width,
            HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=LABORATORY_COLOUR if module.startswith(LABORATORY) else PRODUCT_COLOUR,
            edgecolor="#456",
            linewidth=0.8,
        )
        axes.add_patch(box)
        middle = (left + width / 2, bottom + HEIGHT / 2)
        axes.text(*middle, text, ha="center", va="center", fontsize=9)
        left += width + GAP


def _label(module: str) -> str:
    name = module.removeprefix("faircil.")
    title = f"{name}/" if count_files(module) > 1 else name
    return f"{title}   {WHAT[name]}" if name in WHAT else title


def write_picture() -> None:
    """Write the picture of the layers for ``docs/architecture.md``."""
    figure = draw()
    with matplotlib.rc_context({"svg.hashsalt": "faircil", "savefig.dpi": 150}):
        metadata = {"Date": None, "Description": described()}
        figure.savefig(ROOT / "docs/images/house.svg", metadata=metadata)
        figure.savefig(ROOT / "docs/images/house.png")


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave the walk out")
    parser.add_argument("--files", action="store_true", help="name the files of the walk")
    parser.add_argument("--picture", action="store_true", help="draw docs/images/house.svg too")
    arguments = parser.parse_args()
    if arguments.picture:
        write_picture()
    walked = None if arguments.quick else walk()
    print(show([("", "product", "laboratory", "target"), *table(walked)]))  # noqa: T201
    if arguments.files and walked is not None:
        print("\n".join(walked.files))  # noqa: T201


if __name__ == "__main__":
    main()
