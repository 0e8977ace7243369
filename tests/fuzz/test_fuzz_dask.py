"""Fuzzing of data frames of Dask: learned and audited as one table in memory is."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd
import pytest
from hypothesis import strategies as st

from faircil import FairIncrementalClassifier, audit_dask
from faircil.auditing.reading import audit_file
from faircil.data.own import OwnData
from faircil.model.table_models import fit_table, update_table
from fuzzing import WAYS, WORDS, Harness, maybe, refused, scratch_folder, usually, wish_for
from same_models import assert_alike, assert_same_sums

distributed = pytest.importorskip("distributed")
dask_frames = pytest.importorskip("dask.dataframe")
HOME = scratch_folder()
NUMBERS = st.floats(-3, 3, width=32)


@cache
def client() -> Any:
    """Return a client whose one worker is a thread of this process."""
    return distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    )


@st.composite
def frames(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(8, 16))
    odd = draw(st.integers(1, 6)) == 6
    kinds = {
        "a": maybe(NUMBERS) if odd else NUMBERS,
        "town": maybe(WORDS) if odd else st.sampled_from("uvw"),
        "job": maybe(WORDS) if odd and draw(st.booleans()) else st.sampled_from("xy"),
        "sex": maybe(st.sampled_from("fm")) if odd else st.sampled_from("fm"),
        "guess": st.sampled_from("xy"),
    }
    table = pd.DataFrame(
        {name: draw(st.lists(one, min_size=n, max_size=n)) for name, one in kinds.items()}
    )
    return {
        "table": table,
        "cuts": sorted(draw(st.lists(st.integers(0, n), max_size=2))),
        "label": draw(usually(st.just("job"), st.sampled_from(["nowhere", "guess", "a"]))),
        "sensitive": draw(st.sampled_from([["sex"], ["sex"], "sex", [], ["sex", "town"], ["x"]])),
        "later": draw(maybe(st.integers(1, n))),
        "settings": draw(WAYS),
    }


def partitions(table: pd.DataFrame, cuts: list[int]) -> Any:
    ends = [*cuts, len(table)]
    parts = [table[start:stop] for start, stop in zip([0, *ends], ends, strict=False)]
    return dask_frames.from_map(lambda number: parts[number], range(len(parts)), meta=table[:0])


def check_audit(case: dict[str, Any]) -> None:
    table, path = case["table"], HOME / "table.parquet"
    sensitive = case["sensitive"]
    names = [sensitive] if isinstance(sensitive, str) else sensitive
    named = {"truth": case["label"], "prediction": "guess"}
    frame = partitions(table, case["cuts"])
    with refused():
        found = audit_dask(frame, **named, sensitive=sensitive, draws=100, client=client())
        table.to_parquet(path)
        wanted = audit_file(path, **named, sensitive=names, draws=100)
        assert found.n == wanted.n == len(table)
        assert found.report().findings == wanted.report().findings


def check_fit(case: dict[str, Any]) -> None:
    table, label, sensitive = case["table"], case["label"], case["sensitive"]
    names = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
    paths = [HOME / f"{name}.parquet" for name in ("first", "later")]
    given = {"sensitive_features": sensitive, "client": client()}
    made = FairIncrementalClassifier("moments", settings=case["settings"], random_state=0)
    first, later = partitions(table, case["cuts"]), partitions(table[: case["later"]], [])
    with refused(ValueError):
        made.fit_dask(first, label, ignore=["guess"], **given)
        table.to_parquet(paths[0])
        own = OwnData(str(paths[0]), label, names, ignore=("guess",), unknown_group=True)
        whole = fit_table(own, wish_for(case["settings"]), seed=made.model_.seed)
        if case["later"] is not None:
            made.partial_fit_dask(later, label, **given)
            table[: case["later"]].to_parquet(paths[1])
            update_table(whole, paths[1])
        assert_same_sums(made.model_, whole)
        assert whole.encoder is not None
        x = whole.encoder.inputs(table)  # type: ignore[call-arg]
        if case["later"] is None:
            assert_alike(made.model_, whole, x)


HARNESSES = {
    "audit_dask": Harness(frames(), check_audit, short=3),
    "fit_dask": Harness(frames(), check_fit, short=2),
}


# A cluster takes a second to begin, so that even a few cases are for `make soak`.
@pytest.mark.soak
@pytest.mark.parametrize("name", HARNESSES)
def test_thousands_of_cases(name: str) -> None:
    try:
        HARNESSES[name].soak(name)
    finally:
        client().close()
        client.cache_clear()
