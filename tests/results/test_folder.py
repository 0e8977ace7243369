from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faircil.errors import DataError, FaircilError
from faircil.files import write_checksums
from faircil.results.folder import (
    find_runs,
    read_identity,
    read_run,
    write_run,
)
from faircil.results.record import GroupWeights, RunResult
from faircil.results.run_files import read_epochs, read_final_predictions, read_names
from run_results import CONFIG, make_result

ENVIRONMENT = {"command": "faircil run"}


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_written_run_is_read_back(tmp_path: Path) -> None:
    written = write_run(tmp_path / "seed-0", make_result(), ENVIRONMENT)
    assert read_run(tmp_path / "seed-0") == written
    assert written.notes == ["a note"]
    assert read_identity(tmp_path / "seed-0")["config"] == CONFIG
    assert json.loads((tmp_path / "seed-0/environment.json").read_text()) == ENVIRONMENT
    assert sorted(contents(tmp_path)) == [
        f"seed-0/{name}"
        for name in (
            "SHA256SUMS", "config.json", "environment.json", "epochs.jsonl", "metrics.jsonl",
            "predictions.csv", "summary.json",
        )
    ]  # fmt: skip


def test_predictions_have_names(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(), ENVIRONMENT)
    lines = (tmp_path / "seed-0/predictions.csv").read_text().splitlines()
    assert lines[:2] == ["after_task,task,y_true,y_pred,probability,attribute", "1,1,a,a,0.9,F"]
    assert lines[6] == "2,1,a,c,0.82,M"
    assert len(lines) == 1 + 4 + 6


def test_final_predictions_are_read_back_with_unknown_values_as_none(tmp_path: Path) -> None:
    result = make_result()
    last = result.predictions[-1]
    unknown = replace(last, sensitive=np.array([-1, -2, 0, 1, 0, 1]))
    result = replace(result, predictions=(result.predictions[0], unknown))
    write_run(tmp_path / "seed-0", result, ENVIRONMENT)
    final = read_final_predictions(tmp_path / "seed-0")
    assert final.sensitive == [None, None, "F", "M", "F", "M"]
    assert final.y_pred == ["a", "c", "b", "b", "c", "c"]
    assert final.probability == pytest.approx(last.probability.tolist(), abs=0.5e-6)
    (tmp_path / "seed-0/predictions.csv").write_text("after_task\n1\n")
    with pytest.raises(DataError, match=r"altered after it was written: predictions\.csv"):
        read_final_predictions(tmp_path / "seed-0")


def test_predictions_without_an_attribute(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(attribute=False), ENVIRONMENT)
    lines = (tmp_path / "seed-0/predictions.csv").read_text().splitlines()
    assert lines[:2] == ["after_task,task,y_true,y_pred,probability", "1,1,a,a,0.9"]


def test_old_run_is_replaced_without_leftovers(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(), ENVIRONMENT)
    (tmp_path / "seed-0" / ".DS_Store").touch()
    write_run(tmp_path / "seed-0", make_result(measure="dp"), ENVIRONMENT)
    assert read_run(tmp_path / "seed-0").config["measure"] == "dp"
    assert [path.name for path in tmp_path.iterdir()] == ["seed-0"]
    assert not (tmp_path / "seed-0" / ".DS_Store").exists()


@pytest.mark.parametrize(("module", "failing"), [(os, "open"), (Path, "open"), (Path, "rename")])
def test_old_run_survives_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, failing: str
) -> None:
    write_run(tmp_path / "seed-0", make_result(), ENVIRONMENT)
    before = contents(tmp_path)
    original = getattr(module, failing)

    def fail(path: str | Path, *arguments: Any, **options: Any) -> Any:
        # The disk is full for the new run; the old one can still be moved about.
        writes = module is not os or arguments[0] & os.O_CREAT  # to remove, folders are opened
        if writes and "partial" in str(path) and Path(path).name != "config.json":
            raise OSError(28, "No space left on device")
        return original(path, *arguments, **options)

    monkeypatch.setattr(module, failing, fail)
    with pytest.raises(FaircilError, match=r"No space left on device; free space.*folder"):
        write_run(tmp_path / "seed-0", make_result(measure="dp"), ENVIRONMENT)
    monkeypatch.undo()
    assert contents(tmp_path) == before


