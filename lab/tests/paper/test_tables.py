"""The tables of the paper as data: all that is published stands in a line of ours."""

from __future__ import annotations

import pytest

from faircil.data.datasets import DATASETS
from faircil.runs.config import resolve
from faircil_lab.paper.epsilon_fair import BASE
from faircil_lab.paper.exhibits import EXHIBITS
from faircil_lab.paper.metrics import METRICS
from faircil_lab.paper.published import published
from faircil_lab.paper.table import ComparisonTable

TABLES = {name: e for name, e in EXHIBITS.items() if isinstance(e, ComparisonTable)}
TUNED = {"table1", "eer", "eo", "dp", "moments", "biographies", "biographies-trained"}


@pytest.mark.parametrize("name", TABLES)
def test_every_published_value_has_a_line(name: str):
    table = TABLES[name]
    assert table.topic == name
    shown = {
        (column.published_key, row.published, metric)
        for column in table.columns
        for row in table.rows
        if column.only is None or row.contender.name in column.only
        for metric in (*column.metrics, *column.besides)
    }
    assert published(name).values.keys() <= shown


def test_every_published_value_of_post_processing_has_a_line():
    methods = {row.published for row in BASE.rows if row.published}
    rows = {row for _, row, _ in published("epsilon-fair").values}
    assert rows == methods | {f"{method} eps-fair" for method in methods}


@pytest.mark.parametrize("name", TABLES)
def test_pairs_and_columns_name_rows_and_metrics_that_are_there(name: str):
    table = TABLES[name]
    names = [row.contender.name for row in table.rows]
    assert len(names) == len(set(names))
    assert {end for pair in table.pairs for end in (pair.left, pair.right)} <= set(names)
    for column in table.columns:
        assert set(column.metrics) <= METRICS.keys()
        assert set(column.only or ()) <= set(names)


@pytest.mark.parametrize("name", TABLES)
def test_settings_are_chosen_where_methods_are_compared(name: str):
    assert TABLES[name].settings == ("tuned" if name in TUNED else "shipped")
    assert bool(TABLES[name].requests()) == (name in TUNED)


@pytest.mark.parametrize("name", sorted(TABLES.keys() - TUNED))
def test_all_runs_can_be_resolved(name: str):
    works = TABLES[name].works({})
    assert works
    assert all(work.config.evaluate_on == "test" for work in works)


def test_the_main_table_asks_for_what_the_others_ask_for():
    main = set(TABLES["table1"].requests())
    assert main <= {*TABLES["eer"].requests(), *TABLES["eo"].requests()}
    assert {request.dataset for request in main} <= DATASETS.keys()
    # 13 methods on each of five datasets, each with the same budget; two controls have no search.
    assert len(main) == 5 * 13
    assert {(request.budget, request.seeds, request.strategy) for request in main} == {
        (12, (10,), "random")
    }


def test_variants_of_methods_can_be_resolved():
    for row in TABLES["eo"].rows:
        resolve(
            dataset="drug",
            method=row.contender.method,
            weighting=row.contender.weighting,
            measure="eo",
            overrides=row.contender.fixed,
        )
