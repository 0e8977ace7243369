"""Commands for several sites and several workers: plans, sums, merges, folders of Parquet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from cli_outcome import Cli
from faircil.data import parts as parts_module
from tables_in_parts import people, stored

ROLES = ("--label", "job", "--sensitive", "sex")
MOMENTS = ("--method", "moments", "--set", "width=40")


@pytest.fixture
def sites(tmp_path: Path) -> pd.DataFrame:
    table = people()
    for name, rows in {"some": table[:200], "a": table[:700], "b": table[700:]}.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    table.to_csv(tmp_path / "all.csv", index=False)
    return table


def test_two_sites_make_the_model_of_all_rows(cli: Cli, sites: pd.DataFrame) -> None:
    planned = cli(
        "fit", *ROLES, "--set", "width=40", "--data", "some.csv", "--plan-only", "-o", "p"
    )
    assert planned.code == 0, planned.err
    assert "plan in p; at each site" in planned.err
    for name in "ab":
        found = cli("fit", "--like", "p", "--data", f"{name}.csv", "--moments-only", "-o", name)
        assert found.code == 0, found.err
        assert f"sums in {name}" in found.err
    refused = cli("predict", "a", "--data", "all.csv", "-o", "refused.csv")
    assert refused.code == 2
    assert "no solution" in refused.err
    assert not Path("refused.csv").exists()
    merged = cli("merge", "a", "b", "-o", "merged", "--json")
    assert merged.code == 0, merged.err
    assert sum(one["rows"] for one in json.loads(merged.out)["summary"]["groups"]) == len(sites)
    assert cli("fit", "--like", "p", "--data", "all.csv", "-o", "one").code == 0
    for name in ("merged", "one"):
        assert cli("predict", name, "--data", "all.csv", "-o", f"{name}.csv").code == 0
    found, wanted = (pd.read_csv(f"{name}.csv") for name in ("merged", "one"))
    assert (found["prediction"] == wanted["prediction"]).all()
    assert cli("forget", "merged", "--data", "some.csv").code == 0
    assert cli("show", "merged").code == 0
    assert "stored rows of people: 0" in cli("show", "a").err + cli("show", "a").out


def test_a_site_is_told_of_its_rows_and_others_of_its_noise(cli: Cli, sites: pd.DataFrame) -> None:
    noise = ("noise_epsilon=5", "noise_delta=1e-06")
    plan = ("fit", *ROLES, *MOMENTS, *noise, "--data", "some.csv", "--plan-only", "-o", "p")
    assert cli(*plan).code == 0
    sites.loc[0, "town"] = "leprosarium"
    sites.to_csv("own.csv", index=False)
    found = cli("fit", "--like", "p", "--data", "own.csv", "--moments-only", "-o", "own")
    assert "categories that the model does not know, in 1 row(s): 'leprosarium'" in found.err
    shown = cli("show", "own")
    assert "noise for ε = 5, δ = 1e-06" in shown.err + shown.out
    assert "leprosarium" not in shown.err + shown.out


def test_mistakes_of_sites_are_told_at_once(cli: Cli, sites: pd.DataFrame) -> None:
    both = cli("fit", "--like", "absent", *ROLES, "--measure", "eer", "-o", "m", "--plan-only")
    assert both.code == 2
    for said in ("--label", "--sensitive", "--measure", "--plan-only", "--data", "absent"):
        assert said in both.err
    assert cli("fit", *ROLES, *MOMENTS, "--data", "a.csv", "-o", "a").code == 0
    again = cli("merge", "a", "a", "-o", "a")
    assert again.code == 2
    assert "named twice" in again.err
    assert "would be replaced" in again.err
    assert "already has a model" in again.err
    other = cli("fit", *ROLES, "--method", "er", "--data", "a.csv", "--moments-only", "-o", "er")
    assert "keeps no sums" in other.err


def test_workers_change_no_byte(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_module, "PART_ROWS", 150)
    stored(people(), tmp_path / "people")
    fit = ("fit", *ROLES, *MOMENTS, "--data", "people", "--holdout", "0.2")
    for jobs in ("2", "3"):
        found = cli(*fit, "--jobs", jobs, "-o", f"m{jobs}")
        assert found.code == 0, found.err
        assert "rows held out of fitting" in found.err
    names = [{path.name for path in Path(m).glob("tensors-*")} for m in ("m2", "m3")]
    assert names[0] == names[1]
    shared = cli("predict", "m2", "--data", "people", "--jobs", "2", "-o", "p.parquet")
    assert shared.code == 0, shared.err
    assert cli("predict", "m2", "--data", "people", "-o", "q.csv").code == 0
    inside = "people/0.parquet"  # one of the files that are read
    before = Path(inside).read_bytes()
    refused = cli("predict", "m2", "--data", "people", "--force", "-o", inside)
    assert refused.code == 2
    assert "would become part of the input people; choose another place" in refused.err
    assert Path(inside).read_bytes() == before
    found, wanted = pd.read_parquet("p.parquet"), pd.read_csv("q.csv")
    assert found["prediction"].tolist() == wanted["prediction"].tolist()
    assert found["row"].tolist() == list(range(1, 1201))
    assert cli("update", "m2", "--data", "people", "--jobs", "2").code == 0


@pytest.mark.parametrize("workers", [(), ("--jobs", "2")], ids=["in memory", "in parts"])
def test_kept_columns_are_as_in_the_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setattr(parts_module, "PART_ROWS", 150)
    ids = pd.Series(range(10**15, 10**15 + 1200), dtype="Int64").mask(lambda each: each % 7 == 0)
    table = people().assign(id=ids, income=ids.astype(float) / 100, note=None)
    table.loc[900:, "note"] = "late"  # no row of the first file has one
    stored(table, tmp_path / "people")
    assert cli("fit", *ROLES, *MOMENTS, "--data", "people", "--ignore", "id", "income", "note",
               "-o", "m").code == 0  # fmt: skip
    for out in ("p.csv", "p.parquet"):
        predict = ("predict", "m", "--data", "people", "-o", out, *workers)
        kept = cli(*predict, "--keep", "id", "income", "note")
        assert kept.code == 0, kept.err
        found = (pd.read_csv if out == "p.csv" else pd.read_parquet)(out)
        assert found["id"].astype("Int64").equals(ids)
        assert found["income"].tolist() == pytest.approx(
            table["income"].tolist(), 1e-15, nan_ok=True
        )
        assert found["note"].dropna().tolist() == ["late"] * 300
    assert max(map(len, pd.read_csv("p.csv", dtype=str)["probability"])) <= len("0.123456")


def test_ranks_of_torchrun_write_the_same_model(cli: Cli, tmp_path: Path) -> None:
    stored(people(), tmp_path / "people")
    fit = ["fit", *ROLES, *MOMENTS, "--data", "people"]
    assert cli(*fit, "--jobs", "2", "-o", "processes").code == 0
    ranks = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"),
            *("--standalone", "-m", "faircil", *fit, "-o", "ranks"),
        ],
        cwd=tmp_path,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ranks.returncode == 0, ranks.stderr
    assert ranks.stderr.count("model in ranks") == 1
    names = [{path.name for path in Path(m).glob("tensors-*")} for m in ("processes", "ranks")]
    assert names[0] == names[1]


def test_options_of_workers_are_checked(cli: Cli, tmp_path: Path) -> None:
    stored(people(), tmp_path / "people")
    fit = ("fit", *ROLES, *MOMENTS, "--data", "people", "-o", "m")
    assert "--jobs is 0" in cli(*fit, "--jobs", "0").err
    both = cli(*fit, "--jobs", "2", "--scheduler", "somewhere")
    assert both.code == 2
    assert "expected dask://HOST:PORT" in both.err
    assert "give one of them" in both.err
    people(50).to_csv(tmp_path / "few.csv", index=False)
    other = cli("fit", *ROLES, *MOMENTS, "--data", "few.csv", "--jobs", "2", "-o", "m")
    assert "cannot be read in parts" in other.err