def test_runs_are_found_once_in_order_and_hidden_ones_are_not(tmp_path: Path) -> None:
    for name, seed in (("b/seed-1", 1), ("b/seed-0", 0), ("a/seed-0", 0), ("a/.seed-1.old", 1)):
        measure = "dp" if name.startswith("a") else "eo"
        write_run(tmp_path / name, make_result(seed, measure=measure), ENVIRONMENT)
    runs = find_runs([tmp_path / "b", tmp_path, tmp_path / "a" / ".." / "b"])
    assert [run.dir for run in runs] == [
        str(tmp_path / name) for name in ("b/seed-0", "b/seed-1", "a/seed-0")
    ]


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[]", b"", b'{"label": "x"}'])
def test_altered_summary(tmp_path: Path, content: bytes) -> None:
    write_run(tmp_path / "seed-0", make_result(), ENVIRONMENT)
    (tmp_path / "seed-0" / "summary.json").write_bytes(content)
    with pytest.raises(DataError, match=r"was altered after it was written: summary\.json"):
        find_runs([tmp_path])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "summary.json is damaged"),
        (b"\xff", "summary.json is damaged"),
        (b"[]", "not written by this version"),
        (b'{"label": "x", "later": 1}', "not written by this version"),
    ],
)
def test_damaged_summary(tmp_path: Path, content: bytes, message: str) -> None:
    write_run(tmp_path / "seed-0", make_result(), ENVIRONMENT)
    (tmp_path / "seed-0" / "summary.json").write_bytes(content)
    (tmp_path / "seed-0" / "SHA256SUMS").unlink()
    write_checksums(tmp_path / "seed-0")
    with pytest.raises(DataError, match=message):
        find_runs([tmp_path])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("metrics", "accuracy"), float("nan")),
        (("metrics", "eo"), float("inf")),
        (("per_task",), []),
        (("config", "dataset"), None),
        (("config", "measure"), ["eo"]),
        (("config", "settings"), 3),
        (("config", "own"), "mine"),
        (("config", "own"), {"sensitive": 3}),
        (("config", "own"), {"sensitive": [1e308]}),
        (("config", "favoured"), 3),
    ],
)
def test_a_summary_with_values_of_other_types_is_refused(
    tmp_path: Path, place: tuple[str, ...], value: object
) -> None:
    write_run(tmp_path / "seed-0", make_result(), ENVIRONMENT)
    file = tmp_path / "seed-0" / "summary.json"
    document = json.loads(file.read_text())
    inner = document
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    file.write_text(json.dumps(document))
    (tmp_path / "seed-0" / "SHA256SUMS").unlink()
    write_checksums(tmp_path / "seed-0")
    with pytest.raises(DataError, match="not written by this version"):
        find_runs([tmp_path])


def test_everything_that_cannot_be_used_is_named_at_once(tmp_path: Path) -> None:
    for seed in range(4):
        write_run(tmp_path / f"seed-{seed}", make_result(seed), ENVIRONMENT)
    (tmp_path / "seed-1" / "summary.json").unlink()
    (tmp_path / "seed-2" / "predictions.csv").unlink()
    (tmp_path / "seed-3" / "SHA256SUMS").unlink()
    with pytest.raises(DataError) as raised:
        find_runs([tmp_path])
    first, second, third = str(raised.value).splitlines()
    assert "seed-1/summary.json is missing, so" in first
    assert "seed-2 lacks predictions.csv" in second
    assert "seed-3 has no readable SHA256SUMS" in third


