"""The command line: ``faircil COMMAND``. Heavy imports happen inside the commands."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from faircil.cli.console import say, with_flags
from faircil.cli.parser import flags_of, parse
from faircil.errors import FaircilError, UsageError

# How to give an argument of the library on the command line.
FLAGS = {
    "budget": "--budget N",
    "dataset": "--dataset NAME",
    "device": "--device NAME",
    "epsilon": "--epsilon E",
    "fixed": "--set NAME=VALUE",
    "force": "--force",
    "held_out": "--held-out N",
    "jobs": "--jobs N",
    "measure": "--measure NAME",
    "method": "--method NAME",
    "objective": "--objective TEXT",
    "out": "--out DIR",
    "overrides": "--set NAME=VALUE",
    "own": "--data FILE --label COLUMN",
    "postprocess": "--postprocess NAME",
    "seeds": "--seeds LIST",
    "sensitive": "--sensitive COLUMN",
    "strategy": "--strategy NAME",
    "tasks": "--tasks CLASSES",
    "text": "--text COLUMN",
    "tried": "--try NAME=VALUE,VALUE",
    "use_sensitive": "--use-sensitive",
    "weighting": "--weighting NAME",
}
DONE, ERROR, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 error, 2 usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ? instead
    arguments: argparse.Namespace | None = None
    argv = sys.argv[1:] if argv is None else argv
    try:
        arguments = parse(argv)
        arguments.command(arguments)
        sys.stdout.flush()
    except FaircilError as error:
        message = with_flags(str(error), flags_of(argv[0] if argv else None))
        say(f"error:\n{message}" if message.startswith("- ") else f"error: {message}")
        if flags := _flags_for(error, arguments):
            say(f"on the command line: {flags}")
        return USAGE if isinstance(error, UsageError) else ERROR
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has stopped. Python would complain when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    return DONE


def _flags_for(error: FaircilError, arguments: argparse.Namespace | None) -> str:
    """Return the flags that an error is about, as far as the command has them."""
    known = {} if arguments is None else vars(arguments)
    flags = {name: FLAGS[name] for name in error.arguments if name in FLAGS}
    # argparse keeps the value of a flag under the name of its argument, or under the flag's own.
    there = [flag for name, flag in flags.items() if {name, _own_name(flag)} & known.keys()]
    return ", ".join(dict.fromkeys(there))


def _own_name(flag: str) -> str:
    """Return ``held_out`` for ``--held-out N``."""
    return flag.split()[0].removeprefix("--").replace("-", "_")
