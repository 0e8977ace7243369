import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import Pipe
from pathlib import Path
from types import ModuleType

import pytest

from faircil.errors import StorageError, SweepError, UsageError
from faircil.learners import LEARNERS
from faircil.metrics import METRICS, Metric
from faircil.results.folder import seed_folder
from faircil.runs.config import resolve
from faircil.sweep import processes
from faircil.sweep.processes import Bench, Crew, Place, Streams, serve, share_work
from faircil.sweep.store import Store
from faircil.sweep.sweep import NOT_MADE, SweepOptions, finish
from faircil.sweep.work import Outcome, Work
from small_runs import small_config
from sweeps import OwnReplay, always_half, dies_on_seed_1, small_work


def seeds_of(outcomes: list[Outcome]) -> list[int | None]:
    return [outcome.run.seed if outcome.run else None for outcome in outcomes]


@pytest.mark.usefixtures("quick_processes")
def test_every_run_is_made_once_with_the_same_result_in_one_process_or_several(
    tmp_path: Path,
) -> None:
    works = [small_work(2, "fsw"), small_work(0), small_work(2, "fsw"), small_work(1)]
    results = []
    for jobs in (1, 2):
        options = SweepOptions(tmp_path / str(jobs), jobs)
        told: list[Outcome] = []
        outcomes = finish(works, options, told.append)
        assert seeds_of(outcomes) == [2, 0, 2, 1]
        assert sorted(outcome.work.seed for outcome in told) == [0, 1, 2]
        again: list[Outcome] = []
        found: list[Outcome] = []
        assert finish(works, options, again.append, found.append) == outcomes
        assert (len(again), len(found)) == (0, 3)
        results.append([outcome.run.metrics for outcome in outcomes if outcome.run])
    assert results[0] == results[1]


@pytest.mark.usefixtures("quick_processes")
def test_registered_pieces_are_known_to_the_processes(tmp_path: Path) -> None:
    half = Metric(always_half, "half", "Always the same")
    with LEARNERS.temporarily("own", OwnReplay), METRICS.temporarily("half", half):
        works = [small_work(seed, "own", mine=7) for seed in (0, 1)]
        one, two = (finish(works, SweepOptions(tmp_path / str(n), n)) for n in (1, 2))
    assert [outcome.problem for outcome in two] == [None, None]
    for alone, beside in zip(one, two, strict=True):
        assert alone.run is not None
        assert beside.run is not None
        assert beside.run.metrics == alone.run.metrics
        assert beside.run.metrics["half"] == 0.5


def test_a_piece_that_no_process_can_find_is_refused_before_any_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Inside(OwnReplay):
        """Of a function: other processes cannot import it."""

    with LEARNERS.temporarily("inside", Inside), LEARNERS.temporarily("unused", Inside):
        works = [small_work(seed, "inside") for seed in (0, 1)]
        with pytest.raises(
            UsageError, match=r"learner 'inside' is defined inside a function.*jobs=1"
        ):
            finish(works, SweepOptions(tmp_path, 2))
    assert not any(tmp_path.iterdir())
    # As in a notebook: a module without a file.
    notebook = ModuleType("__main__")
    notebook.OwnReplay = OwnReplay  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    monkeypatch.setattr(OwnReplay, "__module__", "__main__")
    named = LEARNERS.temporarily("typed", OwnReplay)
    with named, pytest.raises(UsageError, match="learner 'typed' is defined in a notebook"):
        processes.sent_pieces([small_work(0, "typed")])


def test_a_module_that_a_process_cannot_import_stops_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("gone")
    module.OwnReplay = OwnReplay  # type: ignore[attr-defined]
    with monkeypatch.context() as here:
        here.setitem(sys.modules, "gone", module)
        here.setattr(OwnReplay, "__module__", "gone")
        with LEARNERS.temporarily("own", OwnReplay):
            place = Place(Store(tmp_path), pieces=processes.sent_pieces([small_work(0, "own")]))
    ours, theirs = Pipe()
    ours.send(small_work())
    with ThreadPoolExecutor(1) as threads:
        threads.submit(serve, theirs, place).result()
    stop = ours.recv().stop
    assert stop.startswith("learner 'own' cannot be imported, where other processes cannot find")
    assert stop.endswith("(ModuleNotFoundError: No module named 'gone')")


def test_code_that_changes_under_a_sweep_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Pipe()
    work = small_work()
    assert work.code  # as the sweep knows it, before the files change
    ours.send(work)
    monkeypatch.setattr(processes, "code_digest", lambda _: "newer")  # as the process finds them
    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(serve, theirs, Place(Store(tmp_path)))
        answer = ours.recv()
        ours.close()
        done.result()
    assert "the code has changed since the sweep began" in answer.stop


