"""Whole runs, each in its own process, so that time and memory are its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

from faircil.bench.run.contenders import Contender
from faircil.bench.run.record import RunCost
from faircil.errors import FaircilError
from faircil.results.record import Seconds


def measure_runs(contenders: Sequence[Contender], repeats: int, device: str) -> Iterator[RunCost]:
    """Run all methods of a dataset in turns, ``repeats`` times, then those of the next."""
    for dataset in dict.fromkeys(contender.dataset for contender in contenders):
        for repeat in range(1, repeats + 1):
            for contender in contenders:
                if contender.dataset == dataset:
                    yield run_once(contender, repeat, device)


def run_once(contender: Contender, repeat: int, device: str) -> RunCost:
    """Run a method in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "faircil", "run", *contender.arguments]
        command += ["--json", "--quiet", "--device", device, "--out", folder]
        document, memory = _run(command)
    run = document["runs"][0]
    return RunCost(
        contender.dataset,
        contender.name,
        repeat,
        Seconds(**run["seconds"]),
        memory,
        run["accuracy"],
    )


def _run(command: Sequence[str]) -> tuple[dict[str, Any], float | None]:
    """Return what the command printed, and its peak memory in GiB."""
    # Files and not pipes: nobody reads while we wait.
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as messages:
        process = subprocess.Popen(command, stdout=output, stderr=messages)
        try:
            memory = _wait(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode:
            raise FaircilError(_read(messages).strip().removeprefix("error:").strip())
        document: dict[str, Any] = json.loads(_read(output))
        return document, memory


def _wait(process: subprocess.Popen[bytes]) -> float | None:
    """Wait for the end of a process; return its peak memory, None where the system hides it."""
    if not hasattr(os, "wait4"):
        process.wait()
        return None
    # The peak counts what the parent held when it forked, so this comes before data is loaded.
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * bytes_per_unit / 2**30


def _read(file: IO[str]) -> str:
    file.seek(0)
    return file.read()
