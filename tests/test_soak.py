"""Promises of docs/reliability.md at length: `make soak`, or `pytest -m soak --cases 40`."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from cli_outcome import run_words
from faircil.files import free_room
from faircil.runs.config import resolve
from faircil.runs.saved_states import Checkpoints
from faircil.runs.state import RunState, load_stream
from faircil.sweep.work import Unwatched, Work, make_run
from interleaving import SEEDS, orders, write_together
from kills import bytes_of, save_often
from processes import Command
from tiny_encoder import random_texts, write_tiny_encoder
from tiny_images import write_checkpoint, write_images

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform == "win32", reason="no such signals there"),
]
SIZES = {"epochs": 3, "batch_size": 128, "buffer_size": 8}
RUNS = {
    "er": run_words("er", "biased-digits", **SIZES),
    "fsw": run_words("fsw", "biased-digits", **SIZES),
    "der++": run_words("der++", "biased-digits", **SIZES),
    "icarl": run_words("icarl", "biased-digits", **SIZES),
    "moments": run_words("moments", "biased-digits", width=200),
    "texts": (
        *("run", "--data", "bios.csv", "--text", "bio", "--label", "job", "--sensitive", "gender"),
        *("--method", "er", "--baseline", "none"),
        *("--set", "encoder=encoder", "finetune=true", "epochs=2", "batch_size=8"),
    ),
    "images": (
        *("run", "--images", "photos", "--method", "moments", "--baseline", "none"),
        *("--set", "image_encoder=net.pth", "image_size=32", "width=40"),
    ),
}
OFTEN = ("er", "fsw", "der++", "icarl", "moments")


def write_data(folder: Path) -> None:
    """Write texts, images and the encoders of both."""
    filler = iter(random_texts(80, 5))
    rows = [
        f"{gender} {topic} {topic} {next(filler)},{topic},{gender}"
        for topic in ("nurse", "doctor", "judge", "music")
        for gender in ("she", "he") * 10
    ]
    (folder / "bios.csv").write_text("\n".join(["bio,job,gender", *rows]) + "\n")
    write_tiny_encoder(folder / "encoder")
    write_images(folder / "photos", each=8)
    write_checkpoint(folder / "net.pth")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("soak")
    write_data(folder)
    return folder


class Wholes:
    """Runs that nobody stops, each made once, and how long they take."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seconds: dict[str, float] = {}

    def bytes_of(self, name: str) -> dict[str, bytes]:
        """Return the bytes of the run of a name."""
        out = f"whole-{name}"
        if name not in self.seconds:
            for number in range(2):  # the first may have had to embed or import more
                start = time.monotonic()
                words = (*RUNS[name], "--out", out, "--force")
                done = Command(self._folder, *words, prepare=save_often).end()
                assert done.code == 0, (number, done.err)
                self.seconds[name] = time.monotonic() - start
        return bytes_of(self._folder / out / "seed-0")


@pytest.fixture(scope="module")
def wholes(place: Path) -> Wholes:
    return Wholes(place)


def stopped_at(command: Command, seconds: float, number: int) -> int:
    """Send a signal to a command after a while; return its exit code."""
    time.sleep(max(0, seconds))
    command.send(number)
    return command.end().code


def wait_for_a_state(command: Command, out: Path) -> None:
    """Wait until a run has saved a state, or has ended."""
    while not list(out.glob(".seed-*.state/*-*")) and not command.has_ended:
        time.sleep(0.01)


