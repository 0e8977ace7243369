"""The command line: ``faircil COMMAND``. Heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from faircil.cli.console import say
from faircil.cli.parser import build_parser
from faircil.errors import FaircilError, UsageError

ERROR, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 error, 2 usage, 130 interrupted."""
    try:
        arguments = build_parser().parse_args(argv)
        return int(arguments.command(arguments) or 0)
    except UsageError as error:
        say(f"error: {error}")
        return USAGE
    except FaircilError as error:
        say(f"error: {error}")
        return ERROR
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has stopped reading: no error of ours
        return ERROR
