"""The command line: ``faircil COMMAND``. Heavy imports happen inside the commands."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

from faircil.cli.console import say, with_flags
from faircil.cli.parser import flags_of, parse
from faircil.errors import FaircilError, UsageError

DONE, ERROR, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 error, 2 usage, 130 interrupted."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ? instead
    argv = sys.argv[1:] if argv is None else argv
    try:
        arguments = parse(argv)
        arguments.command(arguments)
        sys.stdout.flush()
    except FaircilError as error:
        message = with_flags(str(error), flags_of(argv[0] if argv else None))
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
