"""Look the pinned packages up in the database of known vulnerabilities, by pip-audit.

    python .ci/audit_dependencies.py    exit code 1 if one of them has a vulnerability

pip-audit says "no known vulnerabilities" also of packages that its service does not know, as where
packages come from a mirror, and fails where it cannot reach the service. Neither is an audit: it is
then said to be skipped, and how many packages were looked up is said in any case.
"""

from __future__ import annotations

import json
import subprocess  # pip-audit of this environment, without a shell  # nosec B404
import sys
from pathlib import Path
from typing import Any

PINNED = Path(__file__).resolve().parent.parent / "constraints.txt"
SECONDS = 300


def run() -> tuple[str, str]:
    """Return the document of pip-audit, empty if it has none, and what it said."""
    options = ("--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off")
    command = [sys.executable, "-m", "pip_audit", "-r", str(PINNED), *options]
    try:
        # The command is made here.
        done = subprocess.run(  # nosec B603
            command, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"it did not answer within {SECONDS} seconds"
    return done.stdout, done.stderr


def told(document: str, said: str) -> tuple[str, int]:
    """Return a sentence about the outcome, and the exit code."""
    try:
        packages: list[dict[str, Any]] = json.loads(document)["dependencies"]
    except (ValueError, KeyError):
        last = (said.strip().splitlines() or ["no reason given"])[-1]
        return f"audit of dependencies SKIPPED: pip-audit failed: {last:.200}", 0
    looked_up = [one for one in packages if "skip_reason" not in one]
    unknown = len(packages) - len(looked_up)
    if not looked_up:
        return (
            f"audit of dependencies SKIPPED: the service knows none of the {unknown} packages, as "
            "where it cannot be reached from here",
            0,
        )
    found = [
        f"{one['name']} {one['version']}: {vulnerability['id']}"
        for one in looked_up
        for vulnerability in one["vulns"]
    ]
    rest = f"; {unknown} could not be looked up" if unknown else ""
    if found:
        listed = "\n".join(f"- {line}" for line in found)
        return f"vulnerable packages in {PINNED.name}{rest}:\n{listed}", 1
    return f"{len(looked_up)} packages looked up, none with a known vulnerability{rest}", 0


def main() -> int:
    """Audit, print the outcome, and return the exit code."""
    sentence, code = told(*run())
    print(sentence)  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main())
