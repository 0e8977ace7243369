"""Predictions of others: what they need to make them, and how they are read and checked."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faircil.data.datasets import load_dataset
from faircil.data.stream import TaskStream
from faircil.errors import DataError, FaircilError, StorageError, raise_all, shortened
from faircil.files import file_digest
from faircil.results.folder import seed_folder
from faircil.results.run_files import PREDICTION_COLUMNS
from faircil.runs.config import resolve
from faircil.runs.state import load_stream
from faircil_lab.bench.measuring import in_processes
from faircil_lab.paper.contenders import files_absent
from faircil_lab.suite.board_rows import BoardRow
from faircil_lab.suite.catalogue import PLAIN, RULES, Suite, SuiteStream
from faircil_lab.suite.row_index import AFTER, PREDICTED, ROW, TRUE, index_of_stream, read_aligned
from faircil_lab.suite.scoring import SeedScore, score

FILE, TEST_ROWS, INPUTS = "predictions.csv", "test_rows.csv", "inputs.npz"
FORMAT = f"""# Predictions for the suite {{label}}

For every stream and seed, write `STREAM/seed-N/{FILE}` here, with a header and these columns:

| column | content |
|---|---|
| `{AFTER}` | number of the task after which the prediction was made, from 1 |
| `{ROW}` | number of the test row, as in `{TEST_ROWS}`; may be left out if rows are in that order |
| `{TRUE}` | its class, as in `{TEST_ROWS}`, by which misplaced rows are detected |
| `{PREDICTED}` | the class that the method predicts |

Further columns that a run of faircil writes ({", ".join(PREDICTION_COLUMNS)}) are allowed. After
each task there is a row for each test row of the tasks so far: of those whose `task` in
`{TEST_ROWS}` is at most `{AFTER}`. Classes are named as in `suite.json`.

Then

```
faircil bench fair-cil{{small}} --predictions THIS_FOLDER --name "My method"
```

checks everything, scores it, and writes the row to `bench/fair-cil/rows`.

## Training data

`suite.json` says which classes come in which task, and what a method may keep. With faircil:

```python
from faircil.data.datasets import load_dataset

stream = load_dataset("{{first}}", seed=0)
for task in stream.tasks:
    print(task.classes, task.train.x.shape, task.train.y, task.train.z)
```

Without faircil: `--write-template DIR --inputs` writes `STREAM/seed-N/{INPUTS}` as well, with the
arrays `train_x`, `train_y`, `train_z`, `train_task`, `test_x` and `test_task`. Numbers of classes
and of attribute values are positions in the names of `suite.json`, and −1 is unknown; there is no
`train_z` without an attribute. Rows of `test_x` are in the order of `{TEST_ROWS}`. Where the seed
does not change the data, only the first seed has it: other seeds are for what a method draws.

## Rules

