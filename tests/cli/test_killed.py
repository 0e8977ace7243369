"""Runs that are killed or stopped go on to the same bytes; `make soak` kills many more."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from cli_outcome import Cli, run_words
from kills import bytes_of, dying_at, stopping_in
from processes import Command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
FSW = run_words("fsw", "toy-groups", "--out", "out", epochs=2, batch_size=256)
MOMENTS = run_words("moments", "toy-groups", "--out", "out", width=20)
KILLS = {
    FSW: (
        ("a step", 3),
        ("the program", 1),
        ("saving", 2),
        ("renaming the run", 1),
    ),
    MOMENTS: (("the pass", 2), ("clearing", 1)),
}


@pytest.mark.parametrize("words", KILLS)
def test_a_run_that_is_killed_again_and_again_ends_in_the_same_bytes(
    cli: Cli, tmp_path: Path, words: tuple[str, ...]
) -> None:
    for place, number in KILLS[words]:
        killed = Command(tmp_path, *words, prepare=dying_at(place, number)).end()
        assert killed.code == -signal.SIGKILL, killed.err
        first = (place, number) == KILLS[words][0]
        assert ("seed 0 continues in task" in killed.err) != first, killed.err
    outcome = cli(*words)
    assert outcome.code == 0, outcome.err
    assert cli(*words, "--out", "whole").code == 0
    assert bytes_of(tmp_path / "out" / "seed-0") == bytes_of(tmp_path / "whole" / "seed-0")
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == [".seed-0.lock", "seed-0"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_saves_the_run_and_says_how_to_go_on(
    cli: Cli, tmp_path: Path, number: int, code: int
) -> None:
    stopped = Command(tmp_path, *FSW, "--seeds", "0-1", prepare=stopping_in(1, number)).end()
    assert stopped.code == code
    assert stopped.out == ""
    assert stopped.err.endswith(
        "interrupted; finished: seed 0 in out; started and saved: seed 1 in out; the same command "
        "continues from there\n"
    )
    assert "Traceback" not in stopped.err
    if number == signal.SIGINT:
        outcome = cli(*FSW, "--seeds", "0-1")
        assert "seed 1 continues in task 2, after epoch 0 and 1 steps" in outcome.err
        cli(*FSW, "--seeds", "1", "--out", "whole")
        assert bytes_of(tmp_path / "out" / "seed-1") == bytes_of(tmp_path / "whole" / "seed-1")
