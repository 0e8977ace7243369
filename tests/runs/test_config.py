from __future__ import annotations

import pickle
import tomllib
from dataclasses import FrozenInstanceError
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from faircil.buffer import RULES
from faircil.data.datasets import DATASETS
from faircil.data.own import OwnData
from faircil.errors import DataError, UsageError
from faircil.learners import LEARNERS
from faircil.media import MEDIA
from faircil.options import Options
from faircil.runs.config import RunConfig, resolve
from faircil.runs.settings import setting_names, settings_of
from faircil.weighting.losses import LOSSES


@pytest.mark.parametrize(
    ("dataset", "measure", "expected"),
    [
        ("mnist", "eer", {"tau": 10, "alpha": 0.001, "lam": 1, "lr": 0.001, "epochs": 5}),
        ("fashion-mnist", "eer", {"tau": 10, "alpha": 0.001, "lam": 0.1, "lr": 0.001, "epochs": 5}),
        ("biased-mnist", "eo", {"tau": 10, "alpha": 0.002, "lam": 0.5, "lr": 0.001, "epochs": 15}),
        ("biased-mnist", "dp", {"tau": 10, "alpha": 0.002, "lam": 1, "lr": 0.001, "epochs": 15}),
        ("drug", "eo", {"tau": 1, "alpha": 0.01, "lam": 0.1, "lr": 0.001, "epochs": 25}),
        ("biased-digits", "eo", {"tau": 10, "alpha": "auto", "lam": 0.5, "lr": 0.003}),
    ],
)
def test_shipped_settings(dataset: str, measure: str, expected: dict[str, Any]) -> None:
    settings = resolve(dataset=dataset, method="fsw", measure=measure).settings
    common = {"batch_size": 64, "buffer_size": 32, "momentum": 0.9, "hidden": (256, 256)}
    assert settings.flat().items() >= {**expected, **common}.items()
    assert settings.weights.floor
    assert settings.weights.granularity == "sample"


def test_all_methods_but_joint_share_the_learning_rate_of_a_dataset() -> None:
    rates = {
        m: resolve(dataset="mnist", method=m).settings.learner.lr
        for m in ("er", "finetune", "joint")
    }
    assert rates == {"er": 0.001, "finetune": 0.001, "joint": 0.01}


def test_every_row_of_the_table_names_settings_that_its_methods_have() -> None:
    table = tomllib.loads((files("faircil.runs") / "settings.toml").read_text(encoding="utf-8"))
    for row in table["row"]:
        assert set(row.get("dataset", [])) <= DATASETS.keys()
        assert set(row.get("method", [])) <= LEARNERS.keys()
        texts = "texts" in row or any(DATASETS[name].texts for name in row.get("dataset", []))
        medium = "text" if texts else None
        for method in row.get("method", []):
            assert row["set"].keys() <= settings_of(method, medium).keys(), row
        every = {name for method in LEARNERS for name in settings_of(method, medium)}
        assert row["set"].keys() <= every


