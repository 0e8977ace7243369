"""Fuzzing of what is counted: evaluate, audits and their gates."""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import fmean
from typing import Any

from hypothesis import strategies as st

from faircil import Audit, audit, evaluate
from faircil.labels import checked_columns
from fuzzing import ODD, WORDS, Harness, columns, few_and_thousands, maybe, refused, usually

sizes = usually(st.integers(4, 60), st.integers(0, 4))


favoured = st.lists(
    usually(st.sampled_from([0, 1, "a", "b"]), st.one_of(WORDS, ODD), 4), max_size=2
)


def near(found: float | None, expected: Any) -> None:
    """Compare with an exact value; sums of a few hundred terms err by less than 1e-12."""
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert math.isclose(found, float(expected), abs_tol=1e-12), (found, expected)


@st.composite
def predictions(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(sizes)
    truth = draw(columns(n))
    copied = draw(st.booleans())
    return {
        "y_true": truth,
        "y_pred": truth if copied else draw(columns(n)),
        "task": draw(usually(st.none(), columns(n), 4)),
        "sensitive": draw(maybe(columns(n))),
        "favoured": draw(usually(st.none(), favoured, 4)),
    }


def by_hand(case: dict[str, Any]) -> dict[str, Any]:
    """Count with fractions, a sample at a time."""
    read = {name: column for name, column in case.items() if name != "favoured"}
    arrays = {name: array.tolist() for name, array in checked_columns(read).items()}
    true, predicted = arrays["y_true"], arrays["y_pred"]
    tasks = arrays.get("task") or [0] * len(true)

    def share(rows: list[int]) -> Fraction:
        return Fraction(sum(true[row] == predicted[row] for row in rows), len(rows))

    of_class: dict[Any, list[int]] = {}
    for row, label in enumerate(true):
        of_class.setdefault(label, []).append(row)
    found = {label: share(rows) for label, rows in of_class.items()}
    per_task: dict[int, list[Fraction]] = {}
    for label, rows in of_class.items():
        per_task.setdefault(tasks[rows[0]], []).append(found[label])
    means = [sum(values, Fraction(0)) / len(values) for values in per_task.values()]
    overall = share(list(range(len(true))))
    result: dict[str, Any] = {
        "accuracy": sum(means, Fraction(0)) / len(means),
        "eer": fmean(abs(value - overall) for value in found.values())
        if found.keys() - {true[0]}
        else None,
    }
    if "sensitive" in arrays:
        gaps = []
        for rows in of_class.values():
            groups: dict[Any, list[int]] = {}
            for row in rows:
                value = arrays["sensitive"][row]
                if value is not None and not (isinstance(value, int) and value < 0):
                    groups.setdefault(value, []).append(row)
            if len(groups) > 1:
                rates = [share(group) for group in groups.values()]
                gaps.append(max(rates) - min(rates))
        result["eo_gap"] = sum(gaps, Fraction(0)) / len(gaps) if gaps else None
    return result


def check_evaluate(case: dict[str, Any]) -> None:
    with refused():
        after = evaluate(**case)
        for name, value in by_hand(case).items():
            near(after.values[name], value)
        again = evaluate(**case, before=None)
        assert again.values == after.values


@st.composite
def audits(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(sizes)
    truth = draw(columns(n))
    names = draw(st.lists(WORDS, max_size=2))
    features = draw(
        st.one_of(
            columns(n),
            st.none(),
            st.fixed_dictionaries({name: columns(n) for name in names}),
        )
    )
    known = st.sampled_from(["eo_gap>0.1", "eer>0.2", "accuracy<0.5", "worst_group<.3"])
    measures = st.sampled_from(["eo_gap", "eer", "accuracy", "worst_group", "dp", "eopp", "x", ""])
    conditions = st.builds(
        "{}{}{}{}".format,
        measures,
        st.one_of(st.just(""), WORDS.map("[{}]".format)),
        st.sampled_from([">", "<", ">=", "=", ""]),
        st.one_of(st.sampled_from(["0.1", "0", "1", "nan", "1e999", "٠.٥", "-0"]), WORDS),
    )
    return {
        "y_true": truth,
        "y_pred": truth if draw(st.booleans()) else draw(columns(n)),
        "sensitive_features": features,
        "task": draw(usually(st.none(), columns(n), 4)),
        "favoured": draw(usually(st.none(), favoured, 4)),
        "seed": draw(st.sampled_from([0, 1, 2**32])),
        "conditions": draw(st.lists(usually(known, conditions, 4), min_size=1, max_size=2)),
        "policy": draw(st.sampled_from(["report", "pass", "fail", "report", "x"])),
    }


def check_audit(case: dict[str, Any]) -> None:
    given = {name: case[name] for name in case if name not in ("conditions", "policy")}
    with refused():
        whole = audit(**given, draws=100)
        report = whole.report()
        plain = {"y_true": case["y_true"], "y_pred": case["y_pred"], "task": case["task"]}
        accuracy = report.find("accuracy")
        assert accuracy
        near(accuracy[0].value, evaluate(**plain).accuracy)
        for finding in report.findings:
            assert finding.low is None or finding.high is None or finding.low <= finding.high
        if len(whole.attributes) == 1:
            single = case["sensitive_features"]
            single = single[whole.attributes[0]] if isinstance(single, dict) else single
            after = evaluate(**plain, sensitive=single)
            for gap in report.find("eo_gap"):
                if gap.value is not None:  # too few samples to be told
                    near(gap.value, after.eo_gap)
        assert whole.gate(case["conditions"], cannot_tell=case["policy"]).exit_code in (0, 3, 4)


def check_updates(case: dict[str, Any]) -> None:
    """Parts of the rows, counted or merged in any order, are the whole."""
    given = {name: case[name] for name in ("y_true", "y_pred", "task", "sensitive_features")}
    with refused():
        whole = audit(**given, favoured=case["favoured"])
        part = Audit(whole.attributes, favoured=whole.favoured)
        features = given["sensitive_features"]
        part.update(**given)
        merged = part.merge(Audit(whole.attributes, favoured=whole.favoured), whole)
        assert merged.n == 2 * whole.n == 2 * part.n
        assert merged.merge(whole).n == 3 * whole.n
        assert whole.n == len(given["y_true"])
        part.update(given["y_true"], given["y_pred"], sensitive_features=features)


HARNESSES = {
    "evaluate": Harness(predictions(), check_evaluate),
    "audit": Harness(audits(), check_audit, short=5),
    "Audit.update": Harness(audits(), check_updates),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
