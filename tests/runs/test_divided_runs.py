"""Runs divided into shards: several processes get what one does, to the bit."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from faircil import ReplayBuffer, run
from faircil.compute import Generators
from faircil.errors import DataError, UsageError
from faircil.learners import LEARNERS
from faircil.options import ReplayOptions
from faircil.ranks import ALONE, Ranks
from faircil.results.record import RunResult
from faircil.runs.config import RunConfig
from faircil.runs.divided import DRIFTED, DividedStep, divided
from faircil.runs.saved_states import load_state, save_state
from faircil.runs.state import RunState, start_run
from faircil.sharding import ShardedSamples, sharded
from small_runs import small_config, small_stream
from together import in_ranks

SHARDS = 4
DIVISIBLE = [name for name, row in LEARNERS.items() if row.divisible]
WEIGHTED: list[tuple[str, str | None, dict[str, Any]]] = [
    ("er", "fsw", {}),
    ("er", "fsw", {"granularity": "group", "keep": "draw"}),
    ("der++", "fsw", {"measure": "dp", "average_last": 0.5}),
    ("bic", "balanced", {"round": True}),
    ("er", "none", {"buffer_rule": "large-weight-first", "predictor": "moments"}),
    ("icarl", "none", {"quota": "total", "prototypes": "all"}),
    ("bgs", "random", {"quota": "total"}),
    ("wa", "none", {"memory_batch_size": 5, "batch_size": 7}),
    ("finetune", "none", {"batch_size": 3, "lr": 0.005}),  # some shards have no sample of a batch
]
CASES = [*((method, None, {}) for method in DIVISIBLE), *WEIGHTED]
Bits = tuple[Any, ...]


def bits_of(result: RunResult, state: RunState) -> Bits:
    """Everything that a run decides: metrics, predictions, weights, the net and the buffer."""
    weights = [
        None if epoch.weights is None else (epoch.weights.objective, epoch.weights.kept)
        for epoch in result.epochs
    ]
    predicted = b"".join(
        one.y_pred.tobytes() + one.probability.tobytes() for one in result.predictions
    )
    net = torch.cat([each.detach().flatten() for each in state.learner.net.parameters()])
    kept = state.buffer.samples
    buffer = b"" if kept is None else kept.x.numpy().tobytes() + kept.y.numpy().tobytes()
    return (
        [dict(after.values) for after in result.per_task],
        [(epoch.trained, epoch.steps, epoch.tokens) for epoch in result.epochs],
        weights,
        result.notes,
        *(hashlib.sha256(part).hexdigest() for part in (predicted, net.numpy(), buffer)),
    )


def run_case(ranks: Ranks, config: RunConfig, stream: Any = None, **options: Any) -> Bits:
    states: list[RunState] = []
    stream = small_stream(attribute=True) if stream is None else stream
    result = run(config, 0, stream=stream, checkpoint=states.append, ranks=ranks, **options)
    return bits_of(result, states[-1])


def config_of(method: str, weighting: str | None, settings: dict[str, Any]) -> RunConfig:
    return small_config(method, weighting, attribute=True, shards=SHARDS, **settings)


def normalised(ranks: Ranks, shards: int = SHARDS) -> torch.Tensor:
    """Parameters and statistics of a net with batch normalisation after some steps."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 5))
    task = small_stream(attribute=True).tasks[0].train
    learner = LEARNERS["er"](net, ReplayOptions(lr=0.1), Generators.from_seed(0))
    learner.begin_task(task, ReplayBuffer(3))
    step, memory = DividedStep(learner, shards, ranks), task.take(torch.arange(11))
    samples = sharded(task, shards, ranks)
    for rows in torch.arange(36).split(9):
        step(samples, rows, None, memory, torch.arange(11))
    return torch.cat([each.detach().flatten() for each in (*net.parameters(), *net.buffers())])


class KilledError(Exception):
    """What ends a run in the middle."""


def stopped(ranks: Ranks, method: str, folder: Path, where: int) -> None:
    """Save a run in the middle of an epoch, and end it."""
    steps = 0

    def stop(state: RunState) -> None:
        nonlocal steps
        steps += 1
        if steps == where:
            if ranks.rank == 0:
                save_state(state, folder / f"{method}.safetensors")
            raise KilledError

    with pytest.raises(KilledError):
        run_case(ranks, config_of(method, None, {}), between_steps=stop)


def resumed(ranks: Ranks, method: str, folder: Path) -> Bits:
    state = load_state(folder / f"{method}.safetensors")
    return run_case(ranks, config_of(method, None, {}), state=state)


