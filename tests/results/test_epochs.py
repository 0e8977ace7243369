from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from faircil.errors import DataError
from faircil.results.folder import read_epochs, read_names, write_run
from faircil.results.record import GroupWeights, RunResult
from run_results import make_result


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
        with pytest.raises(DataError, match=rf"{file} is damaged, so .* is no finished run"):
            read(tmp_path / "run")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"epochs.jsonl is missing"):
        read_epochs(tmp_path)
