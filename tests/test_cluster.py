"""Dask clusters: who may talk to them, data frames on their workers, and runs as their tasks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

from engine_tasks import SQUARES, in_order, kill_one, square
from faircil import FairIncrementalClassifier, audit_dask, cluster as cluster_module, sending
from faircil.auditing.reading import audit_file
from faircil.cluster import Dask
from faircil.data import parts as parts_module
from faircil.data.frames import DaskFrames
from faircil.data.part_files import parted_table
from faircil.errors import FaircilError, SweepError, UsageError
from faircil.learners import LEARNERS
from faircil.model.choosing import Wish
from faircil.model.in_parts import fit_parts
from faircil.results.folder import seed_folder
from faircil.runs import saved_states
from faircil.sweep import on_cluster
from faircil.sweep.on_cluster import STOPPED, MakeRun, end_runs
from faircil.sweep.processes import Place
from faircil.sweep.store import Store
from faircil.sweep.sweep import SweepOptions, finish
from faircil.sweep.work import Outcome
from sweeps import DiesOnce, small_work
from tables_in_parts import people, roles, stored
from tensors import assert_same_bits

distributed = pytest.importorskip("distributed")
dask_frames = pytest.importorskip("dask.dataframe")
SETTINGS = {"width": 40, "arithmetic": "float64"}
# Clusters are begun and ended many times: minutes. `tests/test_engines.py` has the short form.
pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def cluster() -> Iterator[Dask]:
    with Dask("local:2") as engine:
        yield engine


def processes() -> list[psutil.Process]:
    here = psutil.Process()
    return [here, *here.children(recursive=True)]


def test_only_this_process_can_talk_to_its_workers(
    cluster: Dask, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = cluster.client.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    listening = {
        connection.laddr.ip
        for process in processes()
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    monkeypatch.setattr(cluster_module, "CONNECTING", 2)
    for stranger in (address, address.replace("tls", "tcp")):
        with pytest.raises(FaircilError, match="no Dask scheduler answers"):
            Dask(stranger)


def test_nothing_is_left_of_a_local_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = {process.pid for process in processes()}
    with Dask("local:1") as engine:
        assert engine.workers == 1
        assert list(tmp_path.glob("faircil-dask-*"))
        assert in_order(engine, square) == SQUARES
    assert not list(tmp_path.glob("faircil-dask-*"))
    ours = ("resource_tracker", "forkserver")  # which end with this process
    told = {p.pid: str(p.cmdline()) for p in processes() if p.pid not in before}
    assert not [words for words in told.values() if not any(one in words for one in ours)]
    with pytest.raises(ValueError, match="No global client found"):
        distributed.get_client()  # it was nobody's default


def test_other_versions_are_refused_by_name(cluster: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    sending.own_versions.cache_clear()
    real = sending.version
    monkeypatch.setattr(sending, "version", lambda name: "99.1" if name == "torch" else real(name))
    try:
        with pytest.raises(FaircilError, match=r"tls://\S+ has torch \S+ instead of 99\.1"):
            Dask(cluster.client)
        with pytest.raises(FaircilError, match=r"has torch \S+ instead of 99\.1; results would"):
            in_order(cluster, square)  # of workers that come later
    finally:
        sending.own_versions.cache_clear()


def test_a_cluster_without_workers_and_a_scheduler_that_goes_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_module, "PATIENCE", 0.1)
    with distributed.LocalCluster(
        n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as empty:
        address = empty.scheduler.address.replace("tcp://", "dask://")
        with Dask(address) as engine:
            with pytest.raises(FaircilError, match="has had no workers for 1 seconds"):
                in_order(engine, square)
            with pytest.raises(FaircilError, match="has had no workers"):
                engine.wait_for_workers()
            empty.scale(1)
            monkeypatch.setattr(cluster_module, "LONELY", 600)
            engine.wait_for_workers()
            monkeypatch.setattr(cluster_module, "LONELY", 12)
            done = engine.begin(engine.order(square), 3)
            engine.wait([done])
            empty.scale(0)  # and its result is gone with it
            while engine.addresses:
                time.sleep(0.05)
            with pytest.raises(FaircilError, match="has had no workers"):
                engine.result(done)
            monkeypatch.setattr(cluster_module, "LONELY", 1000)
            timer = threading.Timer(0.5, empty.close)
            timer.start()
            with pytest.raises(FaircilError, match=r"the scheduler of dask://\S+ is gone"):
                in_order(engine, square)
            timer.join()


def test_a_package_that_is_absent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for absent in ("distributed", "cryptography"):
        with monkeypatch.context() as without:
            without.setitem(__import__("sys").modules, absent, None)
            said = rf"needs the package {absent} .*pip install distributed cryptography"
            with pytest.raises(UsageError, match=said):
                Dask("local:2")


# Data frames


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One part for each file, and so for each partition."""
    monkeypatch.setattr(parts_module, "PART_ROWS", 10**6)


