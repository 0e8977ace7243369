"""Sums of several sites: merged, they are the model of all rows at one place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from faircil.errors import DataError, UsageError
from faircil.model import in_parts
from faircil.model.choosing import Wish
from faircil.model.merging import merge_models, plan_of, planned_for
from faircil.model.model import Model
from faircil.model.saved import load_model, save_model
from faircil.model.table_models import fit_table, update_table
from tables_in_parts import people, roles, stored

SITES = 20
WISH = Wish("moments", overrides=("width=60", "arithmetic=float64"))


@pytest.fixture
def table() -> pd.DataFrame:
    return people(2000, seed=4)


@pytest.fixture
def plan(tmp_path: Path, table: pd.DataFrame) -> Model:
    table[:300].to_csv(tmp_path / "some.csv", index=False)
    return plan_of(fit_table(roles(tmp_path / "some.csv"), WISH))


def site(plan: Model, rows: pd.DataFrame, folder: Path, *, solve: bool = False) -> Model:
    rows.to_csv(folder / "site.csv", index=False)
    model = planned_for(plan)
    update_table(model, folder / "site.csv", solve=solve)
    return model


def test_twenty_sites_are_one(tmp_path: Path, plan: Model, table: pd.DataFrame) -> None:
    drawn = np.random.default_rng(1).integers(0, SITES, len(table))
    sites = [site(plan, table[drawn == number], tmp_path) for number in range(SITES)]
    merged, whole = merge_models(sites), site(plan, table, tmp_path, solve=True)
    mine, theirs = merged.learner.moments, whole.learner.moments
    assert mine.seen.counts == theirs.seen.counts
    for key in theirs.keys:
        left, right = (one.cells()[one.keys.index(key)] for one in (mine, theirs))
        torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)
    x = whole.encoder.inputs(table)  # type: ignore[union-attr]
    assert np.array_equal(merged.predict(x), whole.predict(x))
    assert merged.lessons[0].rows + sum(one.rows for one in merged.lessons[1:]) == len(table)
    assert [one.rows for one in merged.seen] == [one.rows for one in whole.seen]


def test_a_merged_model_goes_on(tmp_path: Path, plan: Model, table: pd.DataFrame) -> None:
    merged = merge_models([site(plan, part, tmp_path) for part in (table[:900], table[900:1500])])
    save_model(merged, tmp_path / "merged")
    merged = load_model(tmp_path / "merged")
    table[1500:].to_csv(tmp_path / "more.csv", index=False)
    update_table(merged, tmp_path / "more.csv")
    rows = table[:10]
    x = merged.encoder.inputs(rows)  # type: ignore[union-attr]
    merged.forget(x, rows["job"].tolist(), rows["sex"].tolist())
    whole = site(plan, table[10:], tmp_path, solve=True)
    x = whole.encoder.inputs(table)  # type: ignore[union-attr]
    # Weights are searched from where they are, and agree within the tolerance of the search.
    assert (merged.predict(x) == whole.predict(x)).mean() > 0.98


def test_sites_may_lack_classes_and_values(
    tmp_path: Path, plan: Model, table: pd.DataFrame
) -> None:
    parts = [table[table["job"] == "nurse"], table[table["job"] != "nurse"]]
    parts = [parts[0][parts[0]["sex"] == "M"], parts[0][parts[0]["sex"] == "F"], parts[1]]
    poets = parts[2].assign(job=parts[2]["job"].replace("cook", "poet"))
    merged = merge_models([site(plan, part, tmp_path) for part in (*parts[:2], poets)])
    found = {(one.label, one.value): one.rows for one in merged.seen}
    wanted = pd.concat([*parts[:2], poets]).groupby(["job", "sex"]).size().to_dict()
    assert found == wanted
    x = merged.encoder.inputs(poets)  # type: ignore[union-attr]
    right = np.array(merged.names)[merged.predict(x)] == poets["job"].to_numpy()
    assert right.mean() > 0.4


def test_the_order_of_sites_changes_no_prediction(
    tmp_path: Path, plan: Model, table: pd.DataFrame
) -> None:
    one = table[:900].assign(job=table["job"].replace("cook", "poet"))
    other = table[900:].assign(job=table["job"].replace("cook", "actor"))
    sites = [site(plan, part, tmp_path) for part in (one, other)]
    whole = site(plan, pd.concat([one, other]), tmp_path, solve=True)
    x = whole.encoder.inputs(table)  # type: ignore[union-attr]
    for order in (sites, sites[::-1]):
        merged = merge_models(order)
        assert merged.labels == whole.labels
        difference = merged.probabilities(x) - whole.probabilities(x)
        assert np.abs(difference).max() < 1e-6


def test_a_plan_has_learned_nothing(tmp_path: Path, plan: Model, table: pd.DataFrame) -> None:
    assert not plan.seen
    assert not plan.lessons
    assert not len(plan.learner.moments)
    save_model(plan, tmp_path / "plan")
    again = load_model(tmp_path / "plan")
    with pytest.raises(UsageError, match="cannot predict"):
        again.predict(np.zeros((1, again.inputs), dtype=np.float32))
    with pytest.raises(DataError, match="none of the models has learned"):
        merge_models([plan, again])
    one, other = (site(start, table, tmp_path, solve=True) for start in (plan, again))
    assert torch.equal(one.learner.net.head.weight, other.learner.net.head.weight)


def test_sums_alone_cannot_predict(tmp_path: Path, plan: Model, table: pd.DataFrame) -> None:
    sums = site(plan, table, tmp_path)
    x = sums.encoder.inputs(table)  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="merge it"):
        sums.predict(x)
    solved = site(plan, table, tmp_path, solve=True)
    assert np.array_equal(merge_models([sums]).predict(x), solved.predict(x))


def test_the_same_rows_of_two_sites_are_told(
    tmp_path: Path, plan: Model, table: pd.DataFrame
) -> None:
    merged = merge_models([site(plan, part, tmp_path) for part in (table[:500], table[:500])])
    assert any("learned before" in note for note in merged.notes)


def test_a_copy_of_a_site_is_told_through_its_noise(tmp_path: Path, table: pd.DataFrame) -> None:
    table[:300].to_csv(tmp_path / "some.csv", index=False)
    noisy = replace(WISH, overrides=(*WISH.overrides, "noise_epsilon=5", "noise_delta=1e-5"))
    plan = plan_of(fit_table(roles(tmp_path / "some.csv"), noisy, solve=False))
    one, other = (site(plan, part, tmp_path) for part in (table[:900], table[900:]))
    save_model(one, tmp_path / "copy")
    told = "the same rows were learned before"
    assert told in " ".join(merge_models([one, other, load_model(tmp_path / "copy")]).notes)
    assert told not in " ".join(merge_models([one, other, plan, plan]).notes)


def test_noise_of_several_sites_is_stated_as_that_of_the_least_protected(
    tmp_path: Path, table: pd.DataFrame
) -> None:
    table[:300].to_csv(tmp_path / "some.csv", index=False)
    sites = []
    for epsilon, rows in (("1", table[:900]), ("100", table[900:])):
        noisy = (*WISH.overrides, f"noise_epsilon={epsilon}", "noise_delta=1e-5")
        spec = roles(tmp_path / "some.csv")
        plan = plan_of(fit_table(spec, replace(WISH, overrides=noisy), solve=False))
        sites.append(site(plan, rows, tmp_path))
    for order in (sites, sites[::-1]):
        assert merge_models(order).learner.noise.epsilon == 100


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize(("setting", "hides"), [("noise_epsilon=5", True), ("min_cell=0", False)])
def test_notes_on_single_rows_are_said_and_not_handed_out(
    tmp_path: Path,
    table: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    hides: bool,
    parts: bool,
) -> None:
    table[:300].to_csv(tmp_path / "some.csv", index=False)
    wish = replace(WISH, overrides=(*WISH.overrides, setting))
    model = planned_for(plan_of(fit_table(roles(tmp_path / "some.csv"), wish, solve=False)))
    table.loc[7, "town"] = "leprosarium"
    monkeypatch.setattr(in_parts, "IN_PARTS", 10)
    table.to_csv(tmp_path / "rows.csv", index=False)
    update_table(
        model, stored(table, tmp_path / "rows") if parts else tmp_path / "rows.csv", solve=False
    )
    assert any("leprosarium" in note for note in (model.said if hides else model.notes))
    save_model(model, tmp_path / "site")
    files = b"".join(path.read_bytes() for path in (tmp_path / "site").iterdir())
    assert (b"leprosarium" in files) is not hides


def test_small_cells_stay_pooled(tmp_path: Path, plan: Model, table: pd.DataFrame) -> None:
    strict = planned_for(plan, min_cell=30)
    rare = table[(table["job"] == "cook") & (table["sex"] == "F")][:8]
    parts = [pd.concat([table[table["sex"] == "M"][:400], rare]), table[500:1500]]
    merged = merge_models([site(strict, part, tmp_path) for part in parts])
    assert merged.learner.settings.min_cell == 30
    assert min(merged.learner.moments.count) >= 30


def test_models_that_do_not_fit_are_named_with_all_differences(
    tmp_path: Path, plan: Model, table: pd.DataFrame
) -> None:
    table.to_csv(tmp_path / "all.csv", index=False)
    spec = roles(tmp_path / "all.csv")
    other = fit_table(spec, replace(WISH, overrides=("width=61", "arithmetic=float64")))
    narrow = fit_table(replace(spec, ignore=("town",)), WISH)
    with pytest.raises(DataError) as caught:
        merge_models([site(plan, table, tmp_path), other, narrow])
    told = str(caught.value)
    assert "model 2 has other settings (width)" in told
    assert "model 2 has other features" in told
    assert "model 3 has other columns" in told
    replay = fit_table(spec, Wish("er", overrides=("epochs=1",)))
    with pytest.raises(UsageError, match="keeps no sums"):
        merge_models([replay])
    with pytest.raises(UsageError, match="no model"):
        merge_models([])
