from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
import torch

from faircil import compute
from faircil.compute import (
    exact_convolutions,
    free_memory,
    many_threads,
    map_chunks,
    one_thread,
    same_bits,
    several_threads,
    share_tasks,
    thread_safe,
)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def three_threads() -> Iterator[None]:
    with torch_threads(3):
        yield


@pytest.mark.usefixtures("three_threads")
def test_a_large_pass_inside_a_step_gets_back_what_the_step_put_aside() -> None:
    found = []
    with one_thread(), one_thread():
        found.append(torch.get_num_threads())
        with many_threads():
            found.append(torch.get_num_threads())
        found.append(torch.get_num_threads())
    with many_threads():
        found.append(torch.get_num_threads())
    assert found == [1, 3, 1, 3]
    with torch_threads(1), many_threads():
        assert torch.get_num_threads() == 1


@pytest.mark.usefixtures("three_threads")
def test_shared_tasks_use_the_threads_put_aside_unless_others_have_them() -> None:
    meeting = threading.Barrier(3, timeout=20)  # passes only if three threads are there at once

    def nested(_: int) -> list[int]:
        meeting.wait()
        return share_tasks(lambda _: threading.get_ident(), range(3), threads=True)

    with one_thread():
        found = share_tasks(nested, range(3), threads=True)
        alone = share_tasks(lambda _: torch.get_num_threads(), range(2), threads=False)
    assert all(len(set(own)) == 1 for own in found)  # each on the thread of its task
    assert len({own[0] for own in found}) == 3
    assert alone == [1, 1]


@pytest.mark.parametrize("threads", [True, False])
@pytest.mark.parametrize(("n", "size"), [(10, 3), (9, 3), (2, 3), (0, 3)])
@pytest.mark.usefixtures("three_threads")
def test_results_come_in_order(n: int, size: int, threads: bool) -> None:
    rows = torch.arange(n)
    parts = map_chunks(lambda chunk: rows[chunk].tolist(), n, size, threads=threads)
    assert [row for part in parts for row in part] == list(range(n))
    assert all(len(part) == size for part in parts[:-1])


@pytest.mark.usefixtures("three_threads")
def test_chunks_run_apart_on_one_thread_each() -> None:
    meeting = threading.Barrier(3, timeout=20)  # passes only if three threads are there at once

    def work(_: slice) -> int:
        meeting.wait()
        return torch.get_num_threads()

    assert map_chunks(work, 3, 1, threads=True) == [1, 1, 1]
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_whether_gradients_are_recorded_holds_in_all_threads(mode: type) -> None:
    with mode():
        expected = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        found = map_chunks(
            lambda _: (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
            9, 1, threads=True,
        )  # fmt: skip
    assert set(found) == {expected}


@pytest.mark.usefixtures("three_threads")
def test_an_error_in_a_chunk_is_not_lost() -> None:
    def work(chunk: slice) -> None:
        if chunk.start == 4:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        map_chunks(work, 9, 1, threads=True)
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_one_thread_in_the_block_only() -> None:
    with one_thread() as before:
        assert (before, torch.get_num_threads()) == (3, 1)
    assert torch.get_num_threads() == 3


class Remembering(torch.nn.Module):
    """Keeps something between calls: two threads would get in each other's way."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x
        return self.last


def test_only_known_layers_are_shared_by_threads() -> None:
    plain = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    assert thread_safe(plain)
    assert not thread_safe(torch.nn.Sequential(plain, Remembering()))
    assert not thread_safe(torch.nn.Linear(2, 2, device="meta"))


def test_convolutions_are_exact_in_the_block_alone() -> None:
    def flags() -> tuple[bool, bool]:
        return torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32

    before = flags()
    with exact_convolutions():
        assert flags() == (True, False)
    assert flags() == before


@pytest.mark.usefixtures("three_threads")
def test_no_thread_works_on_after_an_error() -> None:
    meeting = threading.Barrier(3, timeout=20)
    main, tasks, done = threading.get_ident(), 50, []

    def work(task: int) -> None:
        if task < 3:
            meeting.wait()
        if threading.get_ident() == main:
            raise ValueError("broken")
        threading.Event().wait(0.02)
        done.append(task)

    with pytest.raises(ValueError, match="broken"):
        share_tasks(work, range(tasks), threads=True)
    ended = len(done)
    threading.Event().wait(0.05)
    assert len(done) == ended < tasks - 1


def numbers() -> list[torch.Tensor]:
    """Compute what threads would add up in parts: a long sum, a decomposition, a convolution."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(200_000, generator=draw)
    square = torch.randn(300, 310, generator=draw, dtype=torch.float64)
    kernel = torch.randn(8, 3, 3, 3, generator=draw, requires_grad=True)
    images = torch.randn(32, 3, 16, 16, generator=draw)
    torch.nn.functional.conv2d(images, kernel).square().sum().backward()
    assert kernel.grad is not None
    return [x.sum(), torch.linalg.cholesky(square @ square.T), kernel.grad]


@pytest.mark.parametrize("several", [False, True])
def test_the_same_bits_on_any_number_of_threads(
    several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compute, "SEVERAL", 2)
    found = []
    for number in (1, 2, 3):
        with torch_threads(number), same_bits():
            with several_threads() if several else nullcontext():
                found.append(numbers())
            assert torch.get_num_threads() == 1
    for others in found[1:]:
        assert all(map(torch.equal, found[0], others))


@pytest.mark.usefixtures("three_threads")
def test_chunks_are_shared_by_all_threads_where_operations_have_one() -> None:
    meeting = threading.Barrier(3, timeout=20)  # passes only if three threads are there at once

    def work(_: int) -> int:
        meeting.wait()
        with several_threads():  # the others are at work
            return torch.get_num_threads()

    with same_bits():
        assert map_chunks(lambda rows: work(rows.start), 3, 1, threads=True) == [1, 1, 1]
        with one_thread():
            assert share_tasks(work, range(3), threads=True) == [1, 1, 1]
            assert len(map_chunks(lambda rows: threading.get_ident(), 3, 1, threads=True)) == 3
        with several_threads():
            assert torch.get_num_threads() == compute.SEVERAL
        with many_threads():
            assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


CPU = torch.device("cpu")


def test_free_memory_is_known_on_this_machine() -> None:
    free = free_memory(CPU)
    assert free is None or free > 2**20


@pytest.mark.parametrize(
    ("limit", "expected"), [("max", 3 * 1024), ("2048", 2048), ("1000000", 3 * 1024)]
)
def test_a_container_may_have_less_than_the_machine(
    limit: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"MEMINFO": "MemTotal:   9 kB\nMemAvailable:    3 kB\n", "LIMIT": f"{limit}\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(compute, name, tmp_path / name)
    assert free_memory(CPU) == expected


def test_without_these_files_the_whole_memory_counts_or_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MEMINFO", "LIMIT"):
        monkeypatch.setattr(compute, name, tmp_path / name)
    monkeypatch.setattr(compute.os, "sysconf_names", {})
    assert free_memory(CPU) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_free_memory_of_a_gpu() -> None:
    assert (free_memory(torch.device("cuda")) or 0) > 2**20
