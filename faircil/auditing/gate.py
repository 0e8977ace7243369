"""A gate: conditions on an audit, decided by intervals so that noise alone decides nothing.

A condition such as ``eo_gap>0.10`` states what must not hold. It fails if the whole interval is
beyond the limit, passes if the whole interval is on the good side, and is undecided otherwise. If
the true gap is exactly at the limit, it fails only if the interval is wrong on this side: in fewer
than 5 % of audits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from xml.etree import ElementTree  # used for writing only  # nosec B405

from faircil.auditing.disparities import FAMILIES, LEVELS, MEASURES
from faircil.auditing.findings import Finding, Report, Scope
from faircil.errors import UsageError, raise_all, unknown_name

CONDITION = re.compile(r"\s*([\w-]+)\s*(?:\[([^\]]*)\])?\s*(>=|<=|>|<)\s*(\S+)\s*")
CROSSED = " × "  # separates the attributes of an intersection


class Decision(Enum):
    """The decision of a gate; its value is the exit code of the command."""

    PASSES = 0
    FAILS = 3
    CANNOT_TELL = 4

    @property
    def words(self) -> str:
        """The decision in plain language."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class Condition:
    """A condition that must not hold: a measure beyond a limit.

    Parameters
    ----------
    text : str
        The condition as given.
    measure : str
    scope : tuple of str or None
        The attributes to which it applies; None: every scope.
    limit : float
    """

    text: str
    measure: str
    scope: Scope | None
    limit: float

    def decide(self, finding: Finding) -> Decision:
        """Decide the condition for one finding."""
        if finding.low is None or finding.high is None:
            return Decision.CANNOT_TELL
        if self.measure in LEVELS:  # higher is better: values below the limit are bad
            bad, good = finding.high < self.limit, finding.low >= self.limit
        else:
            bad, good = finding.low > self.limit, finding.high <= self.limit
        if bad:
            return Decision.FAILS
        return Decision.PASSES if good else Decision.CANNOT_TELL