{{rules}}
"""


def write_template(
    suite: Suite,
    streams: Sequence[SuiteStream],
    seeds: Sequence[int],
    folder: Path,
    *,
    inputs: bool,
) -> Iterator[str]:
    """Write what others need to make predictions; yields a line for each stream.

    Parameters
    ----------
    suite : Suite
    streams : sequence of SuiteStream
    seeds : sequence of int
    folder : Path
    inputs : bool
        Whether to write training and test inputs, too.
    """
    described = []
    for stream in streams:
        data = load_dataset(stream.dataset, seeds[0])
        described.append(_described(stream, data))
        for seed in seeds:
            stream_data = data if seed == seeds[0] else load_dataset(stream.dataset, seed)
            index = index_of_stream(stream_data)
            stream.check(index.digest, seed, stream.dataset)
            place = seed_folder(folder / stream.dataset, seed)
            # Attribute values of test rows are not for those who predict.
            rows = zip(count(), index.task.tolist(), index.label, strict=False)
            _write(place / TEST_ROWS, _as_csv([(ROW, "task", TRUE), *rows]).encode())
            if inputs and (stream.redrawn or seed == seeds[0]):
                _write(place / INPUTS, _as_archive(_arrays(stream, seed)))
        number = f"{len(seeds)} seed{'s' * (len(seeds) != 1)}"
        yield f"{stream.dataset}: test rows of {number}{' and inputs' * inputs}"
    document = {
        "suite": suite.label,
        "seeds": list(suite.seeds),
        "rules": dict(RULES),
        "streams": described,
    }
    _write(folder / "suite.json", (json.dumps(document, indent=1, ensure_ascii=False)).encode())
    rules = "\n".join(f"- **{name}.** {text}" for name, text in RULES.items())
    small = " --small" if suite.name.endswith("-small") else ""
    text = FORMAT.format(label=suite.label, small=small, first=streams[0].dataset, rules=rules)
    _write(folder / "README.md", text.encode())


def available(
    streams: Sequence[SuiteStream], report: Callable[[str], None]
) -> Sequence[SuiteStream]:
    """Return the streams whose files are there, and report which are not."""
    absent = [stream.dataset for stream in streams if files_absent(stream.dataset)]
    if absent:
        report(f"left out, since files are absent: {', '.join(absent)}; see faircil data")
    kept = [stream for stream in streams if stream.dataset not in absent]
    if not kept:
        raise DataError("the files of no stream are there; for a suite without files, add --small")
    return kept


def _described(stream: SuiteStream, data: TaskStream) -> dict[str, Any]:
    return {
        "name": stream.dataset,
        "title": stream.title,
        "inputs": stream.inputs,
        "measure": stream.measure,
        "disparity": stream.disparity,
        "attribute": stream.attribute,
        "attribute_values": list(data.attribute_values),
        "classes": list(data.class_names),
        "tasks": [[data.class_names[c] for c in task.classes] for task in data.tasks],
        "epochs": stream.epochs,
        "kept_rows_of_a_group": stream.buffer_size,
        "forbidden": stream.forbidden,
        "seed_changes_the_data": stream.redrawn,
    }


def _arrays(stream: SuiteStream, seed: int) -> dict[str, NDArray[Any]]:
    """Return inputs and labels as plain replay sees them: texts are encoded."""
    data = load_stream(resolve(dataset=stream.dataset, method=PLAIN), seed)
    train, test = ([getattr(task, part) for task in data.tasks] for part in ("train", "test"))

    def joined(parts: Iterable[Any]) -> NDArray[Any]:
        return np.concatenate([part.numpy() for part in parts])

    def tasks(parts: Sequence[Any]) -> NDArray[np.int64]:
        return np.repeat(np.arange(1, len(parts) + 1), [len(part) for part in parts])

    arrays = {
        "train_x": joined(part.x for part in train),
        "train_y": joined(part.y for part in train),
        "train_task": tasks(train),
        "test_x": joined(part.x for part in test),
        "test_task": tasks(test),
    }
    if stream.attribute is not None:
        arrays["train_z"] = joined(part.z for part in train)
    return arrays


def _as_archive(arrays: dict[str, NDArray[Any]]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def _as_csv(rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; free space, or choose another folder"
        ) from None


Submitted = tuple[SuiteStream, int, Path]
MOST_MISTAKES = 30


def row_of_predictions(
    folder: Path,
    name: str,
    suite: Suite,
    streams: Sequence[SuiteStream],
    seeds: Sequence[int],
    jobs: int = 1,
) -> BoardRow:
    """Check and score a folder of predictions.

    Parameters
    ----------
    folder : Path
        With ``STREAM/seed-N/predictions.csv`` for each stream and seed.
    name : str
        Of the row.
    suite : Suite
    streams : sequence of SuiteStream
    seeds : sequence of int
    jobs : int
        Processes that read and score.

    Raises
    ------
    DataError
        That names all mistakes of all files.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; expected one with STREAM/seed-N/{FILE}")
    mistakes = [
        f"{path} is no stream of {suite.label}; remove it, or rename it to one of "
        f"{', '.join(stream.dataset for stream in suite.streams)}"
        for path in sorted(folder.iterdir())
        if path.is_dir() and path.name not in {stream.dataset for stream in suite.streams}
    ]
    cases: list[Submitted] = []
    for stream in streams:
        own = {seed: seed_folder(folder / stream.dataset, seed) / FILE for seed in seeds}
        cases += [(stream, seed, path) for seed, path in own.items() if path.is_file()]
        absent = [str(path) for path in own.values() if not path.is_file()]
        if absent:
            missing = f"{shortened(absent, 1)} {'is' if len(absent) == 1 else 'are'} missing"
            mistakes.append(f"{missing}; write all, or score a part with --streams or --seeds")
    scores: dict[str, dict[int, SeedScore]] = {}
    for (stream, seed, _), found in zip(cases, in_processes(_scored, cases, jobs), strict=True):
        if isinstance(found, SeedScore):
            scores.setdefault(stream.dataset, {})[seed] = found
        else:
            mistakes += found
    mistakes = list(dict.fromkeys(mistakes))
    if len(mistakes) > MOST_MISTAKES:
        mistakes[MOST_MISTAKES:] = [f"{len(mistakes) - MOST_MISTAKES} further mistakes like these"]
    raise_all(mistakes, DataError)
    digests = "".join(file_digest(path) for _, _, path in cases)
    short = sha256(digests.encode()).hexdigest()[:16]
    return BoardRow(
        name,
        suite.label,
        "predictions",
        "predictions, not run here",
        scores,
        made=(f"files with the digest {short}",),
    )


def _scored(case: Submitted) -> SeedScore | list[str]:
    """Score a file, or say all that is wrong with it."""
    stream, seed, path = case
    mistakes: list[str] = []
    try:
        index = index_of_stream(load_dataset(stream.dataset, seed))
        stream.check(index.digest, seed, stream.dataset)
        predicted = read_aligned(path, index, mistakes)
    except FaircilError as error:
        return [*map(str, error.args)]
    return mistakes if predicted is None else score(stream, index, predicted)