def test_a_kill_at_any_moment_changes_no_byte(case: int, place: Path, wholes: Wholes) -> None:
    """Even cases at any moment, odd ones after the first state, since imports take seconds."""
    draw = random.Random(case)
    others = [name for name in RUNS if name not in OFTEN]
    name = others[case // 8 % len(others)] if case % 8 == 7 else OFTEN[case % len(OFTEN)]
    whole, out, killed = wholes.bytes_of(name), f"killed-{case}", 0
    while not killed:  # a run may end before
        begun = time.monotonic()
        command = Command(place, *RUNS[name], "--out", out, prepare=save_often)
        moment = draw.uniform(0.1, 0.95) * wholes.seconds[name]
        if case % 2:
            wait_for_a_state(command, place / out)
            left = wholes.seconds[name] - (time.monotonic() - begun)
            moment = draw.uniform(0, 0.9) * left
        killed = stopped_at(command, moment, signal.SIGKILL)
        out = out if killed else f"{out}-again"
    done = Command(place, *RUNS[name], "--out", out).end()
    assert done.code == 0, done.err
    assert bytes_of(place / out / "seed-0") == whole
    went_on = [line for line in done.err.splitlines() if " continues " in line]
    print(f"{name}: killed after {moment:.2f} s; {(went_on or ['began again'])[0]}")


def test_several_processes_stop_and_go_on(place: Path) -> None:
    long = run_words("fsw", "biased-digits", epochs=25, batch_size=64, buffer_size=8)
    words = (*long, "--seeds", "0-1", "--jobs", "2", "--out", "stopped")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        command = Command(place, *words)
        if list((place / "stopped").glob(".seed-*.state/*-*")):
            assert command.has_said(" continues in task")
        wait_for_a_state(command, place / "stopped")
        command.send(number)
        done = command.end()
        assert done.code == 128 + number, done.err
        assert "started and saved: seed" in done.err
        assert "Traceback" not in done.err
        print(done.err.splitlines()[-1])
    done = Command(place, *words).end()
    assert done.code == 0, done.err
    assert " continues in task" in done.err
    assert Command(place, *long, "--seeds", "0-1", "--out", "whole-seeds").end().code == 0
    for seed in ("seed-0", "seed-1"):
        assert bytes_of(place / "stopped" / seed) == bytes_of(place / "whole-seeds" / seed)


def test_tuning_goes_on_after_kills(place: Path) -> None:
    def words(out: str) -> tuple[str, ...]:
        few = ("--budget", "4", "--seed", "0", "--set", "epochs=2")
        where = ("--runs", f"{out}-runs", "--out", out)
        return ("tune", "--dataset", "biased-digits", "--method", "er", *few, *where)

    start = time.monotonic()
    whole = Command(place, *words("tuned")).end()
    assert whole.code == 0, whole.err
    seconds, draw, kills = time.monotonic() - start, random.Random(0), 0
    for _ in range(6):
        command = Command(place, *words("killed"), prepare=save_often)
        kills += stopped_at(command, draw.uniform(0.1, 0.6) * seconds, signal.SIGKILL) != 0
    done = Command(place, *words("killed")).end()
    assert done.code == 0, done.err
    assert done.out == whole.out  # the table of all trials, and what is chosen
    print(f"{kills} kills")


@pytest.mark.parametrize("number", range(60))
def test_two_writers_lose_nothing_in_any_order(tmp_path: Path, number: int) -> None:
    order = orders(60)[number]
    said = write_together(tmp_path / "out", order, again=bool(number % 2))
    assert [len(outcomes) for outcomes in said.values()] == [len(SEEDS), len(SEEDS)]


@pytest.mark.parametrize("name", ["er", "fsw", "ocs", "icarl", "moments", "texts"])
def test_threads_and_processes_change_no_byte(name: str, place: Path) -> None:
    words = RUNS.get(name) or run_words(name, "biased-digits", **SIZES)
    found = []
    for threads, jobs in (("1", "1"), ("2", "1"), ("2", "2"), ("3", "1")):
        out = f"{name}-{threads}-{jobs}"
        program = (sys.executable, "-m", "faircil", *words, "--seeds", "0-1", "--jobs", jobs)
        done = subprocess.run(
            (*program, "--out", out, "--device", "cpu"),
            cwd=place,
            env={**os.environ, "OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append([bytes_of(place / out / f"seed-{seed}") for seed in (0, 1)])
    assert all(other == found[0] for other in found)


def test_a_signal_in_the_first_seconds_leaves_no_traceback(case: int, place: Path) -> None:
    draw = random.Random(case)
    number = draw.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    program = (sys.executable, "-m", "faircil", *RUNS["er"], "--out", f"first-{case}")
    with subprocess.Popen(program, cwd=place, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(draw.uniform(0.05, 4))
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode in (128 + number, 0), said
    assert "Traceback" not in said
    assert process.returncode == 0 or "interrupted" in said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 8 MB; skip where that is not permitted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no permission to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path, left: int) -> None:
    """Leave at most so many bytes of a disk free, whatever another process writes meanwhile."""
    with (disk / "other").open("wb", buffering=0) as file, suppress(OSError):
        while (free := free_room(disk)) > left:
            file.write(b"\0" * max(1024, (free - left) // 2))


def test_a_disk_that_is_full_loses_nothing(small_disk: Path, place: Path) -> None:
    words = run_words("er", "biased-digits", "--out", str(small_disk / "out"), epochs=10)
    fill(small_disk, 1_000_000)
    before = Command(place, *words).end()
    assert before.code == 1
    assert "and the run will write about" in before.err
    assert "task 1/5" not in before.err  # it is noticed before training
    (small_disk / "other").unlink()
    command = Command(place, *words, prepare=save_often)
    assert command.has_said("task 1/5")
    fill(small_disk, 0)
    after = command.end()
    assert after.code == 1
    assert "Traceback" not in after.err
    assert "No space left on device" in after.err
    moved = re.search(r"The finished run of seed 0 is in (\S+) instead", after.err)
    assert moved is not None, after.err
    (small_disk / "other").unlink()
    again = Command(place, *words).end()
    assert again.code == 0, again.err
    assert bytes_of(Path(moved[1])) == bytes_of(small_disk / "out" / "seed-0")
    shutil.rmtree(Path(moved[1]).parent)


@pytest.mark.data("mnist")
@pytest.mark.parametrize("method", ["er", "fsw", "moments"])
def test_saving_takes_a_small_share_of_a_run(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Print the share; it is not judged here, since a machine that is busy writes slowly."""
    spent, saved = [0.0], [0]
    call, save = Checkpoints.__call__, Checkpoints._save

    def timed(states: Checkpoints, state: RunState) -> None:
        start = time.perf_counter()
        call(states, state)
        spent[0] += time.perf_counter() - start

    def counted(states: Checkpoints, state: RunState) -> None:
        saved[0] += 1
        save(states, state)

    monkeypatch.setattr(Checkpoints, "__call__", timed)
    monkeypatch.setattr(Checkpoints, "_save", counted)
    epochs = [] if method == "moments" else ["epochs=5"]
    config = resolve(dataset="mnist", method=method, overrides=epochs)
    work, device = Work(config, 0), torch.device("cpu")
    run = make_run(work, tmp_path, command="", device=device, load=load_stream, watcher=Unwatched())
    total = run.seconds["total"]
    share = spent[0] / total
    print(f"{method}: {saved[0]} states, {spent[0]:.2f} of {total:.1f} s, {share:.2%}")
