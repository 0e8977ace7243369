"""The commands and their options."""

from __future__ import annotations

import argparse
from typing import NoReturn

from faircil import __version__
from faircil.cli import compare, data, demo, lists, run
from faircil.errors import UsageError, unknown_name

COMMANDS = {"demo": demo, "run": run, "compare": compare, "data": data, "list": lists}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours: no usage dump, a hint where one helps."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting, so that all errors leave by one door."""
        raise UsageError(f"{message}\nSee `{self.prog} --help`.")

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            raise UsageError(
                unknown_name(
                    str(action.metavar or action.dest), str(value), map(str, action.choices)
                )
            )


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``faircil``; parsed arguments carry the function to call."""
    parser = Parser(
        prog="faircil",
        description="Fair class-incremental learning: learn new classes without forgetting some "
        "groups more than others.",
        epilog="Start with `faircil demo`. Exit codes: 0 done, 1 error, 2 usage, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"faircil {__version__}")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for name, module in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.HELP[0].upper() + module.HELP[1:] + ".",
            epilog=module.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(sub)
        sub.set_defaults(command=module.command)
    return parser
