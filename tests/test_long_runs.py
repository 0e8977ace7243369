"""Memory of long runs: 100 tasks, 1,000 classes, 200 epochs; `make soak`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc"),
]
SCRIPT = Path(__file__).parent / "support" / "long_run.py"
LONGEST = 1800  # seconds
# Beyond what a run keeps: buffer or moments, its net, and what it has measured.
GROWTH = {"er": 0.05, "moments": 0.05}


def long_run(*words: object) -> dict[str, list[list[int]]]:
    """Return the bytes in memory, and those that are held, after each task; and by epoch."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=True,
    )
    found: dict[str, list[list[int]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("method", GROWTH)
def test_a_hundred_tasks_take_no_more_than_they_keep(method: str) -> None:
    after = long_run(method, 100, 1000, 5)["after"]
    (start, held), (end, held_then) = after[19], after[99]
    growth = (end - start - (held_then - held)) / start
    print(
        f"{method}: {start / 1e6:.0f} MB after 20 tasks, {end / 1e6:.0f} MB after 100, "
        f"{(held_then - held) / 1e6:.0f} MB of it kept: growth {growth:.1%}"
    )
    assert growth <= GROWTH[method]


def test_two_hundred_epochs_take_no_more_than_twenty() -> None:
    by_epoch = [int(str(one)) for one in long_run("er", 1, 20, 200)["by_epoch"]]
    growth = (by_epoch[199] - by_epoch[19]) / by_epoch[19]
    print(f"er: {by_epoch[19] / 1e6:.0f} MB after 20 epochs, growth {growth:.1%} after 200")
    assert growth <= GROWTH["er"]
