"""What is special about learning from moments."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

from faircil.buffer import ReplayBuffer
from faircil.compute import Generators
from faircil.errors import DataError, FaircilError, UsageError
from faircil.learners.moments import SPENT, Moments
from faircil.learners.moments_options import MomentsOptions
from faircil.moments.group_moments import PENALTIES
from faircil.moments.sketch import COMPRESSED, Plan
from faircil.nets import build_mlp
from faircil.packing import pack
from faircil.runs.config import RunConfig, resolve
from faircil.runs.experiment import run
from faircil.runs.settings import TrainingSettings, unused_settings
from faircil.samples import Samples, concatenate
from faircil.testing.learners import (
    LearnerCase,
    goes_on_from_a_saved_state,
    predicts_every_seen_class,
    same_seed_same_run,
)
from faircil.weighting.measures import MEASURES, Measure
from moment_data import equal_shares
from small_runs import small_config, small_stream

EXACT = {"arithmetic": "float64", "features": "raw", "ridge": 0.01}
BY_MEANS = {"arithmetic": "float64", "features": "raw"}


def learner_of(measure: str = "eo", lam: float = 1.0, **settings: object) -> Moments:
    options = MomentsOptions.model_validate(settings)
    learner = Moments(build_mlp(6, 5, (8,), seed=0), options, Generators.from_seed(0))
    learner.measure, learner.lam = MEASURES[measure], lam
    return learner


def tasks() -> list[Samples]:
    return [task.train for task in small_stream(attribute=True).tasks]


def test_the_order_of_tasks_after_the_first_does_not_matter() -> None:
    first, *rest = tasks()
    heads = []
    for order in permutations(rest):
        learner = learner_of(**EXACT, group_weights="group")
        for task in (first, *order):
            learner.learn(task)
        heads.append(learner.net.head.weight)
    joint = learner_of(**EXACT, group_weights="group")
    joint.learn(first)  # features are fitted on the first task
    joint.learn(concatenate(rest))
    for head in heads:
        torch.testing.assert_close(head, joint.net.head.weight, rtol=1e-6, atol=1e-6)


def test_fair_weights_do_not_depend_on_the_order_beyond_their_tolerance() -> None:
    first, *rest = tasks()
    ends = []
    for order in permutations(rest):
        learner = learner_of(**EXACT)
        records = [learner.learn(task) for task in (first, *order)]
        ends.append(records[-1].objective)
    assert ends[0] == pytest.approx(ends[1], rel=0.01)


def test_a_person_is_forgotten_exactly() -> None:
    first, second, third = tasks()
    gone, kept = second.take(slice(5)), second.take(slice(5, None))
    learner, other = (
        learner_of(**EXACT, group_weights="class"),
        learner_of(**EXACT, group_weights="class"),
    )
    for task in (first, second, third):
        learner.learn(task)
    learner.forget(gone)
    for task in (first, kept, third):
        other.learn(task)
    torch.testing.assert_close(learner.net.head.weight, other.net.head.weight, rtol=1e-6, atol=1e-6)
    with pytest.raises(DataError, match=r"5 of 5 rows to remove \(row 1, 2.*\) were"):
        learner.forget(gone)


def test_a_class_can_be_forgotten_whole() -> None:
    first, second, _ = tasks()
    learner = learner_of(**EXACT)
    learner.learn(first)
    learner.learn(second)
    label = int(second.y[0])
    learner.forget(second.take(second.y == label))
    assert learner.logits(first.x)[:, label].eq(-torch.inf).all()
    assert not learner.predict(first.x).eq(label).any()


def test_one_pass_makes_no_optimizer(monkeypatch: pytest.MonkeyPatch) -> None:
    # torch imports so much with its first optimizer that it takes longer than a small run.
    monkeypatch.setattr(torch.optim, "SGD", None)
    learner, first = learner_of(**EXACT), tasks()[0]
    learner.begin_task(first, ReplayBuffer(0))
    learner.learn(first)


def test_nothing_learned_nothing_to_forget() -> None:
    with pytest.raises(UsageError, match="nothing was learned yet"):
        learner_of().forget(tasks()[0])


@pytest.mark.parametrize("measure", ["eer", "eo", "dp"])
def test_weights_make_the_losses_more_even_for_every_measure(measure: str) -> None:
    learner = learner_of(measure, 0.1, **EXACT, certainty=0)
    for task in tasks():
        record = learner.learn(task)
    evening, groups = learner.evened(), record.groups
    assert evening is not None
    if measure == "eer":
        assert all(group.attribute == () for group in groups)
    matrix = evening.criterion.matrix
    before, after = (
        np.abs(matrix @ [getattr(group, when) for group in groups]).sum()
        for when in ("before", "after")
    )
    assert after < 0.9 * before
    assert any(abs(group.weight - 1) > 0.05 for group in groups)


def many_groups(classes: int) -> Samples:
    """Return three rows of each of two groups of so many classes."""
    y, z, _ = (axis.ravel() for axis in torch.tensor(np.indices((classes, 2, 3))))
    noise = torch.randn(len(y), 6, generator=torch.Generator().manual_seed(0))
    noise[:, 0] += y + z
    return Samples(noise, y, z)


def test_nothing_is_kept_that_grows_with_pairs_of_groups() -> None:
    def kept(groups: int) -> int:
        learner = learner_of(**EXACT)
        learner.grow(groups // 2)
        learner.learn(many_groups(groups // 2))
        learner.moments = None  # sums of each group
        return sum(tensor.numel() for tensor in pack(learner).tensors.values())

    assert kept(160) - kept(80) < (160**2 - 80**2) / 4


@pytest.mark.parametrize("measure", ["eer", "eo"])
def test_the_solution_in_use_is_found_again_to_the_bit(measure: str) -> None:
    learner = learner_of(measure, 0.1, **{**EXACT, "ridge": "auto"}, certainty=0)
    for task in tasks():
        record = learner.learn(task)
    evening = learner.evened()
    assert evening is not None
    assert evening.value == record.objective
    assert (evening.promise, evening.solved) == (record.promise, record.solved)
    for when, solution in (("before", evening.before), ("after", evening.after)):
        losses = evening.criterion.losses_of(solution).losses.tolist()
        assert [getattr(group, when) for group in record.groups] == losses
    assert len(evening.after.loss_slopes) == len(record.groups)


def test_a_measure_of_your_own_is_followed() -> None:
    def first_class_only(groups: object) -> np.ndarray:  # type: ignore[type-arg]
        """Compare the attribute values of class 0."""
        label = groups.label  # type: ignore[attr-defined]
        row = np.zeros((1, len(label)))
        row[0, np.flatnonzero(label == 0)] = (1, -1)
        return row

    learner = learner_of(**EXACT, certainty=0)
    learner.measure, learner.lam = Measure(first_class_only, summary="own"), 0.01
    record = learner.learn(tasks()[0])
    moved = {group.label for group in record.groups if abs(group.weight - 1) > 0.01}
    assert moved == {0}


def test_fixed_weights_are_those_of_their_name() -> None:
    first = tasks()[0]
    for kind in ("group", "class", "samples"):
        learner = learner_of(**EXACT, group_weights=kind)
        record = learner.learn(first)
        evening = learner.evened()
        assert evening is not None
        weights = evening.after.weights
        sizes = np.array([group.samples for group in record.groups])
        if kind == "samples":
            np.testing.assert_allclose(weights, sizes / sizes.sum())
        if kind == "class":
            labels = np.array([group.label for group in record.groups])
            totals = np.array([weights[labels == label].sum() for label in np.unique(labels)])
            np.testing.assert_allclose(totals, 1 / len(totals))
        assert record.solved == 1


@pytest.mark.parametrize(("classifier", "least", "most"), [("ridge", 0.01, 1), ("auto", 0.5, 5)])
def test_probabilities_are_calibrated_by_a_temperature(
    classifier: str, least: float, most: float
) -> None:
    learner = learner_of(**EXACT, classifier=classifier)
    for task in tasks():
        learner.learn(task)
    assert least < learner.temperature < most
    test = concatenate([task.test for task in small_stream(attribute=True).tasks])
    told = learner.scores(test.x).softmax(dim=1)
    sure = told.max(dim=1).values
    right = (told.argmax(dim=1) == test.y).float()
    assert abs(float(sure.mean() - right.mean())) < 0.1


@pytest.mark.parametrize(("measure", "same"), [("eo", "discriminants"), ("eer", "ridge")])
def test_scores_of_fixed_classes_become_discriminants(measure: str, same: str) -> None:
    auto, named = learner_of(measure, **EXACT), learner_of(measure, **EXACT, classifier=same)
    other = learner_of(
        measure, **EXACT, classifier="ridge" if same == "discriminants" else "discriminants"
    )
    for task in tasks():
        for learner in (auto, named, other):
            learner.learn(task)
    assert torch.equal(auto.net.head.weight, named.net.head.weight)
    assert not torch.allclose(auto.net.head.weight, other.net.head.weight)


def test_patches_of_data_that_are_no_images_are_a_mistake() -> None:
    config = small_config("moments", features="patches")
    with pytest.raises(FaircilError, match="needs images"):
        run(config, 0, stream=small_stream(attribute=False))


def test_the_width_follows_rows_and_memory() -> None:
    first = tasks()[0]
    assert learner_of()._planned(first).width == 200
    large = concatenate([first] * 20)
    assert learner_of()._planned(large).width == len(large)
    learner = learner_of()
    learner.classes = 100_000
    # 200,000 cells with 50 directions of 4-byte numbers each.
    assert learner._planned(large) == Plan(COMPRESSED // (200_000 * 50 * 4), 200_000, rank=50)
    inputs = first.x[0].numel()
    assert learner_of(features="raw", width=7)._planned(first).width == inputs + 1
    assert learner_of(features="both")._planned(first).width == 200 + inputs
    assert learner_of(features="patches")._planned(first).width == 2049


def test_a_width_beyond_the_memory_is_refused_before_anything_is_made() -> None:
    learner = learner_of(width=50_000_000)
    with pytest.raises(UsageError, match=r"50,000,000 features need .* GiB are free; up to .* fit"):
        learner.learn(tasks()[0])
    assert learner.moments is None


def test_compressed_moments_learn_nearly_the_same_and_say_so() -> None:
    found = {}
    for rank in ("full", 40):
        learner = learner_of(features="relu", width=120, rank=rank, ridge=0.1)
        notes = [learner.learn(task).notes for task in tasks()]
        test = concatenate([task.test for task in small_stream(attribute=True).tasks])
        found[rank] = float((learner.predict(test.x) == test.y).float().mean()), learner
        assert [len(note) for note in notes] == ([0, 0, 0] if rank == "full" else [1, 0, 0])
    assert "compressed to 40 directions" in notes[0][0]
    assert found[40][0] == pytest.approx(found["full"][0], abs=0.05)
    exact, compressed = (found[rank][1].evened() for rank in ("full", 40))
    assert exact is not None
    assert compressed is not None
    assert compressed.value == pytest.approx(exact.value, rel=0.05)
    with pytest.raises(UsageError, match="cannot be removed from compressed moments"):
        learner.forget(tasks()[0].take(slice(3)))


def test_an_encoder_of_texts_is_not_trained_along() -> None:
    with pytest.raises(UsageError, match=r"one pass on fixed features.*`finetune=false`"):
        resolve(dataset="biasbios-sample", method="moments", overrides=["finetune=true"])


def test_no_other_penalty_is_better_in_the_end() -> None:
    chosen = learner_of(features="relu", width=60)
    for task in tasks():
        record = chosen.learn(task)
    others = []
    for ridge in PENALTIES:
        learner = learner_of(features="relu", width=60, ridge=ridge)
        for task in tasks():
            last = learner.learn(task)
        others.append(last.objective)
    assert chosen.ridge in PENALTIES
    # Both searches end where nothing promises more than half a percent.
    assert record.objective <= 1.02 * min(others)


def test_the_penalty_is_chosen_anew_only_with_many_new_rows() -> None:
    first, second, third = tasks()
    learner = learner_of()
    learner.learn(first)
    learner.learn(second)
    assert len(second) < 0.5 * len(first)
    assert learner.rows_at_choice == len(first)
    learner.learn(third)
    assert learner.rows_at_choice == len(first) + len(second) + len(third)


class TrainedCase(LearnerCase):
    """Moments on activations of a net that the first task has trained."""

    def config(self, **settings: object) -> RunConfig:
        given = {"features": "trained", "width": 40, "average_last": 0.5, **settings}
        return super().config(**given)


@pytest.mark.parametrize(
    "check", [same_seed_same_run, predicts_every_seen_class, goes_on_from_a_saved_state]
)
def test_trained_features_keep_the_contract(check: Callable[[LearnerCase], None]) -> None:
    check(TrainedCase("moments", attribute=True))


def test_the_first_task_trains_the_net_and_no_other_does() -> None:
    nets = []
    result = run(
        TrainedCase("moments", attribute=True).config(epochs=3),
        0,
        stream=small_stream(attribute=True),
        checkpoint=lambda state: nets.append(deepcopy(state.learner.net)),
    )
    assert [(e.task, e.epoch, e.passed is not None) for e in result.epochs] == [
        (1, 1, False),
        (1, 2, False),
        (1, 3, False),
        (1, 4, True),
        (2, 1, True),
        (3, 1, True),
    ]
    first, *later = nets[3:]
    for net in later:
        for name, value in net.features.state_dict().items():
            assert torch.equal(value, first.features.state_dict()[name])
    x = tasks()[0].x
    beside = first.features(x)[:, 8:]  # of 8 activations
    torch.testing.assert_close(beside, first.features.drawn(x))
    assert first.features.width == 40


def test_trained_features_need_room_beside_them() -> None:
    with pytest.raises(
        UsageError, match=r"`width=9` leaves no room .* 8 activations .* at least 10"
    ):
        learner_of(features="trained", width=9).learn(tasks()[0])
    assert learner_of(features="trained")._planned(tasks()[0]).width == 200 + 8


def test_the_worst_group_gains_by_its_measure() -> None:
    worst, even = (learner_of(measure, 0.1, **EXACT, certainty=0) for measure in ("worst", "eo"))
    for task in tasks():
        by_worst, by_even = worst.learn(task), even.learn(task)
    largest = [max(group.after for group in record.groups) for record in (by_worst, by_even)]
    assert largest[0] < largest[1]
    assert largest[0] < max(group.before for group in by_worst.groups)


def test_the_worst_class_without_an_attribute() -> None:
    result = run(small_config("moments", measure="worst"), 0, stream=small_stream(attribute=False))
    passed = result.epochs[-1].passed
    assert passed is not None
    assert all(group.attribute == () for group in passed.groups)


def test_only_favoured_classes_exchange_weight() -> None:
    learner = learner_of(**EXACT, certainty=0)
    learner.measure, learner.lam = MEASURES["eopp"].favouring([1]), 0.01
    for task in tasks():
        record = learner.learn(task)
    moved = {group.label for group in record.groups if abs(group.weight - 1) > 0.01}
    assert moved == {1}


def test_the_last_task_has_a_bound_and_a_price() -> None:
    config = small_config("moments", attribute=True, lam=1, certainty=0)
    result = run(config, 0, stream=small_stream(attribute=True))
    *earlier, last = [epoch.passed for epoch in result.epochs]
    assert last is not None
    assert all(passed is not None and passed.price is None for passed in earlier)
    assert last.bound is not None
    assert 0 <= last.bound < 0.3 * last.objective
    price = last.price
    assert price is not None
    assert last.objective == pytest.approx(price.mean + price.counted)
    assert price.lam == 0.25
    assert price.disparity_then < price.disparity
    fixed = learner_of(**EXACT, group_weights="class")
    record = fixed.learn(tasks()[0])
    assert fixed.review(record).price is None


def test_a_group_that_had_hardly_any_weight_can_have_it_again() -> None:
    learner = learner_of(**EXACT, certainty=0)
    for task in tasks():
        usual = learner.learn(task)
    stuck = learner_of(**EXACT, certainty=0)
    for task in tasks():
        stuck.relative = {key: (1e-9, 1.0)[key[1]] for key in stuck.relative}
        record = stuck.learn(task)
    # Both searches end where nothing promises more than half a percent.
    assert record.objective == pytest.approx(usual.objective, rel=0.02)


def with_unknown(samples: Samples, every: int) -> Samples:
    """Return the samples with an unknown attribute value in every so-manieth row."""
    assert samples.z is not None
    z = samples.z.clone()
    z[::every] = -1
    return Samples(samples.x, samples.y, z)


def test_rows_without_an_attribute_value_count_for_their_class_and_are_not_compared() -> None:
    learner = learner_of(**EXACT, certainty=0, lam=0.1)
    for task in tasks():
        record = learner.learn(with_unknown(task, 3))
    evening = learner.evened()
    assert evening is not None
    unknown = np.array([group.attribute == (-1,) for group in record.groups])
    label = np.array([group.label for group in record.groups])
    size = np.array([group.samples for group in record.groups])
    assert unknown.sum() == len(np.unique(label))
    assert (evening.criterion.matrix[:, unknown] == 0).all()
    several = np.bincount(label[~unknown])[label] > 1
    compared = (evening.criterion.matrix != 0).any(axis=0)
    assert (compared == (several & ~unknown)).all()
    share = evening.criterion.share
    for number in np.unique(label):
        own = label == number
        assert share[own].sum() == pytest.approx(1 / len(np.unique(label)))
        part = size[own & unknown].sum() / size[own].sum()
        assert share[own & unknown].sum() == pytest.approx(part * share[own].sum())
        assert np.ptp(share[own & ~unknown]) < 1e-12
    weights = np.array([group.weight for group in record.groups])
    np.testing.assert_allclose(weights[unknown], 1)
    assert (np.abs(weights[~unknown] - 1) > 0.05).any()


def test_with_no_attribute_value_known_classes_count_equally() -> None:
    blind, plain = learner_of(**EXACT), learner_of("eer", **EXACT, group_weights="class")
    for task in tasks():
        blind.learn(with_unknown(task, 1))
        plain.learn(task)
    torch.testing.assert_close(blind.net.head.weight, plain.net.head.weight)


def test_shares_with_all_values_known_are_equal_shares() -> None:
    learner = learner_of(**EXACT)
    learner.learn(tasks()[0])
    evening = learner.evened()
    assert evening is not None
    label = np.array([group[0] for group in learner.relative])
    assert (evening.criterion.share == equal_shares(label)).all()


def test_copies_are_noted_once() -> None:
    first, second, third = tasks()
    learner = learner_of(**EXACT)
    assert learner.learn(first).notes == ()
    (note,) = learner.learn(concatenate([second, second])).notes
    share = len(second) / (len(first) + 2 * len(second))
    assert f"{share:.0%} of the rows so far are copies" in note
    assert learner.learn(concatenate([third, third])).notes == ()  # said once


def test_inputs_on_another_scale_are_noted() -> None:
    first, second, _ = tasks()
    learner = learner_of(**EXACT)
    learner.learn(first)
    (note,) = learner.learn(Samples(1000 * second.x, second.y, second.z)).notes
    assert "convert them" in note


def odd(kind: str) -> list[Samples]:
    """Return tasks that are odd in some way."""
    first, second, third = tasks()
    if kind == "one sample of a group":
        assert first.z is not None
        rare = (first.y == first.y[0]) & (first.z == first.z[0])
        rare[rare.nonzero()[0]] = False
        return [first.take(~rare), second]
    if kind == "a group without samples":
        assert second.z is not None
        return [first, second.take(second.z == 0), third]
    if kind == "constant features":
        return [Samples(torch.ones_like(part.x), part.y, part.z) for part in (first, second)]
    if kind == "one constant feature":
        x = first.x.clone()
        x[:, 0] = 3.0
        return [Samples(x, first.y, first.z), second]
    if kind == "equal rows":
        return [first.take(torch.zeros(20, dtype=torch.int64)), second]
    if kind == "a value unseen before":
        assert second.z is not None
        return [first, Samples(second.x, second.y, 2 * second.z)]
    assert kind == "an old class again, with a new one"
    return [first, concatenate([second, first.take(slice(3))]), third]


@pytest.mark.parametrize("features", ["raw", "relu"])
@pytest.mark.parametrize(
    "kind",
    [
        "one sample of a group",
        "a group without samples",
        "constant features",
        "one constant feature",
        "equal rows",
        "a value unseen before",
        "an old class again, with a new one",
    ],
)
def test_odd_data_has_a_finite_solution(kind: str, features: str) -> None:
    learner = learner_of(features=features)
    for task in odd(kind):
        record = learner.learn(task)
        assert torch.isfinite(learner.net.head.weight).all()
        assert np.isfinite([[g.weight, g.before, g.after, g.error] for g in record.groups]).all()
        assert np.isfinite([record.objective, record.promise, record.temperature]).all()
    assert set(learner.predict(task.x).tolist()) <= {group.label for group in record.groups}


def test_little_is_solved_after_a_removal() -> None:
    learner = learner_of(**EXACT)
    for task in tasks():
        learner.learn(task)
    record = learner.forget(tasks()[1].take(slice(5)))
    assert 2 <= record.solved <= SPENT


@pytest.mark.parametrize("classifier", ["nearest-mean", "lda"])
def test_classifiers_by_class_means_have_the_same_features_and_no_weights(classifier: str) -> None:
    first, second, third = tasks()
    learner, other = (learner_of(**BY_MEANS, classifier=classifier) for _ in range(2))
    for task in (first, second, third):
        record = learner.learn(task)
    other.learn(first)
    other.learn(concatenate([third, second]))
    torch.testing.assert_close(learner.net.head.weight, other.net.head.weight, rtol=1e-5, atol=1e-5)
    assert (record.groups, record.promise, record.bound, record.solved) == ((), 0.0, None, 1)
    assert learner.review(record) is record
    assert (record.ridge > 0) == (classifier == "lda")
    assert record.temperature == learner.temperature > 0
    test = concatenate([task.test for task in small_stream(attribute=True).tasks])
    scores, sure = learner.scores(test.x), learner.scores(test.x).softmax(dim=1).amax(dim=1)
    right = (scores.argmax(dim=1) == test.y).float()
    assert float(right.mean()) > 0.6
    assert abs(float(sure.mean() - right.mean())) < 0.1
    label = int(second.y[0])
    learner.forget(second.take(second.y == label))
    assert not learner.predict(test.x).eq(label).any()


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        ("classifier=lda ridge=0.1", True),
        ("classifier=lda certainty=1", True),
        ("classifier=lda certainty=0", False),
        ("classifier=lda group_weights=class", False),
        ("classifier=nearest-mean evened=training", False),
        ("classifier=nearest-mean ridge=0.1", False),
    ],
)
def test_settings_without_effect_are_refused(given: str, allowed: bool) -> None:
    with nullcontext() if allowed else pytest.raises(UsageError, match="does not use it"):
        resolve(dataset="toy-groups", method="moments", overrides=given.split())


def returning() -> list[Samples]:
    """Two tasks, then a class of the first again, moved."""
    first, second, _ = tasks()
    back = first.take(first.y == 0)
    return [first, second, replace(back, x=back.x + 0.5)]


@pytest.mark.parametrize("decay", [0.0, 0.3, 1.0])
def test_decay_is_weighted_training_on_all_rows(decay: float) -> None:
    parts = returning()
    learner = learner_of(**EXACT, group_weights="class", classifier="ridge", decay=decay)
    for part in parts:
        record = learner.learn(part)
    joint, age = (
        concatenate(parts),
        torch.arange(3).repeat_interleave(torch.tensor([*map(len, parts)])),
    )
    # Rows of class 0 of the first task are one task old; no other rows have come for the others.
    weight = torch.where((joint.y == 0) & (age == 0), decay, 1.0).double()
    _, index = torch.unique(joint.y, return_inverse=True)
    per_row = weight / torch.bincount(index, weight)[index] / (int(index.max()) + 1)
    phi = learner.net.features(joint.x).double()
    target = one_hot(index).double()
    evening = learner.evened()
    assert evening is not None
    penalty = evening.problem.penalty * torch.eye(phi.shape[1]).double()
    head = torch.linalg.solve(
        phi.T @ (per_row[:, None] * phi) + penalty, phi.T @ (per_row[:, None] * target)
    )
    # Features are float32.
    torch.testing.assert_close(evening.after.head, head, rtol=1e-5, atol=1e-5)
    counted = {(group.label, group.attribute): group.samples for group in record.groups}
    old, new = (int(((part.y == 0) & (part.z == 0)).sum()) for part in (parts[0], parts[2]))
    assert counted[0, (0,)] == round(decay * old + new)


def test_without_decay_not_a_bit_of_the_solution_changes() -> None:
    heads = []
    for settings in ({}, {"decay": 1.0}):
        learner = learner_of(width=40, **settings)
        for part in returning():
            learner.learn(part)
        heads.append(learner.net.head.weight)
    assert torch.equal(*heads)


def test_classes_that_do_not_come_back_do_not_decay() -> None:
    first, second, third = tasks()
    one, other = learner_of(width=40), learner_of(width=40, decay=0.1)
    for task in (first, second, third):
        one.learn(task)
        other.learn(task)
    assert torch.equal(one.net.head.weight, other.net.head.weight)
    other.forget(second.take(slice(3)))  # no group has faded, so this is exact


def test_rows_of_a_class_that_has_decayed_are_not_removed() -> None:
    first, second, back = returning()
    learner = learner_of(**EXACT, decay=0.5)
    for part in (first, second, back):
        learner.learn(part)
    with pytest.raises(UsageError, match=r"cannot be removed: .* learn with `decay=1`"):
        learner.forget(back.take(slice(2)))
    learner.forget(second.take(slice(3)))


def test_settings_without_effect_have_none() -> None:
    config = small_config("moments", attribute=True, group_weights="group", features="raw")
    settings = config.settings
    changed = settings.model_copy(
        update={
            "learner": settings.learner.model_copy(update={"lr": 3.0, "momentum": 0.1, "width": 7}),
            "training": TrainingSettings(
                epochs=7, batch_size=5, memory_batch_size=2, hidden=(4,), buffer_size=2,
                keep="draw", average_last=1.0, round=True,
            ),
            "weights": replace(settings.weights, lam=9.0, alpha=0.3, granularity="group"),
        }
    )  # fmt: skip
    before, after = settings.flat(), changed.flat()
    unused = unused_settings("moments", settings.learner, before)
    assert {name for name in before if before[name] != after[name]} <= unused.keys()
    assert unused.keys() >= {"lr", "epochs", "net", "solver", "lam", "width", "keep"}
    assert not unused.keys() & {"features", "ridge", "certainty", "class_order"}
    results = [
        run(one, 0, stream=small_stream(attribute=True))
        for one in (config, config.model_copy(update={"settings": changed}))
    ]
    assert results[0].per_task == results[1].per_task
    first, second = (result.epochs[-1].passed for result in results)
    assert first is not None
    assert second is not None
    assert first.groups == second.groups
