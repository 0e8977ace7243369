from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
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
NOT_THERE = (
    "moments",
    "streams",
    "biographies",
    "biographies-trained",
)  # no counterpart
SHARED = ("methods",)  # shows values of other tables
Key = tuple[str, str, str]  # column, row, metric
# Added up from the tables as the paper prints them, apart from the files here: the sum of means and
# that of the deviations. First over the rows, for each column and metric; then for each row.
SUMS = {
    "eer": (
        "6.701±.094 1.188±.079 7.409±.104 .953±.060",
        "1.834±.072 1.651±.129 1.557±0 1.820±.021 1.850±.059 1.865±.011 1.937±.004 1.877±.020 "
        "1.860±.021",
    ),
    "eo": (
        "5.683±.076 .546±.032 6.935±.053 1.720±.100 3.653±.156 1.188±.274",
        "2.466±.108 1.398±.135 1.395±.049 2.391±.038 2.616±.075 2.714±.076 2.572±.075 "
        "1.703±.074 2.470±.061",
    ),
    "dp": (
        "5.684±.077 .175±.004 6.930±.053 .168±.027 3.605±.160 .622±.113",
        "2.184±.061 1.246±.101 1.373±.034 2.191±.025 2.136±.048 2.205±.045 2.326±.040 "
        "1.305±.039 2.218±.041",
    ),
    "ablation": (
        "1.615±.006 .044±0 1.614±.005 .145±.003 1.814±.007 .017±.002 1.819±.007 .245±.012 "
        ".807±.023 .087±.008 .808±.024 .157±.015 1.634±.010 .131±.009 1.837±.008 .083±.010",
        "6.455±.065 6.402±.084",
    ),
    "hinge": (
        "1.616±.009 .044±0 1.615±.004 .143±.003 1.808±.008 .016±.002 1.818±.008 .238±.013 "
        ".810±.026 .086±.008 .812±.028 .154±.020 1.649±.012 .078±.011 1.850±.007 .062±.011",
        "6.402±.084 6.397±.086",
    ),
    "buffer-strategy": (
        "1.596±.017 .044±.001 1.608±.007 .143±.002 1.780±.013 .016±.002 1.802±.010 .243±.012 "
        ".809±.026 .084±.009 .811±.026 .154±.017 1.651±.011 .080±.014 1.852±.009 .062±.008",
        "6.402±.084 6.333±.100",
    ),
    "solvers": (
        "1.616±.007 .044±0 1.613±.006 .142±.003 1.806±.010 .017±.003 1.816±.009 .236±.013 "
        ".810±.026 .086±.008 .812±.028 .154±.020 1.649±.012 .078±.013 1.850±.008 .063±.011",
        "6.402±.084 6.390±.093",
    ),
    "epsilon-fair": (
        "7.658±.032 .192±.001 10.743±.076 .180±.023 4.860±.227 .597±.129",
        "2.184±.061 2.098±.056 2.191±.025 2.076±.028 2.136±.048 2.094±.044 2.205±.045 "
        "2.173±.034 1.305±.039 1.419±.018 2.218±.041 2.131±.049",
    ),
    "table1": (
        "5.683±.076 .546±.032 6.935±.053 1.720±.100 3.653±.156 1.188±.247 6.701±.094 "
        "1.188±.079 7.409±.104 .953±.060",
        "4.300±.180 3.049±.264 2.952±.049 4.211±.059 4.466±.134 4.579±.087 4.509±.079 "
        "3.580±.067 4.330±.082",
    ),
    "non-targeted": (
        "2.423±.008 .066±0 .141±.016 .214±.005 2.723±.011 .025±.003 .093±.009 .369±.020 "
        "1.213±.037 .130±.012 .233±.021 .236±.021",
        "2.638±.045 2.606±.060 2.622±.058",
    ),
    "runtime": (
        "233±17 507±4 16126±445 94±3",
        "96±18 5827±228 1669±42 5563±69 947±15 2681±74 177±23",
    ),
    "layers": (
        "1.819±.009 .236±.016 7143.9±0 24076±899 1085±7 278±13",
        "3698.428±24.011 28886.527±895.014",
    ),
    "weights": (
        "25273.2±0 3.5±0 25274.7±0 2.0±0 11831.6±0 2.1±0 11831.9±0 1.9±0 446.1±0 .4±0 446.5±0 "
        ".0±0 11997.4±0 2.6±0 11830.8±0 3.0±0",
        "98947.7±0",
    ),
    "toy": (
        "88±0 127±0",
        "215±0",
    ),
    "lp-time": (
        "1.642±0",
        "1.642±0",
    ),
}


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


def sums(topic: str, position: Callable[[Key], tuple[str, ...]]) -> list[tuple[Decimal, Decimal]]:
    """Sums of means and deviations, in alphabetical order of what has one."""
    found: dict[tuple[str, ...], tuple[Decimal, Decimal]] = {}
    for key, value in published(topic).values.items():
        mean, deviation = found.get(position(key), (Decimal(0), Decimal(0)))
        more = Decimal(str(value.deviation or 0))
        found[position(key)] = (mean + Decimal(str(value.mean)), deviation + more)
    return [pair for _, pair in sorted(found.items())]


def numbers(text: str) -> list[tuple[Decimal, Decimal]]:
    pairs = (part.split("±") for part in text.split())
    return [(Decimal(mean), Decimal(deviation)) for mean, deviation in pairs]


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic not in (*NOT_THERE, *SHARED)])
def test_values_add_up_to_the_sums_of_the_papers_tables(topic: str) -> None:
    columns, rows = SUMS[topic]
    assert sums(topic, lambda key: (key[0], key[2])) == numbers(columns)
    assert sums(topic, lambda key: (key[1],)) == numbers(rows)
