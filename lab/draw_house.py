"""Draw the packages of faircil in layers, as ``lint-imports`` enforces them.

``python lab/draw_house.py`` writes ``docs/images/house.svg`` and ``house.png`` from the contract
"Data flows one way" in ``pyproject.toml`` and from the files that are there.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).parent.parent
CONTRACT = "Data flows one way"
WIDTH, HEIGHT, GAP = 10.0, 0.62, 0.16
PRODUCT, LABORATORY = "#DCEAF7", "#F6E7D8"
WHAT = {
    "faircil_lab": "the laboratory: the paper's tables and figures, benchmarks",
    "cli": "the command line",
    "tuning": "settings chosen on held-out training data",
    "sweep": "many runs in several processes, each made once",
    "runs": "one run, from a request to a result",
    "report": "tables, statistics, pictures",
    "results": "records and folders of runs",
    "learners": "one file per method",
    "text": "encoders of texts",
    "data": "streams of tasks",
    "weighting": "FSW: statistics, program, solver, weights",
    "postprocess": "ε-fair predictions",
}


def layers() -> list[list[str]]:
    """Return the layers from top to bottom, each as the modules beside each other."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = content["tool"]["importlinter"]["contracts"]
    (rows,) = [contract["layers"] for contract in contracts if contract["name"] == CONTRACT]
    return [[part.strip() for part in row.split("|")] for row in rows]


def count_files(module: str) -> int:
    """Return the number of Python files of a module or package."""
    base = ROOT / "lab" if module.startswith("faircil_lab") else ROOT
    path = base / module.replace(".", "/")
    return len(list(path.rglob("*.py"))) if path.is_dir() else 1


def draw() -> Figure:
    """Draw a row of boxes for each layer."""
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
    """Draw modules beside each other, as wide as what is written in them."""
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
            facecolor=LABORATORY if module.startswith("faircil_lab") else PRODUCT,
            edgecolor="#456",
            linewidth=0.8,
        )
        axes.add_patch(box)
        middle = (left + width / 2, bottom + HEIGHT / 2)
        axes.text(*middle, text, ha="center", va="center", fontsize=9)
        left += width + GAP


def _label(module: str) -> str:
    name = module.removeprefix("faircil.")
    files = count_files(module)
    title = f"{name}/ ({files})" if files > 1 else name
    return f"{title}   {WHAT[name]}" if name in WHAT else title


def main() -> None:
    """Write the picture."""
    figure = draw()
    with matplotlib.rc_context({"svg.hashsalt": "faircil", "savefig.dpi": 150}):
        figure.savefig(ROOT / "docs/images/house.svg", metadata={"Date": None})
        figure.savefig(ROOT / "docs/images/house.png")


if __name__ == "__main__":
    main()
