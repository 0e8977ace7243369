import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from faircil.errors import DataError, FaircilError
from faircil.results.folder import READ, seed_folder
from faircil.sweep.store import Store
from faircil.sweep.sweep import SweepOptions, finish
from faircil.sweep.work import Work
from processes import CONTEXT
from sweeps import may_make, small_work


@pytest.fixture
def made(tmp_path: Path) -> Work:
    work = small_work()
    finish([work], SweepOptions(tmp_path))
    return work


def test_a_finished_run_is_found_and_another_is_not(made: Work, tmp_path: Path) -> None:
    found = Store(tmp_path).find(made)
    assert found is not None
    assert found.run is not None
    assert found.run.seed == 0
    assert Store(tmp_path).find(small_work(seed=1)) is None
    assert Store(tmp_path).find(small_work(tau=2.0)) is None


@pytest.mark.parametrize("file", READ)
def test_an_altered_run_is_named(made: Work, tmp_path: Path, file: str) -> None:
    path = seed_folder(Store(tmp_path).folder_of(made), 0) / file
    path.write_text(path.read_text().replace("0", "1", 1))
    with pytest.raises(DataError, match=rf"was altered after it was written: {file}"):
        Store(tmp_path).find(made)


def test_a_run_in_the_place_of_another_is_named(made: Work, tmp_path: Path) -> None:
    other = small_work(seed=1)
    seed_folder(Store(tmp_path).folder_of(made), 0).rename(
        seed_folder(Store(tmp_path).folder_of(other), 1)
    )
    with pytest.raises(DataError, match="holds another run: seed-1 has another seed"):
        Store(tmp_path).find(other)


def test_runs_of_other_code_are_used_only_if_asked_for(
    made: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircil.sweep.work.code_digest", lambda _: "newer")
    work = small_work()
    assert Store(tmp_path).find(work) is None
    found = Store(tmp_path, any_code=True).find(work)
    assert found is not None
    assert found.run is not None
    assert found.run.code != "newer"


def test_a_divergence_is_remembered(tmp_path: Path) -> None:
    work = small_work()
    Store(tmp_path).note_divergence(work, "training diverged")
    found = Store(tmp_path).find(work)
    assert found is not None
    assert (found.run, found.problem) == (None, "training diverged")


def test_a_damaged_note_is_named(tmp_path: Path) -> None:
    work = small_work()
    Store(tmp_path).note_divergence(work, "training diverged")
    note = next(tmp_path.rglob("*.diverged.json"))
    note.write_text(json.dumps([]))
    with pytest.raises(FaircilError, match="is damaged; remove it"):
        Store(tmp_path).find(work)


def test_one_process_at_a_time_makes_a_run(tmp_path: Path) -> None:
    work, store = small_work(), Store(tmp_path)
    with ProcessPoolExecutor(1, mp_context=CONTEXT) as pool:
        with store.alone(work) as mine, store.alone(small_work(seed=1)) as other:
            assert mine
            assert other
            assert not pool.submit(may_make, work, tmp_path).result()
        assert pool.submit(may_make, work, tmp_path).result()
