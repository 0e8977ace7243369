from __future__ import annotations

import tomllib
from collections import Counter
from importlib.resources import files

import pytest

from faircil_lab.paper.metrics import METRICS
from faircil_lab.paper.published import METHODS, Value, parse_value, published

FOLDER = files("faircil_lab.paper") / "published"
TOPICS = sorted(
    file.name.removesuffix(".toml")
    for file in FOLDER.iterdir()
    if file.name.endswith(".toml") and file.name != "reasons.toml"
)
# Those whose numbers are of runs; the others belong to measurements.
TABLES = [topic for topic in TOPICS if topic not in ("toy", "lp-time", "weights")]
NOT_THERE = ("biographies", "biographies-trained")  # pages beside the paper


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_says_where_it_is_and_has_values(topic: str) -> None:
    table = published(topic)
    assert table.paper
    assert bool(table.values) == (topic not in NOT_THERE)
    for value in table.values.values():
        assert value.deviation is None or value.deviation >= 0


@pytest.mark.parametrize("topic", TABLES)
def test_metrics_of_tables_are_known_and_shares_are_shares(topic: str) -> None:
    for (_, _, metric), value in published(topic).values.items():
        assert metric in METRICS
        if METRICS[metric].digits == 3:
            assert 0 <= value.mean <= 1
            assert value.rounding == 0.0005


@pytest.mark.parametrize("topic", TOPICS)
def test_files_have_no_empty_columns(topic: str) -> None:
    content = tomllib.loads((FOLDER / f"{topic}.toml").read_text("utf-8"))
    for name, column in content.items():
        if name not in ("paper", "include"):
            assert set(column) == {"metrics", "rows"}
            assert all(len(row) == len(column["metrics"]) for row in column["rows"].values())


def test_numbers_of_values_are_those_of_the_tables() -> None:
    # Methods × datasets × 2 metrics, less OCS on BiasBios.
    assert {topic: len(published(topic).values) for topic in ("eer", "eo", "dp", "table1")} == {
        "eer": 9 * 2 * 2,
        "eo": (9 * 3 - 1) * 2,
        "dp": (9 * 3 - 1) * 2,
        "table1": (9 * 5 - 1) * 2,
    }
    for topic in ("ablation", "hinge", "buffer-strategy", "solvers"):
        assert len(published(topic).values) == 2 * 8 * 2


def test_the_main_table_differs_from_the_others_in_one_deviation() -> None:
    main = published("table1").values
    parts = {**published("eer").values, **published("eo").values}
    differing = {key for key in main if main[key] != parts[key]}
    assert main.keys() == parts.keys()
    assert differing == {("drug eo", "ocs", "eo_gap")}


@pytest.mark.parametrize("topic", ["ablation", "hinge", "buffer-strategy"])
def test_fsw_is_the_same_in_all_tables(topic: str) -> None:
    every = {**published("eer").values, **published("eo").values, **published("dp").values}
    for key, value in published(topic).values.items():
        if key[1] == "fsw":
            assert value == every[key]


@pytest.mark.parametrize("text", [".925 ± .004", "835 ± 18", "2,863.4", "1.642"])
def test_values_are_written_as_they_are_printed(text: str) -> None:
    assert str(parse_value(text.replace(",", ""))) == text


def test_rounding_is_half_of_the_last_digit() -> None:
    assert parse_value("11830.8") == Value(11830.8, None, 0.05)
    assert parse_value("127").rounding == 0.5


def test_methods_of_the_main_table_have_a_reason() -> None:
    rows = {row for _, row, _ in published("table1").values}
    assert rows <= METHODS.keys()
    assert Counter(METHODS[row].defect for row in rows) == {True: 6, False: 3}
