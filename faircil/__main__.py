"""``python -m faircil``, and what the command ``faircil`` calls."""

import sys

from faircil.stopping import exit_code, listening


def start() -> int:
    """Run the command line; signals during import or exit leave no traceback either."""
    try:
        with listening():
            try:
                from faircil.cli import main
            except (Exception, KeyboardInterrupt) as error:
                return _ended_by(error)
            return main()
    except KeyboardInterrupt as stop:
        return _ended_by(stop)


def _ended_by(error: BaseException) -> int:
    if (stopped := exit_code(error)) is None:
        raise error
    print("interrupted", file=sys.stderr)  # noqa: T201
    return stopped


if __name__ == "__main__":
    sys.exit(start())
