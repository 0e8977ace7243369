"""Fuzzing of files: tables of every format, predictions, idx, runs and models."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from faircil.auditing.reading import audit_file
from faircil.cli import main
from faircil.data.features import fit_encoder
from faircil.data.images import read_idx
from faircil.data.own import OwnData, load_own
from faircil.data.tables import read_table
from faircil.files import write_checksums, write_sealed
from faircil.metrics import evaluate, read_predictions
from faircil.model.model import Model
from faircil.model.saved import CONTENT, load_model, save_model
from faircil.results.folder import find_runs
from faircil.runs.config import resolve
from fuzzing import WORDS, Harness, few_and_thousands, refused, scratch_folder, silent
from spoilt_files import people, replaced, replacing, spoilings, spoilt, write_tables

HOME = scratch_folder()


def folder_of(name: str) -> Path:
    """Return an own folder below that of this process, made anew."""
    folder = HOME / name
    folder.mkdir(exist_ok=True)
    return folder


@cache
def tables() -> dict[str, bytes]:
    return write_tables(folder_of("tables"))


def rows_of(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Draw a file of text: lines of fields with separators, not all of the same length."""
    line = st.lists(values, min_size=1, max_size=5)
    mark = st.sampled_from([",", ",", ";", "\t", "|", " "])
    return st.builds(
        lambda header, lines, mark: "\n".join(map(mark.join, [header, *lines])),
        st.one_of(st.just(["a", "job", "sex", "guess"]), line),
        st.lists(line, max_size=8),
        mark,
    )


fields = st.one_of(WORDS, st.sampled_from(["1", "2.5", "x", "y", "f", "m", "NA", "1e400", "0x1"]))
NAMES = ("t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.feather", "t.npz")
files = st.one_of(
    st.tuples(st.sampled_from(NAMES), spoilings),
    st.tuples(st.sampled_from(["t.csv", "t.tsv"]), rows_of(fields)),
)


def content(whole: bytes, what: Any) -> bytes:
    """Return the content of a file: bytes or a text as they are, or a valid one after changes."""
    if isinstance(what, bytes):
        return what
    return what.encode("utf-8", "replace") if isinstance(what, str) else spoilt(whole, what)


def written(case: tuple[str, Any]) -> Path:
    """Write the file of a case, a table by its name."""
    name, what = case
    path = folder_of("case") / name
    path.write_bytes(content(tables()[name], what))
    return path


def check_table(case: tuple[str, Any]) -> None:
    path = written(case)
    before = path.read_bytes()
    with refused():
        table = read_table(path)
        assert len(table)
        assert len(set(table.columns)) == table.shape[1]
        own = OwnData(path=str(path), label="job", sensitive=("sex",), ignore=("guess",))
        stream = load_own(own, 0)
        assert sum(len(task.train) + len(task.test) for task in stream.tasks) <= len(table)
    assert path.read_bytes() == before


def check_audit_file(case: tuple[str, Any]) -> None:
    path = written(case)
    with refused():
        audit = audit_file(path, truth="job", prediction="guess", sensitive=["sex"], draws=100)
        audit.report()
    if case[1] == []:
        table = people()
        after = evaluate(table["job"], table["guess"], sensitive=table["sex"])
        assert audit.n == len(table)
        assert audit.report().find("accuracy")[0].value == after.accuracy


def check_predictions(case: tuple[str, Any]) -> None:
    text = written(case).read_bytes()
    path = folder_of("predictions") / "p.csv"
    for old, new in ((b"job", b"y_true"), (b"guess", b"y_pred"), (b"sex", b"attribute")):
        text = text.replace(old, new)
    path.write_bytes(text)
    with refused():
        for part in read_predictions(path):
            evaluate(**part)


IDX = bytes([0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2]) + bytes(range(6))


def check_idx(case: Any) -> None:
    data = content(IDX, case)
    with refused():
        array = read_idx(data)
        assert array.tobytes() == data[4 + 4 * array.ndim :]


@cache
def run_folder() -> Path:
    folder = folder_of("runs")
    words = ["run", "--dataset", "toy-groups", "--method", "moments", "--set", "width=8"]
    with silent():
        assert main([*words, "--out", str(folder / "run"), "--quiet", "--no-model"]) == 0
    return folder / "run"


def check_run(case: tuple[str, Any]) -> None:
    """Change a run and compute its checksums anew, as somebody does on purpose."""
    kind, changes = case
    folder = folder_of("changed") / "run"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(run_folder(), folder)
    for path in sorted(folder.rglob("summary.json")):
        if kind == "bytes":
            path.write_bytes(content(path.read_bytes(), changes))
        else:
            path.write_text(json.dumps(replaced(json.loads(path.read_text()), changes)))
        write_checksums(path.parent)
    with refused():
        runs = find_runs([folder])
        assert len(runs) == 1
    for command in ("compare", "report"):
        page = folder_of("changed") / "page.html"
        page.unlink(missing_ok=True)
        more = ["--out", str(page)] if command == "report" else []
        with silent():
            assert main([command, str(folder), *more]) in (0, 1, 2)


@cache
def model_folder() -> Path:
    table = people()
    rows = np.arange(len(table))
    encoder = fit_encoder(table[["a", "b"]], rows, rows)
    own = OwnData(path="", label="class", sensitive=("sex",))
    model = Model(resolve(own=own, method="moments", overrides=["width=8"]), encoder=encoder)
    model.learn(encoder.inputs(table), table["job"].tolist(), table["sex"].tolist())
    folder = folder_of("models") / "model"
    save_model(model, folder)
    return folder


def check_model(case: tuple[str, Any]) -> None:
    """Change a model and compute its hash anew; what loads predicts its own classes."""
    kind, changes = case
    folder = folder_of("changed") / "model"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(model_folder(), folder)
    if kind == "bytes":
        for path in sorted(folder.iterdir()):
            if path.is_file() and path.name != "README.md":
                path.write_bytes(spoilt(path.read_bytes(), changes))
    else:
        sealed = json.loads((folder / CONTENT).read_text())
        inside = sealed["content"]
        sealed["content"] = changes if kind == "content" else replaced(inside, changes)
        write_sealed(folder / CONTENT, sealed)
    with refused():
        model = load_model(folder)
        x = np.zeros((2, model.inputs), dtype=np.float32)
        found = model.probabilities(x)
        assert np.allclose(found.sum(axis=1), 1)
        assert len(model.labels) == found.shape[1]


changed = st.one_of(st.tuples(st.just("bytes"), spoilings), st.tuples(st.just("values"), replacing))
WITHOUT_SECONDS = ("values", [(4, None), (71, None)])
WITHOUT_METHOD = ("bytes", [("remove", 0.0390625, 15)])
HARNESSES = {
    "read_table": Harness(files, check_table),
    "audit_file": Harness(files, check_audit_file),
    "read_predictions": Harness(files, check_predictions),
    "read_idx": Harness(spoilings, check_idx),
    "find_runs": Harness(changed, check_run, (WITHOUT_SECONDS, WITHOUT_METHOD), short=2),
    "load_model": Harness(changed, check_model),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
