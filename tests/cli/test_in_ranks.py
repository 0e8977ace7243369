"""Commands that several processes carry out together, as torchrun and others start them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from cli_outcome import Cli, Outcome, WriteTable, run_words
from faircil.model.saved import load_model
from faircil.runs import together as module
from together import at_step, be_killed, be_stopped, be_torchrun, run_out_of_memory, start_ranks

SMALL = {"epochs": 2, "hidden": 8, "buffer_size": 4}
BYTES = ("metrics.jsonl", "predictions.csv", "config.json")


def ended(commands: list) -> list[Outcome]:
    return [command.end() for command in commands]


def same_runs(folder: Path, one: str, two: str) -> bool:
    return all(
        (folder / one / "seed-0" / name).read_bytes()
        == (folder / two / "seed-0" / name).read_bytes()
        for name in BYTES
    )


def words(out: str, method: str = "fsw", *more: str, **settings: object) -> tuple[str, ...]:
    return run_words(method, "toy-groups", "--out", out, *more, **{**SMALL, **settings})


def test_two_processes_write_the_bytes_of_one_and_one_of_them_speaks(
    cli: Cli, tmp_path: Path
) -> None:
    first, second = ended(start_ranks(tmp_path, 2, *words("two")))
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert (second.out, second.err) == ("", "")
    assert "saved in two" in first.err
    assert cli(*words("one", shards=2)).code == 0
    assert same_runs(tmp_path, "one", "two")


def test_torchrun_is_told_of_a_failure_once(tmp_path: Path) -> None:
    by = dict.fromkeys(range(2), be_torchrun)
    first, second = ended(start_ranks(tmp_path, 2, *words("two", "er", lr=-1), then=by))
    assert (first.code, second.code) == (2, 0)


def test_what_cannot_be_divided_runs_once(cli: Cli, tmp_path: Path) -> None:
    first, second = ended(start_ranks(tmp_path, 2, *words("two", "gss")))
    assert (first.code, second.code, second.err) == (0, 0, ""), first.err
    assert "runs in the first of 2 processes alone: method 'gss' cannot be divided" in first.err
    assert cli(*words("one", "gss")).code == 0
    assert same_runs(tmp_path, "one", "two")


def test_a_mistake_ends_all_and_is_told_once(tmp_path: Path) -> None:
    more = ("--jobs", "2", "--device", "cuda:0")
    first, second = ended(start_ranks(tmp_path, 2, *words("two", "er", *more, shards=3, lr=-1)))
    assert (first.code, second.code) == (2, 2)
    assert (second.out, second.err) == ("", "")
    for part in (
        "--jobs is 2, and 2 processes",
        "--device is cuda:0",
        "setting lr=-1 is not allowed",
    ):
        assert part in first.err
    first, _ = ended(start_ranks(tmp_path, 2, *words("two", "er", shards=3)))
    assert first.code == 2
    assert "--set shards=3 cannot be divided among them equally; use --set shards=2" in first.err


def test_a_signal_to_any_process_stops_all_and_saves(cli: Cli, tmp_path: Path) -> None:
    stop = {1: partial(at_step, 9, be_stopped)}
    first, second = ended(start_ranks(tmp_path, 2, *words("two", "er"), then=stop))
    # Kubernetes starts a process again only if it has failed; all have to be, to meet again.
    assert (first.code, second.code, second.err) == (143, 143, "")
    assert "started and saved: seed 0 in two; the same command continues" in first.err
    again = cli(*words("two", "er", shards=2))  # here, in one process
    assert again.code == 0
    assert "seed 0 continues in task" in again.err
    assert cli(*words("one", "er", shards=2)).code == 0
    assert same_runs(tmp_path, "one", "two")


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (run_out_of_memory, "error: process 1 of 2 on "),
        (be_killed, "error: process 0 of 2 has lost another, which has ended"),
    ],
)
def test_a_process_that_fails_ends_all_with_one_message(
    act: object, told: str, tmp_path: Path
) -> None:
    fail = {1: partial(at_step, 7, act)}  # type: ignore[arg-type]
    first, second = ended(start_ranks(tmp_path, 2, *words("two", "er"), then=fail))
    assert first.code == 1
    assert second.code not in (0, None)
    assert told in first.err
    assert "Traceback" not in first.err + second.err
    if act is run_out_of_memory:
        assert "not enough memory: no more of it" in first.err


def test_a_model_is_fitted_and_updated_by_two_processes_as_by_one(
    cli: Cli, write_table: WriteTable, tmp_path: Path
) -> None:
    table = write_table()
    options = ("--label", "job", "--sensitive", "sex", "--method", "er", "--weighting", "fsw")
    fit = ("fit", "--data", table, *options, "--set", "epochs=3", "hidden=8")
    for command in ((*fit, "-o", "two"), ("update", "two", "--data", table)):
        first, second = ended(start_ranks(tmp_path, 2, *command))
        assert (first.code, second.code, second.err) == (0, 0, ""), first.err
    assert cli(*fit, "shards=2", "-o", "one").code == 0
    assert cli("update", "one", "--data", table).code == 0
    nets = [load_model(tmp_path / name).learner.net for name in ("one", "two")]
    for one, two in zip(*(net.parameters() for net in nets), strict=True):
        assert one.equal(two)


def test_other_commands_run_in_the_first_process(tmp_path: Path) -> None:
    first, second = ended(start_ranks(tmp_path, 2, "list", "methods"))
    assert (first.code, second.code) == (0, 0)
    assert "der++" in first.out
    assert (second.out, second.err) == ("", "")


def test_where_processes_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.started().size == 1
    for name, value in {"RANK": "1", "WORLD_SIZE": "3"}.items():
        monkeypatch.setenv(name, value)
    assert module.started().size == 1  # nowhere to meet
    for name, value in {"MASTER_ADDR": "a", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert (module.started().rank, module.started().size) == (1, 3)