@pytest.mark.parametrize("method", LEARNERS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_every_method_has_settings_for_every_dataset(dataset: str, method: str) -> None:
    config = resolve(dataset=dataset, method=method)
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    assert pickle.loads(pickle.dumps(config)) == config
    assert type(config.settings.learner) is LEARNERS[method].options


def test_settings_of_another_method_are_an_error_that_says_whose_they_are() -> None:
    with pytest.raises(UsageError, match=r"method 'er' has no setting 'distill'; .* to der\+\+"):
        resolve(dataset="toy", method="er", overrides=["distill=2"])
    with pytest.raises(UsageError, match=r"unknown setting 'distil'.*did you mean 'distill'"):
        resolve(dataset="toy", method="der++", overrides=["distil=2"])


def test_overrides_win_over_the_table_and_have_types() -> None:
    overrides = ["lam=0.25", "alpha=auto", "hidden=8,4", "floor=false", "classes_per_task=5"]
    settings = resolve(dataset="mnist", overrides=overrides).settings
    weights = settings.weights
    assert (weights.lam, weights.alpha, weights.floor) == (0.25, "auto", False)
    assert settings.training.hidden == (8, 4)
    assert settings.data.classes_per_task == 5
    assert settings.flat()["tau"] == 10


def test_fsw_is_replay_with_weighting() -> None:
    alias = resolve(dataset="toy", method="fsw")
    assert alias == resolve(dataset="toy", method="er", weighting="fsw")
    assert (alias.method, alias.weighting, alias.label) == ("er", "fsw", "fsw")
    assert resolve(dataset="toy", method="er").label == "er"
    assert resolve(dataset="toy", method="er", weighting="random").label == "er+random"


def test_the_worst_group_needs_no_attribute_and_favoured_classes_are_kept_where_given() -> None:
    for method in ("moments", "group-dro", "er"):
        assert resolve(dataset="toy", method=method, measure="worst").measure == "worst"
    config = resolve(dataset="toy-groups", measure="eopp", favoured=["b", "a", "b"])
    assert config.favoured == ("b", "a")
    assert RunConfig.model_validate(config.model_dump(mode="json")) == config
    # Runs without any are what they were before.
    assert "favoured" not in resolve(dataset="toy").model_dump(mode="json")


def test_measure_follows_the_attribute() -> None:
    assert resolve(dataset="biased-digits").measure == "eo"
    assert resolve(dataset="digits").measure == "eer"
    assert resolve(dataset="biased-digits", measure="eer").measure == "eer"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "fsw", "weighting": "random"}, "use `method='er'` with `weighting='random'`"),
        ({"method": "joint", "weighting": "fsw"}, "no current task to weigh"),
        ({"method": "finetune", "weighting": "random"}, "losses of old groups cannot be measured"),
        ({"measure": "eo"}, "toy has none; use `measure='eer'`"),
        (
            {"overrides": ["hidden=0"]},
            "hidden=0 is not allowed: it should be greater than or equal",
        ),
        ({"overrides": ["momentum=1"]}, "momentum=1 is not allowed: it should be less than 1"),
        ({"overrides": ["loss=hing"]}, "unknown loss 'hing': did you mean 'hinge'?"),
        ({"overrides": ["=1"]}, "'=1' is not of the form name=value"),
        ({"mistakes": ["found before"]}, "found before"),
        ({"measure": "eopp"}, "name them with `favoured`, as in the data (all classes: `measure="),
        ({"favoured": ["0"]}, "`favoured` names classes, and measure 'eer' compares all of them"),
        ({"measure": "worst"}, "use a method that minimises it (moments, group-dro), or another"),
        (
            {"measure": "worst", "method": "wa", "weighting": "balanced"},
            "weighting 'balanced' of method 'wa' minimises sums over comparisons of groups",
        ),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(dataset="toy", **options)
    assert message in str(caught.value)


def test_mistakes_are_collected() -> None:
    with pytest.raises(UsageError) as caught:
        resolve(dataset="tyo", method="re", measure="x", overrides=["lr=x", "tau"], mistakes=["a"])
    assert len(str(caught.value).splitlines()) == 6


