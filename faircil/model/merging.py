"""One model of several sites that do not show their rows to each other.

Sums over rows add up. So the sites agree on a *plan*, the columns and features of a model without
its sums, and each computes the sums of its own rows. Adding all sums gives the model of all rows:
up to rounding, the one that a single site with every row would have fitted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import takewhile
from typing import TypeVar

import torch
from threadpoolctl import threadpool_limits

from faircil.compute import same_bits
from faircil.errors import DataError, UsageError, raise_all
from faircil.learners.moments import Moments
from faircil.model.model import LEARNED_TWICE, Model
from faircil.model.row_sums import learns_sums
from faircil.moments.group_moments import GroupMoments, Key

Name = TypeVar("Name", bound=Hashable)
# Settings in which sites may differ: those that protect their rows.
OF_A_SITE = ("min_cell", "noise_epsilon", "noise_delta", "forgettable")


def plan_of(model: Model) -> Model:
    """Return the columns, features, settings and names of a model, without anything it learned.

    Features are fitted on first rows. Of these, the mean and deviation of inputs remain, the names
    of categories, and patches of images.
    """
    _refuse_other_methods([model])
    state = deepcopy(model.state)
    assert state is not None
    assert isinstance(state.learner, Moments)
    state.learner.forget_all()
    state.seen, state.tasks = {}, 0
    return replace(
        model, state=state, lessons=[], measured=[], notes=[*model.notes], sums_only=True
    )


def planned_for(plan: Model, min_cell: int | None = None) -> Model:
    """Return an untrained model with the features and columns of another one.

    Parameters
    ----------
    plan : Model
        A plan, or any model learned by sums, of which only the plan is used.
    min_cell : int, optional
        Overrides the plan's minimum cell size.
    """
    found = plan_of(plan)
    return found if min_cell is None else _with_settings(found, {"min_cell": min_cell})


def _with_settings(plan: Model, changed: Mapping[str, object]) -> Model:
    """Return a plan with changed settings of its learner."""
    settings = plan.config.settings
    learner = settings.learner.model_copy(update=changed)
    config = plan.config.model_copy(
        update={"settings": settings.model_copy(update={"learner": learner})}
    )
    plan.learner.settings = learner
    return replace(plan, config=config)


def _protection(models: Sequence[Model]) -> dict[str, object]:
    """Return the protection of all sites' rows: the noise of the site with the least."""
    settings = [model.learner.settings for model in models]
    found: dict[str, object] = {"min_cell": max(each.min_cell for each in settings)}
    if settings[0].noise_epsilon != "none":
        found |= {
            name: max(getattr(each, name) for each in settings)
            for name in ("noise_epsilon", "noise_delta")
        }
    return found


