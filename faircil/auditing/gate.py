"""A gate: conditions on an audit, decided by intervals so that noise alone decides nothing.

A condition such as ``eo_gap>0.10`` says what must not be. It fails if the whole interval is beyond
the limit, passes if the whole interval is on the good side, and cannot be told in between. At a
true gap exactly at the limit it fails only where the interval is wrong on this side: in fewer than
5 % of audits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from xml.etree import ElementTree  # it writes, and reads nothing  # nosec B405

from faircil.auditing.disparities import FAMILIES, LEVELS, MEASURES
from faircil.auditing.findings import Finding, Report, Scope
from faircil.errors import UsageError, raise_all, unknown_name

CONDITION = re.compile(r"\s*([\w-]+)\s*(?:\[([^\]]*)\])?\s*(>=|<=|>|<)\s*(\S+)\s*")
CROSSED = " × "  # between the attributes of an intersection


class Decision(Enum):
    """What a gate says; its value is the exit code of the command."""

    PASSES = 0
    FAILS = 3
    CANNOT_TELL = 4

    @property
    def words(self) -> str:
        """As people say it."""
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True)
class Condition:
    """What must not be: a measure beyond a limit.

    Parameters
    ----------
    text : str
        As it was given.
    measure : str
    scope : tuple of str or None
        The attributes that it is about; None: every scope.
    limit : float
    """

    text: str
    measure: str
    scope: Scope | None
    limit: float

    def decide(self, finding: Finding) -> Decision:
        """Decide for one finding."""
        if finding.low is None or finding.high is None:
            return Decision.CANNOT_TELL
        if self.measure in LEVELS:  # higher is better: bad is below
            bad, good = finding.high < self.limit, finding.low >= self.limit
        else:
            bad, good = finding.low > self.limit, finding.high <= self.limit
        if bad:
            return Decision.FAILS
        return Decision.PASSES if good else Decision.CANNOT_TELL


@dataclass(frozen=True)
class Check:
    """A condition and a finding that it is about.

    Parameters
    ----------
    condition : Condition
    finding : Finding
    decision : Decision
        What the interval says.
    verdict : Decision
        What follows under the policy for what cannot be told.
    """

    condition: Condition
    finding: Finding
    decision: Decision
    verdict: Decision

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        one, asked = self.finding, self.condition.text
        what = one.measure + (f" of {CROSSED.join(one.scope)}" if one.scope else "")
        if one.value is None or one.low is None or one.high is None:
            return f"{what} is unknown with so few samples; the condition is {asked}"
        return (
            f"{what} is {one.value:.3f}, with an interval from {one.low:.3f} to {one.high:.3f}; "
            f"the condition is {asked}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
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
    """All checks of an audit, and the decision that follows from them.

    Parameters
    ----------
    checks : tuple of Check
        One for each condition and scope.
    decision : Decision
        It fails if one check does; else it cannot be told if one cannot.
    """

    checks: tuple[Check, ...]
    decision: Decision

    @property
    def exit_code(self) -> int:
        """0 passes, 3 fails, 4 cannot tell."""
        return self.decision.value

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "decision": self.decision.words,
            "exit_code": self.exit_code,
            "checks": [check.as_dict() for check in self.checks],
        }

    def as_junit(self) -> str:
        """Return it as JUnit XML, a case for each check; what cannot be told is skipped."""
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
    """Leave out what XML cannot hold."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def parse_conditions(texts: Iterable[str], mistakes: list[str]) -> list[Condition]:
    """Read conditions such as ``eo_gap>0.10``, ``eo_gap[sex]>0.10`` or ``worst_group<0.7``.

    Returns those that can be read, and adds to ``mistakes`` why the others cannot.
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
    """Say which conditions an audit by these attributes will have no finding for."""
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
    """Say why none of the scopes that a measure has is the one that a condition is about."""
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
    """Decide whether an audit passes: the one policy of the library and of the command.

    Parameters
    ----------
    report : Report
    conditions : iterable of str
        What must not be, see :func:`parse_conditions`. One without an attribute is checked for
        every attribute, and for their intersection.
    cannot_tell : {"report", "pass", "fail"}
        What an interval that contains the limit counts as.

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
