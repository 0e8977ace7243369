"""The command-line parser: commands, their options, and usage errors.

A command is a module with ``EPILOG``, ``add_arguments`` and ``command``. Only the chosen one is
imported, so ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, NoReturn

from faircil import __version__
from faircil.errors import UsageError, raise_all, unknown_name

GROUP = "faircil.commands"  # entry points by which other packages add commands


@dataclass(frozen=True)
class Command:
    """A command: what it does, in a line, and its module; None if that is not installed."""

    help: str
    module: str | None


COMMANDS = {
    "demo": Command(
        "see unfair forgetting and its cure on a toy and on real digits; no download, a minute",
        "faircil.cli.demo",
    ),
    "run": Command(
        "train a method over a stream of tasks and measure accuracy and fairness",
        "faircil.cli.run",
    ),
    "compare": Command(
        "compare runs in a table, mean ± deviation over seeds", "faircil.cli.compare"
    ),
    "postprocess": Command(
        "make predictions nearly independent of a sensitive attribute, and see what it costs",
        "faircil.cli.postprocess",
    ),
    "tune": Command(
        "choose settings on held-out training data, with the same budget for every method",
        "faircil.cli.tune",
    ),
    "data": Command("list, fetch and check dataset files", "faircil.cli.data"),
    "list": Command(
        "list datasets, methods, measures, settings and other pieces, by name",
        "faircil.cli.lists",
    ),
}
# Commands of the laboratory, a distribution of its own in the same repository.
LABORATORY = {
    "reproduce": "reproduce the paper's tables and figures, published values beside ours",
    "bench": "measure solvers, whole runs, sweeps, or a text encoder",
}


def all_commands() -> dict[str, Command]:
    """Return every command by name: ours, and those of other packages."""
    added = {
        point.name: Command(LABORATORY.get(point.name, f"see {point.module}"), point.module)
        for point in metadata.entry_points(group=GROUP)
    }
    absent = {name: Command(does, None) for name, does in LABORATORY.items()}
    return {**COMMANDS, **absent, **added}


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that does not break names at their hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def add_command(
    subparsers: argparse._SubParsersAction[Any], name: str, module: ModuleType, does: str
) -> None:
    """Add the command of a module with all of its options."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=does,
        description=does[0].upper() + does[1:] + ".",
        epilog=module.EPILOG,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.set_defaults(command=module.command)


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
    chosen = next((word for word in argv if not word.startswith("-")), None)
    arguments = _build_parser(chosen).parse_args(argv)
    arguments.typed = shlex.join(["faircil", *argv])
    return arguments


# Parameters of the library that options of another name set.
PARAMETERS = {"folder": "out", "again": "force", "replace": "force"}


def flags_of(chosen: str | None) -> dict[str, str]:
    """Return the options by the parameters that they set, those of the chosen command first.

    One that takes no value ends with a full stop, see :func:`faircil.cli.console.with_flags`.
    """
    flags: dict[str, str] = {}
    for name in sorted(COMMANDS, key=lambda name: name != chosen):
        parser = Parser(add_help=False)
        import_module(COMMANDS[name].module or "").add_arguments(parser)
        for action in parser._actions:
            option = next((text for text in action.option_strings if text.startswith("--")), None)
            if option is not None:
                flags.setdefault(action.dest, option + "." * (action.nargs == 0))
    return flags | {name: flags[dest] for name, dest in PARAMETERS.items()}


def _build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``faircil``, with the options of the chosen command."""
    parser = Parser(
        prog="faircil",
        description="Fair class-incremental learning: learn new classes without forgetting some "
        "groups more than others.",
        epilog="Start with `faircil demo`. Exit codes: 0 done, 1 error, 2 usage, 130 interrupted.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"faircil {__version__}")
    subparsers = parser.add_subparsers(metavar="command", required=True)
    for name, command in all_commands().items():
        if name != chosen:
            subparsers.add_parser(name, help=command.help, add_help=False)
        elif command.module is None:
            raise UsageError(
                f"`faircil {name}` is part of the laboratory, which is not installed; in a clone "
                "of the repository, run `make setup` or `pip install ./lab`"
            )
        else:
            add_command(subparsers, name, import_module(command.module), command.help)
    return parser