def merge_models(models: Sequence[Model]) -> Model:
    """Return the model of all rows that several models have learned.

    Sums are added in the given order; then the weights of all groups are chosen.

    Parameters
    ----------
    models : sequence of Model
        Models learned by sums, with the same columns and features; each may have classes and
        attribute values that others lack.

    Raises
    ------
    UsageError, DataError
        If they do not fit together; all differences are listed.
    """
    if not models:
        raise UsageError("there is no model to merge; name one or more")
    _refuse_other_methods(models)
    first = models[0]
    mistakes = [
        f"model {number} has other {what} than the first one; create all of them from the same plan"
        for number, other in enumerate(models[1:], start=2)
        for what in differences(first, other)
    ]
    raise_all(mistakes, DataError)
    if not any(model.seen for model in models):
        raise DataError("none of the models has learned a row; a plan holds no sums")
    # Names of the plan, then the others in the order that one site with all rows would have.
    merged = replace(
        _with_settings(plan_of(first), _protection(models)),
        labels=_alike([model.labels for model in models]),
        values=_alike([model.values for model in models]),
    ).with_names(
        [label for model in models for label in model.labels],
        [value for model in models for value in model.values],
    )
    state, learner = merged.state, merged.learner
    assert state is not None
    assert isinstance(learner, Moments)
    learner.grow(len(merged.labels))
    assert learner.moments is not None
    sums = learner.empty_sums(learner.moments.device)
    digests: set[str] = set()
    sites: set[str] = set()
    notes = [f"merged from {len(models)} models", *first.notes]
    for model in models:
        number = Numbering(model, merged)
        assert model.learner.moments is not None
        sums.merge(model.learner.moments.renumbered(number))
        assert model.state is not None
        for key, rows in model.state.seen.items():
            state.seen[number(key)] = state.seen.get(number(key), 0) + rows
        again = digests.intersection(one.digest for one in model.lessons if one.digest)
        site = _digest_of(model.learner.moments)
        notes += [LEARNED_TWICE] * (bool(again) or (site in sites and bool(model.seen)))
        sites.add(site)
        digests.update(one.digest for one in model.lessons)
        merged.lessons += model.lessons
    state.tasks = len(merged.lessons)
    learner.measure = first.learner.measure
    with torch.no_grad(), threadpool_limits(1, user_api="blas"), same_bits():
        passed = learner.absorb(sums, protected=True)
    merged.sums_only = False
    merged.lessons[-1] = replace(merged.lessons[-1], passed=passed)
    merged.notes = list(dict.fromkeys([*notes, *passed.notes]))
    return merged


def _alike(lists: Sequence[Sequence[Name]]) -> list[Name]:
    """Return the common prefix of all lists."""
    same = takewhile(lambda each: len(set(each)) == 1, zip(*lists, strict=False))
    return [each[0] for each in same]


def _digest_of(moments: GroupMoments) -> str:
    """Return a hash of sums: with noise, it does not reveal the rows, and copies have the same."""
    found = hashlib.sha256(repr((moments.keys, moments.count)).encode())
    for total in moments.first:
        found.update(total.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def differences(one: Model, other: Model) -> list[str]:
    """Return the differences between two models that prevent merging them."""
    found = []
    if _roles(one) != _roles(other):
        found.append("columns of the class or the attributes")
    if one.encoder != other.encoder or one.inputs != other.inputs:
        found.append("columns, or another encoding of them")
    mine, theirs = _settings(one), _settings(other)
    differing = sorted(name for name in mine | theirs if mine.get(name) != theirs.get(name))
    if differing:
        found.append(f"settings ({', '.join(differing)})")
    tensors = [model.learner.net.features.state_dict() for model in (one, other)]
    same = tensors[0].keys() == tensors[1].keys() and all(
        torch.equal(tensor.cpu(), tensors[1][name].cpu()) for name, tensor in tensors[0].items()
    )
    if not same:
        found.append("features")
    return found


def _roles(model: Model) -> tuple[object, ...]:
    own = model.config.own
    return (own.label, own.sensitive, own.use_sensitive) if own else (model.config.dataset,)


def _settings(model: Model) -> dict[str, object]:
    found = {**model.config.settings.learner.model_dump(), "measure": model.config.measure}
    return {name: value for name, value in found.items() if name not in OF_A_SITE}


class Numbering:
    """Maps the numbers of classes and attribute values of one model to those of another."""

    def __init__(self, model: Model, merged: Model) -> None:
        self._labels = [merged.labels.index(label) for label in model.labels]
        self._values = [merged.values.index(value) for value in model.values]

    def __call__(self, key: Key) -> Key:
        """Return the key of a group; an unknown value, −1, stays unknown."""
        return (self._labels[key[0]], *(self._values[z] if z >= 0 else z for z in key[1:]))


def _refuse_other_methods(models: Sequence[Model]) -> None:
    mistakes = [
        f"model {number} is of {model.config.label}, which keeps no sums; fit it with the method "
        "'moments'"
        for number, model in enumerate(models, start=1)
        if not learns_sums(model)
    ]
    raise_all(mistakes)
