from __future__ import annotations

import time

import pytest

from faircil.data.datasets import DATASETS
from faircil.errors import UsageError
from faircil.learners import LEARNERS
from faircil.runs.config import resolve
from faircil.tuning.request import TuneRequest
from faircil.tuning.space import Axis, combination, combinations, problem_of, shipped_space, size
from faircil.weighting.measures import MEASURES, Measure

FEWER = {"joint": 3, "finetune": 3, "agem": 6}  # no more mean anything


def request(method: str = "fsw", dataset: str = "mnist", **values: object) -> TuneRequest:
    measure = "eer" if DATASETS[dataset].attribute is None else "eo"
    return TuneRequest(dataset, method, measure, **values)  # type: ignore[arg-type]


def written(tune_request: TuneRequest) -> dict[str, str]:
    return {axis.name: " ".join(axis.values) for axis in problem_of(tune_request).space}


def test_the_paper_s_grid():
    assert written(request()) == {
        "lr": "0.001 0.01 0.1",
        "tau": "1 2 5 10",
        "alpha": "0.0005 0.001 0.002 0.01",
        "lam": "0.1 0.5 1",
    }
    assert size(problem_of(request()).space) == 144


@pytest.mark.parametrize("weighting", ["random", "balanced", "fsw"])
def test_controls_choose_what_fsw_chooses(weighting):
    assert written(request("er", weighting=weighting)) == written(request())


def test_alpha_and_lam_are_of_the_weighting():
    assert list(written(request("er"))) == ["lr", "tau"]
    assert list(written(request("clad", weighting="fsw"))) == ["lr", "alpha", "lam", "eta"]


def test_other_data_may_choose_alpha_by_its_size():
    assert written(request(dataset="digits"))["alpha"].split()[0] == "auto"


@pytest.mark.parametrize("dataset", ["mnist", "drug"])
@pytest.mark.parametrize("method", LEARNERS)
def test_every_method_has_enough_to_choose_from(method, dataset):
    problem = problem_of(request(method, dataset))
    assert size(problem.space) == FEWER.get(method, max(12, size(problem.space)))
    for axis in problem.space:
        assert len({str(_value(problem, axis.name, text)) for text in axis.overrides}) == len(
            axis.values
        )


def _value(problem, name, override):
    return problem.request.config([override]).settings.flat()[name]


def test_fairl_has_an_adversary_only_with_an_attribute():
    assert list(written(request("fairl", "drug"))) == ["feature_lr", "beta", "eta"]
    assert list(written(request("fairl", "mnist"))) == ["feature_lr", "tau"]


def rates(dataset, method, *overrides):
    config = resolve(dataset=dataset, method=method, overrides=overrides)
    return [axis.values for axis in shipped_space(config) if axis.name in ("lr", "feature_lr")]


@pytest.mark.parametrize("method", ["er", "icarl", "fairl"])
def test_the_encoder_of_the_paper_has_the_rates_of_the_paper(method):
    assert rates("biasbios", method) == [("0.00002", "0.0001", "0.001")]


def test_encoders_have_their_own_rates_where_they_are_trained():
    trained = rates("biasbios-sample", "er", "finetune=true")
    assert trained == [("0.0003", "0.001", "0.003")]
    assert rates("biasbios-sample", "er") == [("0.003", "0.01", "0.03")]
    assert len(rates("biasbios-sample", "icarl", "finetune=true")[0]) == 4
    assert rates("biasbios", "er", "finetune=false") == [("0.001", "0.01", "0.1")]


def test_a_position_without_the_others():
    space = (Axis("a", ("1", "2")), Axis("b", ("x",)), Axis("c", ("u", "v", "w")))
    every = list(combinations(space))
    assert [combination(space, index) for index in range(size(space))] == every
    assert len(set(every)) == 6


def test_the_shipped_settings_as_a_point_of_the_space():
    assert problem_of(request()).usual == ("lr=0.001", "tau=10", "alpha=0.001", "lam=1")
    beside = problem_of(request(dataset="digits", tried=("lr=0.1", "alpha=1,auto")))
    assert beside.usual == ("lr=0.003", "alpha=auto")


def test_fixed_settings_are_not_up_for_choice():
    assert list(written(request(fixed=("tau=3", "epochs=1")))) == ["lr", "alpha", "lam"]


def test_own_values_replace_the_table():
    assert written(request(tried=("epochs=1,2,2", "lr=0.5"))) == {"epochs": "1 2", "lr": "0.5"}


def test_all_mistakes_at_once():
    tried = ("tau=-1,2", "tua=3,4", "lr", "lam=0.5,x", "alpha=1", "alpha=2", "epochs=3")
    with pytest.raises(UsageError) as caught:
        problem_of(request(fixed=("epochs=2", "nope=1"), tried=tried, objective="acc", budget=0))
    lines = str(caught.value).splitlines()
    expected = [
        "objective 'acc' cannot be read",
        "`budget` is 0",
        "unknown setting 'nope'",
        "'lr' in `tried` is not of the form name=value,value",
        "setting 'alpha' is tried twice",
        "setting 'epochs' is given with `fixed` and with `tried`",
        "setting tau=-1 is not allowed",
        "unknown setting 'tua': did you mean 'tau'?",
        "setting lam=x is not allowed",
    ]
    assert len(lines) == len(expected)
    for line, start in zip(lines, expected, strict=True):
        assert line.startswith(f"- {start}")


def test_what_has_no_effect_is_not_up_for_choice():
    assert list(written(request("moments", "drug"))) == ["lam", "certainty"]
    fixed = request("moments", "drug", fixed=("group_weights=class",))
    assert list(written(fixed)) == ["certainty"]
    with pytest.raises(UsageError, match="setting lr has no effect on method 'moments'"):
        problem_of(request("moments", "drug", tried=("lr=1,2",)))
    target = request("moments", "drug", fixed=("classifier=lda",), target="eo_gap<=0.05")
    with pytest.raises(UsageError, match="a target chooses `lam`, which has no effect"):
        problem_of(target)


def test_nothing_left_to_choose():
    with pytest.raises(UsageError, match=r"nothing is left to choose for joint: .* \(lr\)"):
        problem_of(request("joint", fixed=("lr=1",)))


def test_an_objective_needs_the_attribute_it_compares():
    with pytest.raises(UsageError, match=r"'accuracy - eo' compares .* mnist has none"):
        problem_of(request(objective="accuracy - eo"))


def test_positions_of_a_huge_space_cost_nothing():
    space = tuple(Axis(f"a{k}", tuple(map(str, range(10)))) for k in range(15))
    start = time.perf_counter()
    assert combination(space, 10**15 - 1) == tuple(f"a{k}=9" for k in range(15))
    assert time.perf_counter() - start < 1


def test_an_own_measure_is_tuned_by_the_metric_that_goes_with_it():
    def matrix(groups):
        return MEASURES["eo"].matrix(groups)

    for row, metric in (
        (Measure(matrix), "eo"),
        (Measure(matrix, by_attribute=False), "eer"),
        (Measure(matrix, metric="dp"), "dp"),
    ):
        with MEASURES.temporarily("mine", row):
            request = TuneRequest("toy-groups", "fsw", "mine")
            assert problem_of(request).objective.metric == metric
