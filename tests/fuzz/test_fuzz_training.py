"""Fuzzing of what training loops call: samples, buffers, samplers, weights, programs, forecasts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from torch import nn

from faircil import (
    EpsilonFair,
    FairSampler,
    FairSampleWeights,
    ReplayBuffer,
    Samples,
    WeightProgram,
    forecast,
    solve,
)
from faircil.weighting.program import PROOF
from fuzzing import (
    FLOATS,
    HUGE,
    INPUTS,
    SMALL,
    WORDS,
    Harness,
    columns,
    few_and_thousands,
    maybe,
    refused,
    sample_sets,
    usually,
)
from oracles import naive_optimum


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(0, 6))
    whole = st.lists(st.integers(-1, 3), min_size=n, max_size=n)
    tensor = usually(whole.map(lambda one: torch.tensor(one, dtype=torch.int64)), columns(n))
    return {"x": draw(tensor), "y": draw(tensor), "z": draw(maybe(tensor))}


def check_samples(case: dict[str, Any]) -> None:
    with refused():
        made = Samples(**case)
        assert len(made) == len(made.x) == len(made.keys())
        half = made.take(torch.arange(0, len(made), 2))
        assert len(half) == (len(made) + 1) // 2
        assert made.digest() == made.take(slice(None)).digest()


@st.composite
def buffers(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "quota": draw(usually(st.integers(0, 4), st.one_of(HUGE, st.sampled_from([-1, 2.5])))),
        "parts": draw(st.lists(sample_sets(), max_size=3)),
        "seed": draw(usually(st.integers(0, 3), HUGE)),
        "rule": draw(usually(st.sampled_from(["random", "large-weight-first"]), WORDS)),
        "weights": draw(usually(st.none(), columns(4))),
    }


def check_buffer(case: dict[str, Any]) -> None:
    with refused():
        buffer, seen = ReplayBuffer(case["quota"]), Counter()
        weights = case["weights"]
        for part in case["parts"]:
            buffer = buffer.add(part, weights, seed=case["seed"], rule=case["rule"])
            seen.update(map(tuple, part.keys().tolist()))
        assert dict(buffer.seen) == dict(seen)
        if buffer.samples is not None:
            kept = Counter(map(tuple, buffer.samples.keys().tolist()))
            assert kept == {key: min(n, case["quota"]) for key, n in seen.items() if case["quota"]}
        buffer.as_dataset()


@st.composite
def samplers(draw: st.DrawFn) -> dict[str, Any]:
    share = usually(st.floats(0, 1), FLOATS)
    seed = usually(st.integers(0, 9), st.one_of(HUGE, st.just(-1)))
    return {
        "current": draw(usually(st.integers(1, 9), st.sampled_from([0, -1, [1, 2]]))),
        "memory": draw(usually(st.integers(0, 5), st.sampled_from([-1, []]))),
        "replay": draw(share),
        "equally": draw(maybe(share)),
        "length": draw(maybe(usually(st.integers(1, 20), st.integers(-1, 0)))),
        "seed": draw(seed),
        "epoch": draw(seed),
    }


def check_sampler(case: dict[str, Any]) -> None:
    epoch = case["epoch"]
    with refused():
        sampler = FairSampler(**{name: value for name, value in case.items() if name != "epoch"})
        rows = case["current"] if isinstance(case["current"], int) else len(case["current"])
        rows += case["memory"] if isinstance(case["memory"], int) else len(case["memory"])
        sampler.set_epoch(epoch)
        first = list(sampler)
        assert len(first) == len(sampler)
        assert set(first) <= set(range(rows))
        sampler.set_epoch(epoch)
        assert list(sampler) == first


def net_of(seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(INPUTS, 4), nn.ReLU(), nn.Linear(4, 3))


@st.composite
def weighed(draw: st.DrawFn) -> dict[str, Any]:
    word = st.sampled_from(["", "auto", "x"])
    settings = st.fixed_dictionaries(
        {},
        optional={
            "measure": usually(st.sampled_from(["eer", "eer", "eo", "dp", "eopp"]), word),
            "alpha": usually(st.floats(0.001, 10), st.one_of(FLOATS, word)),
            "lam": usually(st.floats(0, 3), FLOATS),
            "granularity": usually(
                st.sampled_from(["sample", "group", "cluster", "cluster-weights"]), word
            ),
            "gradient": usually(st.sampled_from(["last", "all"]), word),
            "loss": usually(st.sampled_from(["cross-entropy", "hinge"]), word),
            "clusters": usually(st.integers(1, 9), st.one_of(SMALL, HUGE)),
            "floor": usually(st.booleans(), WORDS),
            "solver": usually(st.sampled_from(["auto", "highs", "first-order"]), word),
            "head": usually(st.sampled_from([None, "2"]), st.sampled_from(["0", "nowhere", ""])),
        },
    )
    seen = st.dictionaries(st.tuples(SMALL, SMALL), SMALL, max_size=3)
    shared = draw(usually(st.sampled_from([True, True, True, False]), st.none()))
    memory = sample_sets((0, 1), attribute=shared)
    every = st.just({(y, z): 9 for y in range(3) for z in range(3)})
    return {
        "settings": draw(settings),
        "current": draw(sample_sets((1, 2), attribute=shared)),
        "memory": draw(usually(memory, st.none())),
        "seen": draw(usually(st.one_of(every, st.none()), seen)),
        "seed": draw(usually(st.integers(0, 3), st.none())),
    }


def check_weights(case: dict[str, Any]) -> None:
    net, current, seed = net_of(0), case["current"], case["seed"]
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    with refused():
        weigh = FairSampleWeights(**case["settings"])
        result = weigh(net, current, case["memory"], seen=case["seen"], generator=generator)
        assert result.weights.shape == (len(current),)
        assert bool(((result.weights >= 0) & (result.weights <= 1)).all())
        # Sums of at most some hundred numbers of the size of the objective.
        assert result.objective >= result.bound - PROOF * (1 + abs(result.objective))
        assert np.isfinite(result.groups.losses).all()
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@st.composite
def forecasts(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "current": draw(sample_sets((2,))),
        "memory": draw(sample_sets((0, 1))),
        "replayed": draw(st.booleans()),
        "head": draw(usually(st.sampled_from([None, "2"]), st.sampled_from(["0", "nowhere", ""]))),
    }


def check_forecast(case: dict[str, Any]) -> None:
    with refused():
        found = forecast(net_of(1), **case)
        assert len(found.groups) == len(found.harm) == len(found.losses)
        assert np.isfinite(found.losses).all()
        assert np.isfinite(found.slopes).all()
        told = found.crowding[~np.isnan(found.crowding)]
        assert (np.abs(told) <= 2 + 1e-6).all()


@st.composite
def programs(draw: st.DrawFn) -> dict[str, Any]:
    k, m, n = draw(st.integers(0, 4)), draw(st.integers(0, 2)), draw(st.integers(0, 6))
    odd = draw(st.integers(1, 12)) == 12
    scale = draw(st.sampled_from([1.0, 1.0, 1e-6, 1e6]))
    entry = FLOATS if odd else st.floats(-1, 1).map(lambda value: round(value, 3) * scale)

    def array(*shape: int) -> Any:
        size = int(np.prod(shape))
        values = np.array(draw(st.lists(entry, min_size=size, max_size=size)), dtype=float)
        return values.reshape(shape)

    other = draw(st.integers(0, 19)) == 19
    return {
        "arrays": (array(k, n), array(k + other), array(n), array(m, n), np.abs(array(m))),
        "solver": draw(
            st.sampled_from(["auto", "exact", "highs", "highs-ipm", "first-order", "x"])
        ),
    }


def check_program(case: dict[str, Any]) -> None:
    with refused():
        program = WeightProgram(*case["arrays"])
        solution = solve(program, case["solver"])
        assert ((solution.weights >= 0) & (solution.weights <= 1)).all()
        size = max((float(np.abs(array).max(initial=0)) for array in case["arrays"]), default=0)
        if size > 1e100:
            return
        near = PROOF * max(size, 1e-6) * 10 * (1 + len(program))
        assert solution.objective >= solution.bound - near
        if size < 1e9 and case["solver"] != "first-order" and len(program):
            # scipy's tolerances are 1e-10 of the largest entry, for each of the rows.
            best, slack = naive_optimum(program), 1e-7 * size * (1 + len(program))
            assert solution.bound <= best + slack
            assert solution.objective <= best + slack


@st.composite
def pools(draw: st.DrawFn) -> dict[str, Any]:
    n, k = draw(usually(st.integers(4, 12), st.integers(0, 3))), draw(st.integers(1, 4))
    values = draw(st.lists(st.integers(0, 5), min_size=n * k, max_size=n * k))
    p = np.array(values, dtype=float).reshape(n, k) + draw(st.sampled_from([0.1, 0.1, 0.0]))
    with np.errstate(invalid="ignore", divide="ignore"):
        p = p / p.sum(axis=1, keepdims=True)
    odd = draw(st.integers(1, 12)) == 12
    group = st.sampled_from(["a", "b", "c"])
    return {
        "epsilon": draw(usually(st.floats(0, 1), FLOATS)),
        "probabilities": draw(columns(n)) if odd else p,
        "sensitive": draw(usually(st.lists(group, min_size=n, max_size=n), columns(n))),
        "sample_weight": draw(
            maybe(usually(st.lists(st.floats(0.1, 9), min_size=n, max_size=n), columns(n)))
        ),
        "population": draw(
            usually(st.none(), st.dictionaries(group, usually(st.floats(0, 9), FLOATS)), 4)
        ),
        "seed": draw(st.integers(0, 3)),
    }


def check_epsilon_fair(case: dict[str, Any]) -> None:
    given = {name: value for name, value in case.items() if name != "epsilon"}
    with refused():
        rule = EpsilonFair(case["epsilon"]).fit(**given)
        assert rule.gap <= case["epsilon"] + 1e-6
        assert rule.value <= rule.bound + 1e-6
        chances = rule.chances(case["probabilities"], case["sensitive"])
        assert np.allclose(chances.sum(axis=1), 1)
        assert (chances >= 0).all()
        drawn = rule.predict(case["probabilities"], case["sensitive"], seed=1)
        assert (chances[np.arange(len(drawn)), drawn] > 0).all()


HARNESSES = {
    "Samples": Harness(arrays(), check_samples),
    "ReplayBuffer": Harness(buffers(), check_buffer),
    "FairSampler": Harness(samplers(), check_sampler),
    "FairSampleWeights": Harness(weighed(), check_weights),
    "forecast": Harness(forecasts(), check_forecast),
    "solve": Harness(programs(), check_program),
    "EpsilonFair": Harness(pools(), check_epsilon_fair),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