@dataclass(frozen=True)
class Check:
    """A condition applied to a finding.

    Parameters
    ----------
    condition : Condition
    finding : Finding
    decision : Decision
        Decision by the interval.
    verdict : Decision
        Decision after the policy for undecided conditions is applied.
    """

    condition: Condition
    finding: Finding
    decision: Decision
    verdict: Decision

    @property
    def sentence(self) -> str:
        """The result in words."""
        one, asked = self.finding, self.condition.text
        what = one.measure + (f" of {CROSSED.join(one.scope)}" if one.scope else "")
        if one.value is None or one.low is None or one.high is None:
            return f"{what} is unknown with so few samples; the condition is {asked}"
        return (
            f"{what} is {one.value:.3f}, with an interval from {one.low:.3f} to {one.high:.3f}; "
            f"the condition is {asked}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON document."""
        return {
            "condition": self.condition.text,
            "measure": self.finding.measure,
            "scope": list(self.finding.scope),
            "limit": self.condition.limit,
            "value": self.finding.value,
            "low": self.finding.low,
            "high": self.finding.high,
            "decision": self.decision.words,
            "verdict": self.verdict.words,
        }


@dataclass(frozen=True)
class Gate:
    """All checks of an audit, and the resulting decision.

    Parameters
    ----------
    checks : tuple of Check
        One for each condition and scope.
    decision : Decision
        Fails if any check fails; otherwise undecided if any check is undecided.
    """

    checks: tuple[Check, ...]
    decision: Decision

    @property
    def exit_code(self) -> int:
        """0 if it passes, 3 if it fails, 4 if it is undecided."""
        return self.decision.value

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON document."""
        return {
            "decision": self.decision.words,
            "exit_code": self.exit_code,
            "checks": [check.as_dict() for check in self.checks],
        }

    def as_junit(self) -> str:
        """Return JUnit XML with one case per check; undecided checks are skipped."""
        verdicts = [check.verdict for check in self.checks]
        suite = ElementTree.Element(
            "testsuite",
            name="faircil audit",
            tests=str(len(verdicts)),
            failures=str(verdicts.count(Decision.FAILS)),
            skipped=str(verdicts.count(Decision.CANNOT_TELL)),
        )
        kinds = {Decision.FAILS: "failure", Decision.CANNOT_TELL: "skipped"}
        for check in self.checks:
            scope = CROSSED.join(check.finding.scope) or "classes"
            case = ElementTree.SubElement(
                suite, "testcase", classname=_printable(scope), name=check.condition.text
            )
            if check.verdict in kinds:
                ElementTree.SubElement(
                    case, kinds[check.verdict], message=_printable(check.sentence)
                )
        return ElementTree.tostring(suite, encoding="unicode") + "\n"


def _printable(text: str) -> str:
    """Remove characters that XML does not allow."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def parse_conditions(texts: Iterable[str], mistakes: list[str]) -> list[Condition]:
    """Parse conditions such as ``eo_gap>0.10``, ``eo_gap[sex]>0.10`` or ``worst_group<0.7``.

    Returns the valid conditions, and adds the reasons why others are invalid to ``mistakes``.
    """
    found: list[Condition] = []
    for text in texts:
        match = CONDITION.fullmatch(text)
        if match is None:
            mistakes.append(
                f"the condition '{text}' cannot be parsed; expected MEASURE>LIMIT such as "
                "eo_gap>0.10, or MEASURE[ATTRIBUTE]>LIMIT"
            )
            continue
        measure, scope, sign, number = match.groups()
        measure = measure.replace("-", "_")
        if measure not in MEASURES:
            mistakes.append(unknown_name("measure", measure, MEASURES))
            continue
        limit = _limit(number)
        if limit is None:
            mistakes.append(
                f"the limit of '{text}' is {number}, expected a number from 0 to 1, such as 0.10"
            )
            continue
        worse = "<" if measure in LEVELS else ">"
        if sign[0] != worse:
            better = "higher" if measure in LEVELS else "lower"
            mistakes.append(
                f"the condition '{text}' would fail good results: {measure} is better if it is "
                f"{better}; expected {measure}{worse}{number}"
            )
            continue
        attributes = None if scope is None else tuple(map(str.strip, re.split("[×,]", scope)))
        found.append(Condition(text.strip(), measure, attributes, limit))
    return found


def _limit(text: str) -> float | None:
    try:
        limit = float(text)
    except ValueError:
        return None
    return limit if 0 <= limit <= 1 else None


def misfits(
    conditions: Iterable[Condition], attributes: Sequence[str], favoured: Collection[Any] | None
) -> list[str]:
    """Return messages for conditions without a finding in an audit by these attributes."""
    groups: list[Scope] = [(name,) for name in attributes]
    if len(attributes) > 1:
        groups.append(tuple(attributes))
    told = []
    for one in conditions:
        scopes = groups
        if one.measure == "accuracy" or one.measure in FAMILIES["class"].measures:
            scopes = [()]
        elif one.measure in LEVELS:
            scopes = groups or [()]
        elif one.measure in FAMILIES["favoured"].measures and favoured is None:
            scopes = []
        told += _misfit(one, scopes)
    return told


def _misfit(condition: Condition, scopes: Sequence[Scope]) -> list[str]:
    """Return why a condition's scope is none of the scopes of its measure."""
    if not scopes:
        favoured = condition.measure in FAMILIES["favoured"].measures
        missing = "favoured classes (`favoured`)" if favoured else "sensitive attributes"
        return [f"the condition '{condition.text}' needs {missing}; name them"]
    if condition.scope is None or condition.scope in scopes:
        return []
    known = ", ".join(CROSSED.join(scope) or "no attribute" for scope in scopes)
    return [
        f"the condition '{condition.text}' is about attributes that were not audited; "
        f"{condition.measure} has {known}"
    ]


def decide(report: Report, conditions: Iterable[str], *, cannot_tell: str = "report") -> Gate:
    """Decide whether an audit passes, as both the library and the command do.

    Parameters
    ----------
    report : Report
    conditions : iterable of str
        What must not hold, see :func:`parse_conditions`. A condition without attributes is checked
        for each attribute and for their intersection.
    cannot_tell : {"report", "pass", "fail"}
        Result of a condition whose limit is within the interval.

    Examples
    --------
    >>> from faircil import audit
    >>> sex = ["f"] * 200 + ["m"] * 200
    >>> found = audit([0, 1] * 200, [0, 1] * 100 + [1, 1] * 100, sensitive_features=sex)
    >>> gate = decide(found.report(), ["eo_gap>0.10", "accuracy<0.9"])
    >>> gate.decision.words, gate.exit_code
    ('fails', 3)
    """
    policies = {
        "report": Decision.CANNOT_TELL,
        "pass": Decision.PASSES,
        "fail": Decision.FAILS,
    }
    checks: list[Check] = []
    mistakes: list[str] = []
    if cannot_tell not in policies:
        mistakes.append(unknown_name("policy of `cannot_tell`", cannot_tell, policies))
    for condition in parse_conditions(conditions, mistakes):
        findings = report.find(condition.measure)
        about = [one for one in findings if condition.scope in (None, one.scope)]
        mistakes += _misfit(condition, [one.scope for one in findings])
        for finding in about:
            decision = condition.decide(finding)
            is_open = decision is Decision.CANNOT_TELL
            verdict = policies.get(cannot_tell, decision) if is_open else decision
            checks.append(Check(condition, finding, decision, verdict))
    raise_all(mistakes)
    if not checks:
        raise UsageError("no condition is given; give one such as eo_gap>0.10")
    verdicts = [check.verdict for check in checks]
    order = (Decision.FAILS, Decision.CANNOT_TELL, Decision.PASSES)
    return Gate(tuple(checks), next(one for one in order if one in verdicts))