def test_an_altered_run_is_made_anew(tmp_path: Path) -> None:
    work, options = small_work(), SweepOptions(tmp_path)
    before = finish([work], options)
    summary = seed_folder(Store(tmp_path).folder_of(work), 0) / "summary.json"
    text = summary.read_text()
    summary.write_text(text.replace("0.", "1."))
    only_read = finish([work], SweepOptions(tmp_path, run_missing=False))
    assert "was altered" in str(only_read[0].problem)
    after = finish([work], options)
    assert before[0].run is not None
    assert after[0].run is not None
    assert after[0].run.metrics == before[0].run.metrics


def test_what_is_missing_is_named_where_nothing_is_made(tmp_path: Path) -> None:
    outcomes = finish([small_work()], SweepOptions(tmp_path, run_missing=False))
    assert outcomes[0].problem == NOT_MADE
    assert not list(tmp_path.iterdir())


def test_a_diverging_run_is_given_up_once_and_the_rest_goes_on(tmp_path: Path) -> None:
    works = [small_work(0, lr=1e30), small_work(1)]
    first = finish(works, SweepOptions(tmp_path))
    assert "diverged" in str(first[0].problem)
    assert first[1].run is not None
    told: list[Outcome] = []
    assert finish(works, SweepOptions(tmp_path), told.append) == first
    assert not told


def test_a_missing_dataset_is_named_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from faircil.runs.config import resolve

    monkeypatch.setenv("FAIRCIL_DATA", str(tmp_path / "nothing"))
    works = [Work(resolve(dataset="drug", method="er"), 0), small_work()]
    outcomes = finish(works, SweepOptions(tmp_path / "runs"))
    assert "faircil data fetch drug" in str(outcomes[0].problem)
    assert outcomes[1].run is not None


def test_a_full_disk_stops_the_sweep_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish([small_work(0)], SweepOptions(tmp_path))

    def full(*_: object, **__: object) -> None:
        raise StorageError("cannot write the run: No space left on device; free space")

    monkeypatch.setattr(processes, "make_run", full)
    told: list[Outcome] = []
    with pytest.raises(SweepError, match="No space left"):
        finish([small_work(0), small_work(1), small_work(2)], SweepOptions(tmp_path), told.append)
    assert not told
    monkeypatch.undo()
    outcomes = finish([small_work(0), small_work(1)], SweepOptions(tmp_path))
    assert seeds_of(outcomes) == [0, 1]


@pytest.mark.usefixtures("quick_processes")
def test_a_process_that_dies_costs_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faircil.sweep.processes.serve", dies_on_seed_1)
    told: list[Outcome] = []
    works = [small_work(seed) for seed in (1, 0, 2)]
    share_work(works, [Crew(Place(Store(tmp_path)), 1, lambda _: True)], told.append)
    by_seed = {outcome.work.seed: outcome for outcome in told}
    assert by_seed.keys() == {0, 1, 2}
    assert by_seed[0].run is not None
    assert by_seed[2].run is not None
    assert "its process died 2 times, last with exit code -9" in str(by_seed[1].problem)


def test_the_gpu_takes_what_it_replays_and_cpus_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared: list[list[str]] = []

    def share(works: list[Work], crews: list[Crew], *_: object) -> None:
        shared.extend([w.config.method for w in works if crew.takes(w)] for crew in crews)

    monkeypatch.setattr("faircil.sweep.sweep.share_work", share)
    works = [small_work(0, method) for method in ("er", "gdumb")]
    for gpu_jobs in (0, 1):
        with pytest.raises(KeyError):  # nothing is made
            finish(works, SweepOptions(tmp_path, jobs=2, gpu_jobs=gpu_jobs))
    assert [sorted(methods) for methods in shared] == [["er", "gdumb"], ["er"], ["gdumb"], ["er"]]


def test_a_worker_stays_with_its_data() -> None:
    works = [small_work(seed, method) for method in ("er", "wa") for seed in (0, 1)]
    bench = Bench(list(works))
    first = bench.next_for(lambda _: True)
    assert first == works[0]
    assert bench.next_for(lambda _: True, first.data) == works[2]
    assert bench.next_for(lambda _: True, first.data) == works[1]


def test_the_same_data_is_loaded_once_and_other_data_anew() -> None:
    streams = Streams()
    first = streams(small_config("er"), 0)
    assert streams(small_config("wa", epochs=3), 0) is first
    validation = resolve(dataset="toy", method="er", evaluate_on="validation")
    assert streams(validation, 0) is not first
    assert len(streams(validation, 0).tasks[0].train) < len(first.tasks[0].train)
    assert streams(small_config("er"), 1) is not first
    assert streams(small_config("er"), 0) is not first  # two later ones have taken its place
