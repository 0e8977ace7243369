"""``python -m faircil``, and what the command ``faircil`` calls."""

import sys

from faircil.stopping import exit_code, listening


def start() -> int:
    """Run the command line; a signal while it is imported ends it without a traceback, too."""
    with listening():
        try:
            from faircil.cli import main
        except (Exception, KeyboardInterrupt) as error:
            if (stopped := exit_code(error)) is None:
                raise
            print("interrupted", file=sys.stderr)  # noqa: T201
            return stopped
        return main()


if __name__ == "__main__":
    sys.exit(start())
