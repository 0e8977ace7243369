from __future__ import annotations

import pytest

from faircil.results.record import WeightRecord
from faircil.runs.experiment import run
from faircil.weighting.weights import FairSampleWeights
from small_runs import small_config, small_stream

WAYS = [("sample", "last"), ("group", "last"), ("sample", "all")]


def weight_records(**settings: object) -> list[WeightRecord]:
    config = small_config("fsw", attribute=True, **{"alpha": 0.1, **settings})
    result = run(config, 0, stream=small_stream(attribute=True))
    return [each.weights for each in result.epochs if each.weights is not None]


@pytest.mark.parametrize(("granularity", "gradient"), WAYS)
def test_the_loss_of_the_program_changes_a_run_in_the_same_way_each_time(
    granularity: str, gradient: str
) -> None:
    plain, default, hinge, again = (
        weight_records(granularity=granularity, gradient=gradient, **loss)
        for loss in ({"loss": "cross-entropy"}, {}, {"loss": "hinge"}, {"loss": "hinge"})
    )

    def told(records: list[WeightRecord]) -> list[tuple[object, ...]]:
        return [(each.kept, each.objective, each.groups) for each in records]

    assert told(default) == told(plain)
    assert told(hinge) == told(again)
    # Already in the first epoch, which both start from the same net.
    assert hinge[0].groups != plain[0].groups
    assert all(0 <= group.loss <= 5 for each in hinge for group in each.groups)  # C = 5 outputs


def test_the_settings_of_the_weighting_are_the_object_that_weighs() -> None:
    values = {"lam": 2.0, "gradient": "all", "loss": "hinge", "floor": False, "solver": "highs"}
    config = small_config("fsw", attribute=True, alpha=0.1, **values)
    expected = FairSampleWeights(measure="eo", alpha=0.1, **values)  # type: ignore[arg-type]
    assert config.settings.weights == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"lam": 20.0},
        {"alpha": 0.5},
        {"gradient": "all"},
        {"loss": "hinge"},
        {"granularity": "group"},
    ],
)
def test_a_setting_of_the_weighting_changes_the_run(changed: dict[str, object]) -> None:
    assert weight_records(**changed) != weight_records()
