"""The example plug-in, installed as a package of its own and used from the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "faircil-example-plugin"
PIECES = {
    "datasets": "rings",
    "methods": "smooth-replay",
    "measures": "old-new",
    "metrics": "class_gap",
    "solvers": "scipy",
    "losses": "brier",
    "buffers": "herding",
    "settings": "smoothing",
}
RUN = (
    "--dataset rings --method smooth-replay --weighting fsw --measure old-new "
    "--set loss=brier solver=scipy buffer_rule=herding epochs=1 hidden=8"
)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the plug-in, and two that are broken, without a network."""
    pytest.importorskip("hatchling", reason="`make setup` installs it, to build the plug-in")
    target = tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    copy = tmp_path_factory.mktemp("source") / "plugin"  # a build may write into its source
    shutil.copytree(EXAMPLE, copy)
    done = subprocess.run([*pip, *offline, str(copy)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, point in {
        "absent": "faircil.solvers]\nabsent = no_such_module:solve",
        "taken": "faircil.measures]\ndp = faircil_example.measure:old_against_new",
    }.items():
        info = target / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{point}\n")
    return target


@dataclass(frozen=True)
class Ended:
    """How a command or a piece of code has ended."""

    code: int
    out: str
    err: str


Session = Callable[[dict[str, str]], dict[str, Ended]]
COMMANDS = {
    "list": "list",
    "run help": "run --help",
    "tune help": "tune --help",
    "run": f"run {RUN} --quiet --out mine",
    "run other": f"run {RUN} smoothing=0.5 --quiet --out other".replace("--weighting fsw ", ""),
    "compare": "compare mine other",
    "tune": f"tune {RUN} --try smoothing=0,0.2 --budget 2 --quiet",
    "unknown": "run --dataset rngs --set loss=brir solver=absnt",
    "broken": f"run {RUN} solver=absent --quiet --out broken",
}
CONTRACTS = """
from faircil import testing

testing.check_learner("smooth-replay")
testing.check_measure("old-new")
testing.check_metric("class_gap")
testing.check_dataset("rings")
testing.check_buffer_rule("herding")
testing.check_loss("brier")
testing.check_solver("scipy")
"""
HERDING = """
import torch
from faircil.buffer import ReplayBuffer
from faircil.compute import Generators
from faircil.learners import LEARNERS
from faircil.nets import build_mlp
from faircil.testing.learners import small_stream

train = small_stream(attribute=True).tasks[0].train
kept = []
for method, setting in (("er", {"buffer_rule": "herding"}), ("icarl", {})):
    row = LEARNERS[method]
    learner = row(build_mlp(6, 5, (8,), 0), row.options(**setting), Generators.from_seed(0))
    learner.begin_task(train, ReplayBuffer(5))
    kept.append(learner.remember(train, None, ReplayBuffer(5)).samples.x)
assert torch.equal(*kept), "another choice than that of iCaRL"
"""
CODE = {"contracts": CONTRACTS, "herding": HERDING}
# In one process, since each takes seconds to import torch: commands, or what begins as code does.
SESSION = """
import contextlib, io, json, sys, traceback
from faircil.cli import main

ended = {}
for name, line in json.load(sys.stdin).items():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = exec(line, {}) or 0 if line[0] == "\\n" else main(line.split())
        except SystemExit as end:
            code = end.code
        except BaseException:
            code = traceback.format_exc()
    ended[name] = [code, out.getvalue(), err.getvalue()]
print(json.dumps(ended))
"""


@pytest.fixture(scope="module")
def session(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Return a function that runs a session, in a process that has the packages."""
    paths = [str(packages), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"}
    folder = tmp_path_factory.mktemp("work")

    def run(lines: dict[str, str]) -> dict[str, Ended]:
        done = subprocess.run(
            [sys.executable, "-c", SESSION],
            cwd=folder,
            env=environment,
            input=json.dumps(lines),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        # What is logged goes to the stream that the process began with.
        logged = {"list": done.stderr}
        return {
            name: Ended(code, out, err + logged.get(name, ""))
            for name, (code, out, err) in json.loads(done.stdout.splitlines()[-1]).items()
        }

    return run


@pytest.fixture(scope="module")
def ended(session: Session) -> dict[str, Ended]:
    """Run all commands."""
    return session(COMMANDS | CODE)


def test_its_pieces_are_listed(ended: dict[str, Ended]) -> None:
    listed = ended["list"]
    assert listed.code == 0
    for kind, name in PIECES.items():
        assert name in listed.out, kind
    assert "Return the Brier score of the softmax outputs" in listed.out
    assert "solver 'absent' cannot be loaded from package absent" in listed.err
    assert "measure 'dp' is defined more than once: by faircil itself" in listed.err


@pytest.mark.parametrize("command", ["run", "tune"])
def test_its_pieces_are_in_the_help(ended: dict[str, Ended], command: str) -> None:
    text = ended[f"{command} help"].out
    assert all(PIECES[kind] in text for kind in ("datasets", "methods", "measures"))


def test_it_runs_and_is_compared(ended: dict[str, Ended]) -> None:
    for name in ("run", "run other", "compare"):
        assert ended[name].code == 0, ended[name].err
    assert "smooth-replay+fsw" in ended["run"].out
    assert "class_gap" in ended["run"].out
    assert "smooth-replay+fsw" in ended["compare"].out
    assert "rings" in ended["compare"].out


def test_its_settings_are_tuned(ended: dict[str, Ended]) -> None:
    assert ended["tune"].code == 0, ended["tune"].err
    assert "chosen: smoothing=0" in ended["tune"].out


def test_a_mistake_names_its_pieces(ended: dict[str, Ended]) -> None:
    assert ended["unknown"].code == 2
    for name in ("rings", "brier", "absent"):
        assert f"did you mean '{name}'" in ended["unknown"].err


def test_a_broken_package_is_an_error_where_it_is_used(ended: dict[str, Ended]) -> None:
    assert ended["broken"].code == 1
    assert "No module named 'no_such_module'" in ended["broken"].err
    assert "Traceback" not in ended["broken"].err


@pytest.mark.parametrize("code", CODE)
def test_its_pieces_do_what_they_promise(ended: dict[str, Ended], code: str) -> None:
    assert ended[code].code == 0, ended[code]


def test_its_code_is_part_of_the_identity_of_a_run(
    session: Session, packages: Path, ended: dict[str, Ended]
) -> None:
    assert ended["run"].code == 0
    again = COMMANDS["run"].replace("--quiet ", "")
    changed = {path: path.read_text() for path in (packages / "faircil_example").glob("*.py")}
    loss = next(path for path in changed if "brier" in changed[path] and "def " in changed[path])
    edit = f"""
from pathlib import Path
from faircil.results import code

loss = Path({str(loss)!r})
loss.write_text(loss.read_text() + "EDITED = True\\n")
code._known.clear()  # as in another process
"""
    try:
        for path, text in changed.items():
            path.write_text(f"# A comment.\n{text}")
        rerun = session({"commented": again, "edit": edit, "edited": again})
    finally:
        for path, text in changed.items():
            path.write_text(text)
    assert "not run again: seed 0" in rerun["commented"].err
    assert rerun["edit"].code == 0, rerun["edit"]
    assert rerun["edited"].code == 1
    assert "seed-0 has another code" in rerun["edited"].err
