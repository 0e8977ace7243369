"""The command line: ``faircil COMMAND``. Heavy imports happen inside the commands."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from faircil.cli.console import say
from faircil.cli.parser import flags_of, parse, with_flags
from faircil.errors import FaircilError, UsageError

DONE, ERROR, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 error, 2 usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ? instead
    arguments: argparse.Namespace | None = None
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        arguments.command(arguments)
        sys.stdout.flush()
    except FaircilError as error:
        message = str(error)
        if arguments is not None:  # else the error is the parser's, which knows options only
            message = with_flags(message, flags_of(arguments.parser))
        say(f"error:\n{message}" if message.startswith("- ") else f"error: {message}")
        return USAGE if isinstance(error, UsageError) else ERROR
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has stopped. Python would complain when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ERROR
    return DONE
