from __future__ import annotations

import faircil
from faircil.results.record import environment


def test_environment_says_what_is_needed_to_run_again() -> None:
    found = environment("faircil run --dataset toy", "cpu")
    assert found["command"] == "faircil run --dataset toy"
    assert found["faircil"] == faircil.__version__
    assert found["device"] == "cpu"
    assert found["gpu"] is None
    assert all(found["packages"].values())