def drifting(ranks: Ranks) -> tuple[str, tuple[str, ...]]:
    """A process that rounds otherwise than the first."""
    states: list[RunState] = []

    def drift(state: RunState) -> None:
        states.append(state)
        if ranks.rank == 1 and len(states) == 1:
            with torch.no_grad():
                next(state.learner.net.parameters()).mul_(1 + 1e-6)

    stream = small_stream(attribute=True)
    config = config_of("er", None, {})
    result = run(config, 0, stream=stream, checkpoint=drift, ranks=ranks)
    net = torch.cat([each.detach().flatten() for each in states[-1].learner.net.parameters()])
    return hashlib.sha256(net.numpy()).hexdigest(), result.notes


RESUMED = ("er", "der++", "joint", "gdumb", "icarl")


def everything(ranks: Ranks, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "cases": [run_case(ranks, config_of(*case)) for case in CASES],
        "normalised": normalised(ranks),
    }
    mine = folder / str(ranks.size)
    mine.mkdir(exist_ok=True)
    for number, method in enumerate(RESUMED):
        stopped(ranks, method, mine, 3 if method == "gdumb" else 7 + 4 * number)
    found["resumed"] = [resumed(ranks, method, folder / "1") for method in RESUMED]
    if ranks.size > 1:
        found["drifted"] = drifting(ranks)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("states")


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    return everything(ALONE, folder)


@pytest.fixture(scope="module")
def two(
    alone: dict[str, Any], folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    return in_ranks(tmp_path_factory.mktemp("ranks"), 2, everything, folder)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_two_processes_get_what_one_gets(
    number: int, alone: dict[str, Any], two: list[dict[str, Any]]
) -> None:
    for found in two:
        assert found["cases"][number] == alone["cases"][number]


def test_normalisations_over_batches_have_the_statistics_of_all_parts(
    alone: dict[str, Any], two: list[dict[str, Any]]
) -> None:
    for found in two:
        assert torch.equal(found["normalised"], alone["normalised"])
    # With fewer shards it is another normalisation.
    assert not torch.allclose(normalised(ALONE, 2), alone["normalised"], atol=1e-3)


@pytest.mark.parametrize("number", range(len(RESUMED)))
def test_a_run_goes_on_with_another_number_of_processes(
    number: int, alone: dict[str, Any], two: list[dict[str, Any]], folder: Path
) -> None:
    method = RESUMED[number]
    expected = alone["cases"][DIVISIBLE.index(method)]
    assert alone["resumed"][number] == expected
    for found in two:
        assert found["resumed"][number] == expected
    assert resumed(ALONE, method, folder / "2") == expected


def test_copies_of_a_net_that_drift_apart_are_made_one_again(two: list[dict[str, Any]]) -> None:
    (first, notes), (second, _) = (found["drifted"] for found in two)
    assert first == second
    assert DRIFTED in notes


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[1]}")
def test_shards_change_the_order_of_additions_and_nothing_else(
    case: tuple[str, str | None, dict[str, Any]],
) -> None:
    method, weighting, settings = case
    nets = []
    for shards in (1, SHARDS):
        states: list[RunState] = []
        config = small_config(method, weighting, attribute=True, shards=shards, **settings)
        run(config, 0, stream=small_stream(attribute=True), checkpoint=states.append)
        nets.append(nn.utils.parameters_to_vector(states[-1].learner.net.parameters()).detach())
    # Some hundred steps of rounding in float32, of numbers around 1.
    assert (nets[0] - nets[1]).abs().max() < 1e-5


def test_a_rank_has_the_inputs_of_its_shards_alone() -> None:
    stream, config = small_stream(attribute=True), config_of("er", None, {})
    ranks = Ranks(1, 2)
    task = divided(stream, config, torch.device("cpu"), ranks).tasks[1]
    whole = stream.tasks[1].train
    assert isinstance(task.train, ShardedSamples)
    assert len(task.train) == len(whole)
    assert len(task.train.x) == len(whole) // 2
    first = len(stream.tasks[0].train)
    own = [row for row in range(len(whole)) if (first + row) % SHARDS >= SHARDS // 2]
    assert torch.equal(task.train.x, whole.x[own])


def test_what_cannot_be_shared_is_refused() -> None:
    stream = small_stream(attribute=True)
    with pytest.raises(UsageError, match=r"3 processes train together.*use `shards=3` or a multip"):
        run(config_of("er", None, {}), 0, stream=stream, ranks=Ranks(0, 3))
    many = small_config("er", attribute=True, shards=5000)
    with pytest.raises(DataError, match="training samples, too few for `shards=5000`"):
        run(many, 0, stream=stream)


def test_a_state_of_other_data_is_refused(folder: Path, alone: dict[str, Any]) -> None:
    state = load_state(folder / "1" / "er.safetensors")
    config = config_of("er", None, {})
    assert state.task is not None
    stream = divided(small_stream(attribute=True), config, torch.device("cpu"))
    assert isinstance(state.task.material.current, ShardedSamples)
    state.task.material.current.row[0] = 10**6
    with pytest.raises(DataError, match="samples that the data does not have"):
        run(config, 0, stream=stream, state=state)
    fresh = start_run(config, 0, stream, torch.device("cpu"))
    assert fresh.task is None
