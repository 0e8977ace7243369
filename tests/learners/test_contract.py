"""What every learner promises, with every weighting that it allows.

The checks are public, in ``faircil.testing``; here are those that only our own methods keep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import pytest
import torch

from faircil.buffer import ReplayBuffer
from faircil.learners import LEARNERS, Learner
from faircil.results.record import RunResult
from faircil.runs.experiment import run
from faircil.runs.state import RunState
from faircil.samples import Samples, group_counts
from faircil.testing.learners import QUOTA, RUN_CHECKS, STEP_CHECKS, LearnerCase, learner_cases
from faircil.weighting.selection import WEIGHTINGS
from learning import batch_of, buffer_of, new_learner, parameters
from small_runs import ABSENT, small_stream

# Methods that take few steps in an epoch of the small stream.
MORE_EPOCHS: dict[str, int] = {"gdumb": 16}
# They rearrange the weights of fsw, which every learner gets with and without an attribute; one
# learner gets theirs without.
CONTROLS = {"random", "balanced"}


@dataclass(frozen=True)
class Case(LearnerCase):
    """Keeps the run with a large buffer, since two tests look at it."""

    @cached_property
    def roomy(self) -> tuple[RunResult, RunState]:
        return super().run(buffer_size=1000)

    def run(self, seed: int = 0, **settings: object) -> tuple[RunResult, RunState]:
        return self.roomy if settings == {"buffer_size": 1000} else super().run(seed, **settings)


CASES = [
    Case(case.method, case.weighting, case.attribute, case.epochs)
    for method in LEARNERS
    for case in learner_cases(method, MORE_EPOCHS.get(method, 2), WEIGHTINGS)
    if case.weighting not in CONTROLS or case.attribute or case.method == "er"
]
Check = Callable[[LearnerCase], None]
every_case = pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.method}-{case.weighting}-{case.attribute}"
)
every_learner = pytest.mark.parametrize("method", LEARNERS)
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
# Methods whose step passes more than once through the net, or through other nets as well.
MORE_PASSES: set[str] = {"agem", "gss", "ocs"}
# Methods that do not predict by the largest logit of the net.
OTHER_SCORES: set[str] = {"icarl", "logit-adjustment"}


def by_name(check: Check) -> str:
    return check.__name__


@every_case
@pytest.mark.parametrize("check", RUN_CHECKS, ids=by_name)
def test_runs_keep_the_contract(case: LearnerCase, check: Check) -> None:
    check(case)


@every_learner
@pytest.mark.parametrize("check", STEP_CHECKS, ids=by_name)
def test_steps_keep_the_contract(method: str, check: Check) -> None:
    check(LearnerCase(method))


@every_case
def test_the_buffer_keeps_its_whole_quota_of_every_group(case: LearnerCase) -> None:
    kept = case.finished[1].buffer.samples
    if not case.row.replays:
        assert kept is None
        return
    assert kept is not None
    there = {key: n for task in case.stream().tasks for key, n in group_counts(task.train).items()}
    assert group_counts(kept) == {key: min(QUOTA, n) for key, n in there.items()}
    assert ABSENT not in there


@every_case
def test_a_buffer_larger_than_the_data_keeps_all_of_it(case: Case) -> None:
    if not case.row.replays:
        return
    _, state = case.roomy
    assert state.buffer.samples is not None
    rows = sorted(state.buffer.samples.x.tolist())
    tasks = case.stream().tasks
    assert rows == sorted(chain.from_iterable(task.train.x.tolist() for task in tasks))


@needs_gpu
@every_case
def test_it_runs_on_a_gpu(case: LearnerCase) -> None:
    result = run(case.config(), 0, stream=case.stream(), device="cuda")
    assert abs(result.per_task[0].accuracy - case.finished[0].per_task[0].accuracy) < 0.15


def begun(method: str, learner: Learner, current: Samples, memory: Samples) -> Samples | None:
    """Begin a task; return what it replays."""
    buffer = buffer_of(memory, QUOTA) if LEARNERS[method].replays else ReplayBuffer(QUOTA)
    return learner.begin_task(current, buffer).memory


@every_learner
@pytest.mark.parametrize("weighted", [False, True])
def test_a_step_is_one_forward_and_one_backward_pass(method: str, weighted: bool) -> None:
    if method in MORE_PASSES or (weighted and LEARNERS[method].no_weighting):
        pytest.skip("by design")
    learner = new_learner(method)
    first, second, _ = (task.train for task in small_stream(attribute=True).tasks)
    memory = begun(method, learner, second, first.take(slice(0, None, 8)))
    passes = []
    learner.net.register_forward_hook(lambda *_: passes.append("forward"))
    weights = next(learner.net.parameters())
    weights.register_post_accumulate_grad_hook(lambda _: passes.append("backward"))
    before = parameters(learner.net)
    learner.step(batch_of(second.take(slice(16)), torch.rand(16) if weighted else None, memory))
    assert passes == ["forward", "backward"]
    assert not torch.equal(parameters(learner.net), before)


@every_learner
def test_scores_are_the_logits_of_the_net(method: str) -> None:
    if method in OTHER_SCORES:
        pytest.skip("by design")
    learner = new_learner(method)
    first = small_stream(attribute=True).tasks[0].train
    begun(method, learner, first, first)
    learner.end_task(buffer_of(first if LEARNERS[method].replays else None))
    x = torch.randn(100, 6, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(learner.scores(x), learner.net(x))


@every_learner
def test_a_row_says_what_its_class_does(method: str) -> None:
    row = LEARNERS[method]
    assert row.source
    assert row.replays == (row.learner.remember is not Learner.remember)