def test_a_copied_run_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "seed-0", make_result(), ENVIRONMENT)
    shutil.copytree(tmp_path / "a" / "seed-0", tmp_path / "a" / "seed-1")
    with pytest.raises(DataError, match="seed-1 holds the run of seed 0: it is a copy"):
        find_runs([tmp_path])
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "seed-1").rename(tmp_path / "b" / "seed-0")
    with pytest.raises(DataError, match=r"b/seed-0 and .*a/seed-0 are the same run"):
        find_runs([tmp_path])
    assert len(find_runs([tmp_path / "a"])) == 1


def test_folder_without_a_summary_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"summary.json is missing, so .* is not a finished run"):
        read_run(tmp_path)


def test_a_run_on_validation_data_keeps_no_predictions(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-0", make_result(evaluate_on="validation"), {})
    names = {path.name for path in (tmp_path / "seed-0").iterdir()}
    assert names == {
        *("SHA256SUMS", "config.json", "environment.json"),
        *("epochs.jsonl", "metrics.jsonl", "summary.json"),
    }


def with_groups(result: RunResult) -> RunResult:
    groups = (GroupWeights(2, 0, 3, 0.25, 1.5), GroupWeights(2, 1, 1, 1.0, 2.5))
    first, second = result.epochs
    assert second.weights is not None
    return replace(
        result, epochs=(first, replace(second, weights=replace(second.weights, groups=groups)))
    )


def test_epochs_come_back_as_they_were_written(tmp_path: Path) -> None:
    result = with_groups(make_result())
    write_run(tmp_path / "run", result, {})
    assert tuple(read_epochs(tmp_path / "run")) == result.epochs


def without_names(folder: Path) -> None:
    """Make a run one of an earlier version, which does not name what its numbers mean."""
    path = folder / "summary.json"
    summary = json.loads(path.read_text())
    del summary["names"]
    path.write_text(json.dumps(summary))


@pytest.mark.parametrize("earlier", [False, True])
def test_names_come_back(tmp_path: Path, earlier: bool) -> None:
    result = make_result()
    write_run(tmp_path / "run", result, {})
    if earlier:
        without_names(tmp_path / "run")
    names = read_names(tmp_path / "run")
    assert names.classes == ("a", "b", "c")
    assert names.attribute_values == ("F", "M")
    assert earlier or names == result.names


@pytest.mark.parametrize("earlier", [False, True])
def test_values_keep_their_numbers_where_the_first_class_lacks_one(
    tmp_path: Path, earlier: bool
) -> None:
    result = make_result()
    last = result.per_task[-1]
    first = min(group.label for group in last.groups)
    groups = tuple(g for g in last.groups if (g.label, g.attribute) != (first, 0))
    odd = replace(result, per_task=(*result.per_task[:-1], replace(last, groups=groups)))
    write_run(tmp_path / "run", odd, {})
    if earlier:
        without_names(tmp_path / "run")
    assert read_names(tmp_path / "run").attribute_values == ("F", "M")


def test_without_an_attribute_there_are_no_values(tmp_path: Path) -> None:
    write_run(tmp_path / "run", make_result(attribute=False), {})
    assert read_names(tmp_path / "run").attribute_values == ()


@pytest.mark.parametrize("content", [b"{", b'{"task": 1}\n', b"\xff\n", b"3\n"])
def test_damaged_files_are_named(tmp_path: Path, content: bytes) -> None:
    write_run(tmp_path / "run", make_result(), {})
    without_names(tmp_path / "run")
    for file, read in (("epochs.jsonl", read_epochs), ("metrics.jsonl", read_names)):
        (tmp_path / "run" / file).write_bytes(content)
        with pytest.raises(DataError, match=rf"{file} is damaged, so .* is not a finished run"):
            read(tmp_path / "run")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"epochs.jsonl is missing"):
        read_epochs(tmp_path)
