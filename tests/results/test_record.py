from __future__ import annotations

import numpy as np
import pytest

from run_results import make_result


def test_accuracy_matrix_has_no_value_for_tasks_to_come() -> None:
    np.testing.assert_array_equal(make_result().accuracy_matrix, [[1, np.nan], [0.75, 1]])


def test_metrics_after_each_task() -> None:
    first, second = (make_result().after_task(position) for position in range(2))
    assert first["forgetting"] is None
    assert second["forgetting"] == 0.25
    assert second["eo_gap"] == pytest.approx(1 / 3)


def test_averages_are_over_tasks_but_forgetting_is_at_the_end() -> None:
    averages = make_result().averages()
    assert averages["accuracy"] == pytest.approx((1 + 0.875) / 2)
    assert averages["eo_gap"] == pytest.approx(1 / 6)
    assert averages["forgetting"] == 0.25


def test_metric_that_never_applies_has_no_average() -> None:
    assert make_result(attribute=False).averages()["eo"] is None
