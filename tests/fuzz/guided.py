"""Fuzzing guided by coverage: atheris changes bytes so that they reach new lines of faircil.

``python tests/fuzz/guided.py NAME -runs=5000`` tries so many files of the harness NAME of
:func:`targets`, beginning with valid ones; what follows the name goes to libFuzzer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Target:
    """What is done with bytes, and valid ones."""

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


def targets(files: Any, parts: Any) -> dict[str, Target]:
    """Return the targets by name, made of the harnesses of two modules of tests."""

    def table(check: Callable[[tuple[str, bytes]], None], name: str) -> Target:
        return Target(lambda data: check((name, data)), lambda: [files.tables()[name]])

    def check_model(data: bytes) -> None:
        """Take the bytes as what a model says of itself, with a right checksum."""
        with suppress(ValueError, RecursionError):
            content = json.loads(data)
            json.dumps(content, allow_nan=False)
            files.check_model(("content", content))

    def model_content() -> list[bytes]:
        sealed = json.loads((files.model_folder() / files.CONTENT).read_text())
        return [json.dumps(sealed["content"]).encode()]

    def run_summary() -> list[bytes]:
        return [path.read_bytes() for path in sorted(files.run_folder().rglob("summary.json"))]

    return {
        "read_table csv": table(files.check_table, "t.csv"),
        "read_table npz": table(files.check_table, "t.npz"),
        "read_table parquet": table(files.check_table, "t.parquet"),
        "read_table feather": table(files.check_table, "t.feather"),
        "audit_file": table(files.check_audit_file, "t.csv"),
        "read_predictions": table(files.check_predictions, "t.csv"),
        "parted_table arrow": Target(parts.check_arrow, parts.arrow_files),
        "read_idx": Target(files.check_idx, lambda: [files.IDX]),
        "find_runs": Target(lambda data: files.check_run(("bytes", data)), run_summary),
        "load_model": Target(check_model, model_content),
    }


def main(name: str, options: list[str]) -> None:
    """Try files until there are enough of them, or a finding, which is written here."""
    import atheris

    sys.path.append(str(Path(__file__).parents[1] / "support"))
    with atheris.instrument_imports(include=["faircil"]):
        import test_fuzz_files as files
        import test_fuzz_parts as parts

        target = targets(files, parts)[name]
        corpus = files.folder_of("corpus")
        for number, seed in enumerate(target.seeds()):
            (corpus / str(number)).write_bytes(seed)
            target.check(seed)  # imports what is imported on first use
    usual = ["-timeout=60", "-rss_limit_mb=0", "-print_final_stats=1"]
    usual.append(f"-artifact_prefix={Path.cwd()}/")
    atheris.Setup([sys.argv[0], *usual, *options, str(corpus)], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