def frame_of(path: Path) -> Any:
    return dask_frames.read_parquet(path)


def classifier() -> FairIncrementalClassifier:
    return FairIncrementalClassifier(settings=SETTINGS, random_state=3)


@pytest.mark.usefixtures("small_parts")
def test_a_data_frame_makes_the_model_of_its_files(cluster: Dask, tmp_path: Path) -> None:
    path = stored(people(), tmp_path / "people", files=7)
    frame = frame_of(path)
    assert frame.npartitions == 7
    kinds = {"sensitive_features": ["sex"], "client": cluster.client}
    model = classifier().fit_dask(frame, "job", **kinds)
    assert model.model_.config.method == "moments"
    seed, table = model.model_.seed, parted_table(path)
    assert table is not None
    wish = Wish("moments", overrides=tuple(f"{k}={v}" for k, v in SETTINGS.items()))
    files = fit_parts(table, roles(path, unknown_group=True), wish, seed=seed)
    assert_same_bits(model.model_, files)
    persisted = cluster.client.persist(frame)
    kill_one(cluster)
    assert_same_bits(classifier().fit_dask(persisted, "job", **kinds).model_, files)


def test_chains_of_partitions_survive_a_worker_that_dies(
    cluster: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faircil.model.in_parts.MOST_SHARDS", 3)
    monkeypatch.setattr("faircil.model.in_parts.LEAST_SHARDS", 3)
    frame = frame_of(stored(people(), tmp_path / "people", files=9))
    kinds = {"sensitive_features": ["sex"], "client": cluster.client}
    before = classifier().fit_dask(frame, "job", **kinds)
    begin, begun = DaskFrames._begin_at, []

    def begin_and_kill(self: DaskFrames, *given: Any) -> Any:
        begun.append(given)
        future = begin(self, *given)
        if len(given) > 3 and given[3] is not None and not any(len(g) < 3 for g in begun):
            begun.append(())  # once, in the middle of a chain
            kill_one(cluster)
        return future

    monkeypatch.setattr(DaskFrames, "_begin_at", begin_and_kill)
    after = classifier().fit_dask(frame, "job", **kinds)
    assert () in begun
    assert_same_bits(before.model_, after.model_)


def test_further_data_frames_bring_new_classes(cluster: Dask) -> None:
    table = people()
    table.loc[5, "sex"] = None
    old = table["job"] != "nurse"
    first = dask_frames.from_pandas(table[old], npartitions=3)
    later = dask_frames.from_pandas(table[~old], npartitions=2)
    kinds = {"sensitive_features": "sex", "client": cluster.client}
    model = classifier().fit_dask(first, "job", **kinds, ignore=["town"])
    assert model.classes_.tolist() == ["cook", "judge"]
    assert any("unknown group" in note for note in model.model_.notes)
    model.partial_fit_dask(later, "job", **kinds)
    assert model.classes_.tolist() == ["cook", "judge", "nurse"]
    assert sum(lesson.rows for lesson in model.model_.lessons) == len(table)
    rows = table.drop(columns=["job", "sex", "town"])
    assert (model.predict(rows) == table["job"]).mean() > 0.5
    predicted = first.drop(columns=["job", "sex", "town"]).map_partitions(
        model.predict, meta=("prediction", object)
    )
    assert len(cluster.client.compute(predicted).result()) == old.sum()


def test_what_is_wrong_with_a_data_frame_is_told(cluster: Dask) -> None:
    table, client = people(60), cluster.client
    frame = dask_frames.from_pandas(table, npartitions=2)
    with pytest.raises(UsageError, match="a DataFrame is given, expected a data frame of Dask"):
        DaskFrames(table, client)
    with pytest.raises(UsageError, match="there is no Dask client"):
        DaskFrames(frame)
    with pytest.raises(UsageError, match="the name of column 7 is not text"):
        DaskFrames(frame.rename(columns={"a": 7}), client)
    with pytest.raises(ValueError, match=r"X is a collection of Dask.*`fit_dask`"):
        classifier().fit(frame[["a", "b"]], table["job"])
    with pytest.raises(ValueError, match=r"has no column 'wage'|unknown column 'wage'"):
        classifier().fit_dask(frame, "wage", client=client)
    with pytest.raises(ValueError, match=r"stay on its workers.*'moments'"):
        FairIncrementalClassifier("er").fit_dask(frame, "job", client=client)
    with pytest.raises(ValueError, match="has columns but no rows"):
        classifier().fit_dask(frame[frame["a"] > 99], "job", client=client)
    objects = frame["c"].astype(object)
    mixed = frame.assign(c=objects.map_partitions(mixed_kinds, meta=("c", object)))
    with pytest.raises(ValueError, match="column 'c' of partition 0 has values of several kinds"):
        classifier().fit_dask(mixed, "job", client=client)
    model = FairIncrementalClassifier("moments").fit(table[["a", "b"]], np.arange(60) % 2)
    with pytest.raises(ValueError, match="classes of the model are numbers, such as 0"):
        model.partial_fit_dask(frame, "job", client=client)


def mixed_kinds(column: pd.Series) -> pd.Series:
    return pd.Series([1.5, "two", *column[2:]], index=column.index, name="c", dtype=object)


def test_audits_of_data_frames_are_those_of_their_files(cluster: Dask, tmp_path: Path) -> None:
    drawn = np.random.default_rng(0)
    table = people().assign(guess=drawn.choice(["cook", "judge", "nurse"], 1200))
    path = stored(table, tmp_path / "people", files=4)
    columns = {"truth": "job", "prediction": "guess", "sensitive": ["sex", "town"]}
    files = audit_file(path, **columns, draws=200)
    found = audit_dask(frame_of(path), **columns, draws=200, client=cluster.client)
    assert found.report().as_dict() == files.report().as_dict()
    shared = audit_file(path, **columns, draws=200, engine=cluster)
    assert shared.report().as_dict() == files.report().as_dict()


# Runs


@pytest.fixture
def shared(cluster: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sweeps use the cluster that is there, and leave it."""
    monkeypatch.setattr(on_cluster, "Dask", lambda _: Dask(cluster.client))


def options(root: Path) -> SweepOptions:
    return SweepOptions(root, scheduler="local:2")


def metrics_of(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.problem for outcome in outcomes] == [None] * len(outcomes)
    return [outcome.run.metrics for outcome in outcomes if outcome.run]


@pytest.mark.usefixtures("shared")
def test_runs_are_those_of_one_process_and_are_found_again(tmp_path: Path) -> None:
    works = [small_work(2, "fsw"), small_work(0), small_work(2, "fsw"), small_work(1)]
    alone = finish(works, SweepOptions(tmp_path / "one"))
    made: list[Outcome] = []
    several = finish(works, options(tmp_path / "several"), made.append)
    assert metrics_of(several) == metrics_of(alone)
    assert sorted(outcome.work.seed for outcome in made) == [0, 1, 2]
    assert os.getpid() not in {outcome.spent.process for outcome in made if outcome.spent}
    found: list[Outcome] = []
    finish(works, options(tmp_path / "several"), made.append, found.append)
    assert (len(made), len(found)) == (3, 3)
    assert not list(tmp_path.rglob(".sweep*"))


@pytest.mark.usefixtures("shared")
def test_a_run_whose_worker_dies_is_made_again(tmp_path: Path) -> None:
    with LEARNERS.temporarily("dies-once", DiesOnce):
        flags = {name: tmp_path / name for name in ("died", "did-not-die")}
        flags["did-not-die"].touch()
        works = {
            name: [small_work(seed, "dies-once", flag=flag) for seed in (0, 1, 2)]
            for name, flag in flags.items()
        }
        killed = finish(works["died"], options(tmp_path / "killed"))
        assert flags["died"].exists()
        whole = finish(works["did-not-die"], SweepOptions(tmp_path / "whole"))
    assert metrics_of(killed) == metrics_of(whole)


@pytest.mark.usefixtures("shared")
def test_a_sweep_that_is_stopped_goes_on(tmp_path: Path) -> None:
    works = [small_work(seed) for seed in range(5)]

    def stop(_: Outcome) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        finish(works, options(tmp_path / "stopped"), stop)
    found: list[Outcome] = []
    again = finish(works, options(tmp_path / "stopped"), lambda _: None, found.append)
    assert 1 <= len(found) < 5
    assert metrics_of(again) == metrics_of(finish(works, SweepOptions(tmp_path / "whole")))


def test_a_worker_saves_the_run_that_it_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_states, "PAUSE", 1e9)  # no state but that of the stop
    work, mark = small_work(0, epochs=30), tmp_path / "mark"
    mark.touch()
    make = MakeRun(Place(Store(tmp_path)), str(mark), os.getcwd())
    said: list[Any] = []
    worker = threading.Thread(target=lambda: said.append(make(work)))
    worker.start()
    while on_cluster._HERE.stop is None:
        time.sleep(0.001)
    end_runs(str(mark))
    worker.join()
    assert said == [(STOPPED, [])]
    assert make(work) == (STOPPED, [])  # and begins no other one
    told: list[str] = []
    (outcome,) = finish([work], SweepOptions(tmp_path), tell=told.append)
    assert outcome.run is not None
    assert seed_folder(Store(tmp_path).folder_of(work), 0).is_dir()


@pytest.mark.usefixtures("shared")
def test_workers_that_see_other_folders_stop_the_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_cluster, "os", SimpleNamespace(getcwd=lambda: "/elsewhere"))
    with pytest.raises(SweepError, match="runs need a folder that all machines share"):
        finish([small_work(0)], options(tmp_path))
