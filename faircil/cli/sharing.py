"""Options of a command that several processes carry out together, as torchrun starts them."""

from __future__ import annotations

import argparse

from faircil.cli.console import say

ALONE = "in the first of {size} processes alone: {why}"


def shared(arguments: argparse.Namespace, mistakes: list[str]) -> list[str]:
    """Return the settings of a command, with as many shards as there are processes.

    A number of shards that the user gives stays. A method that cannot divide its steps gets none,
    and a line says that one process runs it.

    Parameters
    ----------
    arguments : Namespace
        With ``set`` and ``method``, and perhaps ``jobs``, ``device`` and ``quiet``.
    mistakes : list of str
        What does not go together is added here.
    """
    from faircil.learners import ALIASES, LEARNERS
    from faircil.runs.settings import in_effect
    from faircil.runs.together import team_size
    from faircil.tuning.auto import AUTO, protects

    given: list[str] = arguments.set
    size = team_size()
    if size == 1:
        return given
    if getattr(arguments, "jobs", 1) > 1:
        mistakes.append(
            f"--jobs is {arguments.jobs}, and {size} processes were started to make each run "
            "together; leave it out, or start one process"
        )
    device = getattr(arguments, "device", "auto")
    if device.startswith("cuda:"):
        mistakes.append(
            f"--device is {device}, and each of the {size} processes has a GPU of its own; use "
            "--device cuda"
        )
    if any(text.partition("=")[0] == "shards" for text in given):
        return given
    by_target = getattr(arguments, "target", None) is not None
    method = arguments.method or ("moments" if by_target else AUTO)
    if method == AUTO and protects(given):
        method = "moments"
    method = ALIASES.get(method, (method,))[0]
    wish = f"shards={size}"
    undivided = [text for text in given if text.startswith(("gradient=all", "granularity=cluster"))]
    why = None
    if method in LEARNERS and wish not in in_effect([wish], method):
        why = f"method '{method}' cannot be divided"
    elif undivided:
        why = f"{undivided[0]} cannot be divided"
    if why is None:
        return [*given, wish]
    if not arguments.quiet:
        say(f"note: it runs {ALONE.format(size=size, why=why)}")
    return given
