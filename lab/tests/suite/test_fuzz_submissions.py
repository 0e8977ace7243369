"""Fuzzing of what others hand in: folders of predictions, and rows of a leaderboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from faircil_lab.suite.board_rows import as_text, read_row
from faircil_lab.suite.row_index import UNSEEN, read_aligned
from faircil_lab.suite.scoring import score
from fuzzing import WORDS, Harness, few_and_thousands, refused, scratch_folder, usually
from spoilt_files import replaced, replacing, spoilings, spoilt
from suite_rows import (
    STREAM,
    SUITE,
    made_index,
    made_predictions,
    made_row,
    table_rows,
    write_table,
)

HOME = scratch_folder()
INDEX = made_index(per_group=1)
ROWS = table_rows(INDEX, made_predictions(INDEX, 0.6))
CELLS = st.one_of(
    st.sampled_from(["a", "b", "c", "d", "0", "1", "2", "3", "7", "8", "-1", "1.0", " 1", "٣"]),
    st.sampled_from(["9" * 30, "9" * 5000, "1e3"]),
    WORDS,
)
NAMES = ["after_task", "row", "y_true", "y_pred"]


@st.composite
def tables(draw: st.DrawFn) -> list[dict[str, str]]:
    """Draw predictions: others, in another order, and now and then with mistakes."""
    rows = [dict(row) for row in ROWS]
    for row in rows:
        row["y_pred"] = draw(st.sampled_from("abcd"))
    if draw(st.booleans()):
        rows = draw(st.permutations(rows))
    if draw(st.booleans()):
        for row in rows:
            row["task"] = str(INDEX.task[int(row["row"])])
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["cell", "cell", "remove", "double", "column", "rename"]))
        at = draw(st.integers(0, len(rows) - 1)) if rows else 0
        name = draw(st.sampled_from(NAMES))
        if kind == "cell" and rows and name in rows[at]:
            rows[at][name] = draw(CELLS)
        elif kind == "remove":
            del rows[at : at + 1]
        elif kind == "double":
            rows[at:at] = [dict(row) for row in rows[at : at + 1]]
        elif kind in ("column", "rename"):
            other = draw(WORDS.filter(lambda text: "\0" not in text))
            for row in rows:
                if name in row:
                    value = row.pop(name)
                    if kind == "rename":
                        row[other] = value
    return rows


def check_submission(case: tuple[list[dict[str, str]], list[Any]]) -> None:
    """What is accepted is each prediction at the row that its table says."""
    rows, changes = case
    path = HOME / "predictions.csv"
    if not rows or not rows[0]:
        path.write_text("after_task,row,y_true,y_pred\n")
    else:
        write_table(path, rows)
    path.write_bytes(spoilt(path.read_bytes(), changes))
    mistakes: list[str] = []
    with refused():
        found = read_aligned(path, INDEX, mistakes)
        assert (found is None) == bool(mistakes)
        assert all(mistake.strip() for mistake in mistakes)
        if found is None:
            return
        for after in range(1, INDEX.tasks + 1):
            assert (found[after - 1, INDEX.seen(after) :] == UNSEEN).all()
        score(STREAM, INDEX, found)
        if changes:
            return
        names, places = INDEX.classes, dict.fromkeys(range(1, INDEX.tasks + 1), 0)
        for row in rows:
            after = int(row["after_task"])
            place = int(row["row"]) if "row" in row else places[after]
            places[after] += 1
            assert names[found[after - 1, place]] == row["y_pred"]


def check_row(case: tuple[str, Any]) -> None:
    """A row that is read can be written, and is then read as the same."""
    kind, changes = case
    path = HOME / "row.json"
    text = as_text(made_row("mine"))
    if kind == "bytes":
        path.write_bytes(spoilt(text.encode(), changes))
    else:
        path.write_text(json.dumps(replaced(json.loads(text), changes)))
    with refused():
        row = read_row(path, SUITE)
        again = Path(HOME / "again.json")
        again.write_text(as_text(row), encoding="utf-8")
        assert as_text(read_row(again, SUITE)) == as_text(row)
        for seeds in row.scores.values():
            for one in seeds.values():
                for value in (one.accuracy, one.disparity, one.worst_group):
                    assert value is None or np.isfinite([value.value, value.low, value.high]).all()


def long_number() -> list[dict[str, str]]:
    """Return rows, one with a number of more digits than Python reads."""
    return [dict(row, row=row["row"] if number else "9" * 5000) for number, row in enumerate(ROWS)]


submissions = st.tuples(tables(), usually(st.just([]), spoilings))
changed = st.one_of(st.tuples(st.just("bytes"), spoilings), st.tuples(st.just("values"), replacing))
HARNESSES = {
    "read_aligned": Harness(submissions, check_submission, kept=((long_number(), []),)),
    "read_row": Harness(changed, check_row, kept=(("values", [(247, "nan")]),)),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
