from __future__ import annotations

import copy
import pickle

import pytest

from faircil.errors import DataError
from faircil.metrics import METRICS, eo_gap, evaluate, read_predictions
from faircil.testing import check_metric


def test_every_row_describes_itself():
    for name, metric in METRICS.items():
        assert metric.description[0].isupper()
        assert metric.description.endswith(f"{metric.best}.")
        assert metric.axis_title.endswith(f"({metric.best})")
        assert metric.is_disparity == (metric.best == "0 = fair"), name
    assert "biometric" in METRICS["eer"].summary
    by_attribute = {name for name, metric in METRICS.items() if metric.by_attribute}
    assert by_attribute == {"eo", "eo_gap", "eopp", "eopp_gap", "dp", "dp_predicted"}


def test_unknown_metric_is_named_and_metrics_survive_a_copy():
    got = evaluate([0, 1], [0, 1], task=[0, 0])
    assert copy.deepcopy(got) == pickle.loads(pickle.dumps(got)) == got
    with pytest.raises(AttributeError, match="there is no metric 'acuracy'; there are accuracy, "):
        _ = got.acuracy


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_keeps_the_contract(name: str) -> None:
    check_metric(name)


def test_predictions_of_a_run_are_read(tmp_path):
    table = "after_task,task,y_true,y_pred,probability,attribute\n"
    table += "1,1,ant,ant,1,f\n1,1,bee,ant,1,m\n"
    table += "2,1,ant,cat,1,f\n2,1,bee,bee,1,\n2,2,cat,cat,1,m\n2,2,cat,ant,1,f\n"
    (tmp_path / "predictions.csv").write_text(table)
    first, last = read_predictions(tmp_path)
    before = evaluate(**first)
    after = evaluate(**last, before=before)
    assert (before.accuracy, after.accuracy, after.forgetting) == (0.5, 0.5, 0.0)
    assert [(one.label, one.attribute) for one in after.groups] == [
        ("ant", "f"),
        ("cat", "f"),
        ("cat", "m"),
    ]
    assert eo_gap(last["y_true"], last["y_pred"], last["sensitive"]) == 1.0
    (tmp_path / "own.csv").write_text("y_true,y_pred\na,a\nb,a\n")
    (own,) = read_predictions(tmp_path / "own.csv")
    assert evaluate(**own).accuracy == 0.5
    bad = {"a,b\n1,2\n": "1 rows and no column y_true or y_pred", "": "0 rows and no column"}
    for content, message in bad.items():
        (tmp_path / "own.csv").write_text(content)
        with pytest.raises(DataError, match=message):
            read_predictions(tmp_path / "own.csv")
    with pytest.raises(DataError, match="cannot be read as a table of predictions"):
        read_predictions(tmp_path / "absent.csv")
    (tmp_path / "own.csv").write_text(f"y_true,y_pred,task\na,a,{'9' * 5000}\n")
    assert read_predictions(tmp_path / "own.csv")[0]["task"] == ["9" * 5000]
    (tmp_path / "own.csv").write_text(f"y_true,y_pred\na,{'a' * 200_000}\n")
    with pytest.raises(DataError, match="field larger than field limit"):
        read_predictions(tmp_path / "own.csv")
