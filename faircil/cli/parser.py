"""The commands and their options."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import NoReturn

from faircil import __version__
from faircil.cli import bench, compare, data, demo, lists, postprocess, reproduce, run, tune
from faircil.cli.commands import add_command
from faircil.errors import UsageError, raise_all, unknown_name

COMMANDS = {
    "demo": demo,
    "run": run,
    "compare": compare,
    "postprocess": postprocess,
    "tune": tune,
    "reproduce": reproduce,
    "bench": bench,
    "data": data,
    "list": lists,
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are ours: no usage dump, a hint where one helps."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of exiting, so that all errors leave by one door."""
        raise UsageError(f"{message}\nSee `{self.prog} --help`.")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse what is left over here, where the options that might be meant are known."""
        parsed, extra = super().parse_known_args(args, namespace)
        options = [name for name in self._option_string_actions if name.startswith("--")]
        unknown = [text.split("=")[0] for text in extra if text.startswith("--")]
        raise_all([unknown_name("option", name, options) for name in unknown])
        if extra:
            self.error(f"unexpected argument '{extra[0]}'")
        return parsed, extra

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            kind = str(action.metavar or action.dest)
            raise UsageError(unknown_name(kind, str(value), map(str, action.choices)))


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read a command line.

    Returns
    -------
    Namespace
        The options of the command, with ``command``, the function to call, and ``typed``, the
        whole line.
    """
    arguments = build_parser().parse_args(argv)
    arguments.typed = shlex.join(["faircil", *argv])
    return arguments


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of ``faircil``."""
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
        sub = add_command(subparsers, name, module)
        sub.set_defaults(command=module.command)
    return parser
