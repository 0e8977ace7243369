"""Two writers on one folder, in every order that matters; `make soak` tries sixty."""

from __future__ import annotations

from pathlib import Path

import pytest

from faircil.sweep.store import Store
from interleaving import SEEDS, orders, write_together
from sweeps import small_work


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("order", orders(3))
def test_nothing_is_lost(tmp_path: Path, order: str, again: bool) -> None:
    said = write_together(tmp_path / "out", order, again=again)
    assert {name: sorted(o.work.seed for o in outcomes) for name, outcomes in said.items()} == {
        "A": [*SEEDS],
        "B": [*SEEDS],
    }
    made = [o for outcomes in said.values() for o in outcomes if o.spent is not None]
    assert len(made) == len(SEEDS) or again
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == [".seed-0.lock", ".seed-1.lock", "seed-0", "seed-1"]


def test_a_writer_that_fails_does_not_take_the_lock_of_the_next_away(
    tmp_path: Path,
) -> None:
    """The folder that a failed run leaves empty is removed, with a lock that others may hold."""
    place, work = Store(tmp_path / "runs"), small_work()
    with place.alone(work) as mine:
        assert mine
        with place.alone(work) as other:
            assert not other
        assert place.folder_of(work).is_dir()
    assert not (tmp_path / "runs").exists()
    with place.alone(work) as mine:
        assert mine
        (place.folder_of(work) / "note").touch()
        with place.alone(work) as other:
            assert not other