@pytest.mark.parametrize(
    ("file", "name"),
    [("people.csv", "people"), ("my.people.csv.gz", "my.people"), (".csv", "data")],
)
def test_own_data_is_named_after_its_file(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text("x")
    assert resolve(own=OwnData(str(tmp_path / file), "y")).dataset == name


def test_json_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("a,job\n")
    own = OwnData(str(path), "job", sensitive=("sex", "race"), tasks="a|b", test_share=0.2)
    config = resolve(own=own, overrides=["hidden=3"])
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    assert config.own == own
    named = resolve(dataset="mnist")
    assert RunConfig.model_validate_json(named.model_dump_json()) == named


def test_content_of_own_data_belongs_to_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    configs = []
    for content in ("1", "1", "2"):
        path.write_text(content)
        configs.append(resolve(own=OwnData(str(path), "job")))
    assert configs[0] == configs[1] != configs[2]


def test_file_that_is_absent_or_a_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*none\.csv; check the path"):
        resolve(own=OwnData(str(tmp_path / "none.csv"), "job"))
    with pytest.raises(DataError, match="has no table"):
        resolve(own=OwnData(str(tmp_path), "job"))


def test_settings_of_training_are_refused_where_the_encoder_is_frozen() -> None:
    with pytest.raises(UsageError, match=r"token_budget, trainable_layers is for an encoder that"):
        resolve(dataset="biasbios-sample", overrides=["trainable_layers=1", "token_budget=9"])
    resolve(dataset="biasbios-sample", overrides=["trainable_layers=1", "finetune=true"])
    with pytest.raises(UsageError, match=r"hidden is for an encoder that is frozen.*=false"):
        resolve(dataset="biasbios-sample", overrides=["hidden=8", "finetune=true"])


def test_clusters_of_all_gradients_are_refused_before_a_run() -> None:
    overrides = ["gradient=all", "granularity=cluster"]
    with pytest.raises(UsageError, match="granularity 'cluster' clusters last-layer gradients"):
        resolve(dataset="digits", method="fsw", overrides=overrides)


def test_names_of_settings_are_unique_over_the_parts() -> None:
    for method in LEARNERS:
        for medium in (None, *MEDIA):
            flat = settings_of(method, medium)
            assert {row.part for row in flat.values()} >= {"learner", "training", "weights", "data"}

    class Clashing(Options):
        epochs: int = 3

    with pytest.raises(UsageError, match=r"'epochs' is defined twice, by Clashing and by Training"):
        setting_names(Clashing)


def test_flat_settings_and_their_parts_are_the_same_values() -> None:
    config = resolve(dataset="toy", method="der++", overrides=["distill=0.25", "solver=highs"])
    flat = config.settings.flat()
    assert (flat["distill"], flat["solver"], flat["epochs"]) == (0.25, "highs", 20)
    assert config.model_dump()["settings"] | {"shards": 1} == flat
    assert flat.keys() == settings_of("der++").keys()
    assert not flat.keys() & {"measure", "head"}


def test_an_undivided_run_is_what_it_was_before_runs_could_be_divided() -> None:
    plain = resolve(dataset="toy", method="er")
    divided = resolve(dataset="toy", method="er", overrides=["shards=2"])
    assert "shards" not in plain.model_dump()["settings"]
    assert divided.model_dump()["settings"]["shards"] == 2
    for config in (plain, divided):
        assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_what_cannot_be_divided_is_refused_before_a_run() -> None:
    with pytest.raises(UsageError, match=r"shards has no effect on method 'gss': each step"):
        resolve(dataset="toy", method="gss", overrides=["shards=2"])
    for setting in ("gradient=all", "granularity=cluster"):
        with pytest.raises(UsageError, match="is for one process, without `shards` above 1"):
            resolve(dataset="toy", method="fsw", overrides=["shards=2", setting])
        resolve(dataset="toy", method="er", overrides=["shards=2", setting])  # nothing is weighed


def test_a_configuration_is_frozen_down_to_its_parts() -> None:
    settings = resolve(dataset="toy").settings
    for part, name in (
        (settings, "data"),
        (settings.training, "epochs"),
        (settings.weights, "lam"),
    ):
        with pytest.raises((ValidationError, FrozenInstanceError)):
            setattr(part, name, getattr(part, name))


def test_a_piece_added_later_is_a_known_name() -> None:
    with pytest.raises(UsageError, match="unknown loss 'mine'"):
        resolve(dataset="toy", overrides=["loss=mine"])
    with pytest.raises(
        UsageError, match=r"unknown buffer rule 'mine': .*Known: large-weight-first"
    ):
        resolve(dataset="toy", overrides=["buffer_rule=mine"])
    with LOSSES.temporarily("mine", LOSSES["hinge"]), RULES.temporarily("mine", RULES["random"]):
        settings = resolve(dataset="toy", overrides=["loss=mine", "buffer_rule=mine"]).settings
    assert (settings.weights.loss, settings.flat()["buffer_rule"]) == ("mine", "mine")


def test_stored_settings_that_do_not_fit_are_refused() -> None:
    stored = resolve(dataset="toy").model_dump(mode="json")
    for name, value, words in (
        ("epochs", 0, "setting epochs=0 is not allowed"),
        ("nothing", 1, "unknown setting 'nothing'"),
        ("lam", -1, "setting lam=-1 is not allowed"),
    ):
        bad = {**stored, "settings": {**stored["settings"], name: value}}
        with pytest.raises(ValidationError, match=words):
            RunConfig.model_validate(bad)


def test_weights_follow_the_measure_of_the_run() -> None:
    eo, eer = (resolve(dataset="toy-groups", measure=name) for name in ("eo", "eer"))
    assert (eo.settings.weights.measure, eer.settings.weights.measure) == ("eo", "eer")
    with pytest.raises(ValidationError, match="make both the same"):
        RunConfig(**{**dict(eo), "settings": eer.settings})


def test_a_variant_has_the_settings_of_its_base() -> None:
    variant = DATASETS["biased-digits"].variant("biased-digits", summary="varied")
    with DATASETS.temporarily("varied-digits", variant):
        varied, base = (
            resolve(dataset=name, method="er").settings
            for name in ("varied-digits", "biased-digits")
        )
    assert varied == base
