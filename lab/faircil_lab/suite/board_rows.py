"""Rows of the leaderboard as files: what a method scored on each stream and seed, and how it ran.

A file is a row; rows that come with the laboratory are in the folder ``rows``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from faircil.errors import DataError, StorageError, raise_all
from faircil.files import file_name
from faircil_lab.suite.catalogue import Suite
from faircil_lab.suite.scoring import SeedScore

Origin = Literal["run", "predictions"]
DIGITS = 5  # of a score in a file
HERE = "faircil_lab.suite"


@dataclass(frozen=True)
class BoardRow:
    """A method on the suite.

    Parameters
    ----------
    name : str
    suite : str
        Name and version of the suite.
    origin : {"run", "predictions"}
        Whether the command ran the method, or was given its predictions.
    what : str
        Method and settings, or where the predictions come from.
    scores : mapping from stream to seed to SeedScore
    missing : mapping from stream to reason
        Why scores of some seeds, or all, are missing.
    reference : bool
        Whether it is a bound that others are not ranked against.
    other_budget : str
        Settings that go beyond the budget of the suite; empty for none. Such a row is not ranked.
    made : tuple of str
        Machines and versions that made it.
    note : str
        What a reader should know along with its scores.
    """

    name: str
    suite: str
    origin: Origin
    what: str
    scores: Mapping[str, Mapping[int, SeedScore]]
    missing: Mapping[str, str] = field(default_factory=dict)
    reference: bool = False
    other_budget: str = ""
    made: tuple[str, ...] = ()
    note: str = ""

    @property
    def ranked(self) -> bool:
        """Whether it takes part in ranks."""
        return not self.reference and not self.other_budget

    def joined(self, earlier: BoardRow) -> BoardRow:
        """Return this row, with the streams and seeds that only an earlier state of it has."""
        if (earlier.what, earlier.suite, earlier.origin) != (self.what, self.suite, self.origin):
            return self
        scores: dict[str, dict[int, SeedScore]] = {}
        for row in (earlier, self):
            for name, seeds in row.scores.items():
                scores[name] = dict(sorted({**scores.get(name, {}), **seeds}.items()))
        reasons = {n: why for n, why in earlier.missing.items() if n not in self.scores}
        known = {n for n in self.missing if n in self.scores or n not in earlier.scores}
        return replace(
            self,
            scores=scores,
            missing=reasons | {name: self.missing[name] for name in known},
            made=tuple(dict.fromkeys((*earlier.made, *self.made))),
        )


_ROW = TypeAdapter(BoardRow)


def as_text(row: BoardRow) -> str:
    """Write a row as JSON, a line for each seed, so that people can read what changed."""
    head = {name: value for name, value in asdict(row).items() if name != "scores"}
    lines = [f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in head.items()]
    streams = []
    for stream, seeds in row.scores.items():
        each = (f'   "{seed}": {json.dumps(_rounded(asdict(one)))}' for seed, one in seeds.items())
        streams.append(f"  {json.dumps(stream)}: {{\n" + ",\n".join(each) + "\n  }")
    lines.append(' "scores": {\n' + ",\n".join(streams) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def write_row(row: BoardRow, folder: Path) -> Path:
    """Write a row to a folder; return the file."""
    path = folder / f"{file_name(row.name)}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(as_text(row), encoding="utf-8")
    except OSError as error:
        raise StorageError(
            f"cannot write the row {path}: {error.strerror or error}; free space, or choose "
            "another folder with --out"
        ) from None
    return path


def read_row(path: Path, suite: Suite) -> BoardRow:
    """Read a row of a suite; DataError if it is none."""
    try:
        row = _ROW.validate_python(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, ValidationError):
        raise DataError(
            f"{path} is no row of a leaderboard; expected a file that `faircil bench fair-cil` "
            "wrote to the folder rows of its --out"
        ) from None
    if row.suite != suite.label:
        raise DataError(
            f"{path} is a row of the suite {row.suite}, expected {suite.label}: scores of two "
            "versions are not comparable; score its predictions again"
        )
    others = [name for name in row.scores if name not in {s.dataset for s in suite.streams}]
    if others:
        raise DataError(f"{path} has scores of {', '.join(others)}, no streams of {suite.label}")
    return row


def read_rows(folders: Iterable[Path], suite: Suite) -> dict[str, BoardRow]:
    """Read the rows in folders, by name; a later folder's row takes the place of an earlier one."""
    rows: dict[str, BoardRow] = {}
    mistakes = []
    for folder in folders:
        for path in sorted(folder.glob("*.json")):
            try:
                row = read_row(path, suite)
            except DataError as error:
                mistakes.append(str(error))
                continue
            rows[row.name] = row
    raise_all(mistakes, DataError)
    return rows


def shipped_folder(suite: Suite) -> Path:
    """Return where the rows that come with the laboratory are."""
    return Path(str(files(HERE))) / "rows" / suite.name
