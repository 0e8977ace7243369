"""The commands and their options."""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, NoReturn

from faircil import __version__
from faircil.cli import compare, data, demo, lists, postprocess, run, tune
from faircil.errors import UsageError, raise_all, unknown_name


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that does not break names at their hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def add_command(
    subparsers: argparse._SubParsersAction[Any], name: str, module: ModuleType, *, full: bool = True
) -> argparse.ArgumentParser:
    """Add the command of a module with ``HELP``, ``EPILOG`` and ``add_arguments``.

    Its options are needed only where it was chosen (``full``): their help lists pieces by name,
    which takes a moment to find.
    """
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=module.HELP,
        description=module.HELP[0].upper() + module.HELP[1:] + ".",
        epilog=module.EPILOG,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    if full:
        module.add_arguments(parser)
    parser.set_defaults(command=module.command)
    return parser


COMMANDS = {
    "demo": demo,
    "run": run,
    "compare": compare,
    "postprocess": postprocess,
    "tune": tune,
    "data": data,
    "list": lists,
}


LABORATORY = {
    "reproduce": "make the tables and figures of the paper again",
    "bench": "measure solvers, runs, sweeps or a text encoder",
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


def _added_commands() -> dict[str, EntryPoint | None]:
    """Return the commands that other packages add; None for one of the laboratory, not installed.

    They are found by their entry points and loaded only to be used: help is quick.
    """
    return {
        **dict.fromkeys(LABORATORY),
        **{point.name: point for point in entry_points(group="faircil.commands")},
    }


def _add_other_command(
    subparsers: argparse._SubParsersAction[Any], name: str, point: EntryPoint | None, chosen: bool
) -> None:
    """Add a command of another package; in full where it was chosen."""
    if not chosen:
        does = LABORATORY.get(name, "a command that another package adds")
        subparsers.add_parser(name, help=does, add_help=False)
    elif point is not None:
        add_command(subparsers, name, point.load())
    else:
        raise UsageError(
            f"`faircil {name}` is part of the laboratory, which is not installed; in a clone of "
            "the repository, run `make setup` or `pip install ./lab`"
        )


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read a command line.

    Returns
    -------
    Namespace
        The options of the command, with ``command``, the function to call, and ``typed``, the
        whole line.
    """
    arguments = build_parser(argv[0] if argv else None).parse_args(argv)
    arguments.typed = shlex.join(["faircil", *argv])
    return arguments


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of ``faircil``; only the chosen command is there in full."""
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
        add_command(subparsers, name, module, full=name == chosen)
    for name, point in _added_commands().items():
        _add_other_command(subparsers, name, point, name == chosen)
    return parser
