from faircil.runs.config import resolve
from faircil.sweep.processes import Streams
from small_runs import small_config


def test_the_same_data_is_loaded_once_and_other_data_anew() -> None:
    streams = Streams()
    first = streams(small_config("er"), 0)
    assert streams(small_config("wa", epochs=3), 0) is first
    validation = resolve(dataset="toy", method="er", evaluate_on="validation")
    assert streams(validation, 0) is not first
    assert len(streams(validation, 0).tasks[0].train) < len(first.tasks[0].train)
    assert streams(small_config("er"), 1) is not first
    assert streams(small_config("er"), 0) is not first  # two later ones have taken its place
