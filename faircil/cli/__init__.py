"""The command line: ``faircil COMMAND``. Heavy imports happen inside the commands."""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from itertools import groupby
from typing import Any, NoReturn

from faircil import __version__
from faircil.cli.console import say, silence
from faircil.errors import FaircilError, UsageError, raise_all, unknown_name
from faircil.files import NO_TEXT
from faircil.registry import load_reference
from faircil.stopping import exit_code, listening

GROUP = "faircil.commands"  # entry points for commands of other packages


@dataclass(frozen=True)
class Command:
    """A command: a one-line description, and its module; None if that is not installed.

    A module may have several commands: ``module:name`` is an object with the same :class:`Parts`.
    """

    help: str
    module: str | None


@dataclass(frozen=True)
class Parts:
    """The parts of a command, in a module or in an object of a module."""

    EPILOG: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    command: Callable[[argparse.Namespace], None]


COMMANDS = {
    "demo": Command(
        "show unfair forgetting and its remedies on toy data and digits; no download, one minute",
        "faircil.cli.demo",
    ),
    "run": Command(
        "train a method over a stream of tasks and measure accuracy and fairness",
        "faircil.cli.run",
    ),
    "fit": Command("fit a model to a table, and save it", "faircil.cli.fit"),
    "update": Command(
        "update a model with more rows, which may have new classes", "faircil.cli.models:update"
    ),
    "predict": Command("predict the rows of a table with a model", "faircil.cli.predict"),
    "merge": Command(
        "merge the sums of several sites into one model; no site shares its rows",
        "faircil.cli.models:merge",
    ),
    "forget": Command(
        "remove rows from a model, as if it had never seen them", "faircil.cli.models:forget"
    ),
    "show": Command(
        "show what a model has learned, from whom, and how fair it was", "faircil.cli.models:show"
    ),
    "audit": Command(
        "audit a table of predictions: accuracy and fairness with intervals, and a gate for CI",
        "faircil.cli.audit",
    ),
    "diagnose": Command(
        "inspect data before training, or forecast whom new rows would hurt",
        "faircil.cli.diagnose",
    ),
    "compare": Command(
        "compare runs in a table, mean ± deviation over seeds", "faircil.cli.compare:table"
    ),
    "report": Command(
        "write one page about runs or audits: who was forgotten, who fares worst, how certain "
        "that is",
        "faircil.cli.compare:report",
    ),
    "postprocess": Command(
        "make predictions nearly independent of a sensitive attribute, and show what that costs",
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
# Commands of the laboratory, a separate distribution in the same repository.
LABORATORY = {
    "reproduce": "reproduce the paper's tables and figures, with published values next to ours",
    "bench": "measure solvers, runs, sweeps and encoders; score methods on a suite of streams",
}


def all_commands() -> dict[str, Command]:
    """Return all commands by name: our own, and those of other packages."""
    added = {
        point.name: Command(LABORATORY.get(point.name, f"see {point.module}"), point.module)
        for point in metadata.entry_points(group=GROUP)
    }
    absent = {name: Command(does, None) for name, does in LABORATORY.items()}
    return {**COMMANDS, **absent, **added}


def _parts_of(module: str) -> Any:
    return load_reference(module) if ":" in module else import_module(module)


def add_command(
    subparsers: argparse._SubParsersAction[Any], name: str, module: Any, does: str
) -> None:
    """Add the command of a module with all its options."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=does,
        description=does[0].upper() + does[1:] + ".",
        epilog=module.EPILOG,
        formatter_class=Formatter,
        allow_abbrev=False,
    )
    module.add_arguments(parser)
    parser.set_defaults(command=module.command, parser=parser)


class Parser(argparse.ArgumentParser):
    """An argument parser with faircil's own errors: no usage dump, but hints."""

    def error(self, message: str) -> NoReturn:
        """Raise an error instead of exiting, so that all errors are handled in one place."""
        raise UsageError(f"{message}\nSee `{self.prog} --help`.")

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Reject leftover arguments here, where similar options are known."""
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
    """Parse a command line.

    Returns
    -------
    Namespace
        The options of the command, with ``command``, the function to call, ``parser``, the parser
        of its options, and ``typed``, the whole command line.
    """
    chosen = next((word for word in argv if not word.startswith("-")), None)
    arguments = _build_parser(chosen).parse_args(argv)
    arguments.typed = shlex.join(["faircil", *argv])
    return arguments


@dataclass(frozen=True)
class Flag:
    """An option as typed by the user, and whether it takes a value."""

    text: str
    takes_value: bool = True


# Parameters of the library whose option has another name.
OTHERWISE_NAMED = {
    "again": Flag("--force", takes_value=False),
    "fixed": Flag("--set"),
    "folder": Flag("--out"),
    "overrides": Flag("--set"),
    "own": Flag("--data FILE --label COLUMN", takes_value=False),
    "replace": Flag("--force", takes_value=False),
}
# A parameter in a message of the library: `name`, `name=value` or `name='some words'`.
PARAMETER = re.compile(r"`([a-z_]+)(?:=('[^'`]*'|[^'`\s]+))?`")


def flags_of(parser: argparse.ArgumentParser) -> dict[str, Flag]:
    """Return the options of a command, keyed by the library parameters that they set."""
    options = parser._option_string_actions
    flags = {
        action.dest: Flag(option, action.nargs != 0)
        for option, action in options.items()
        if option.startswith("--")
    }
    others = OTHERWISE_NAMED.items()
    return flags | {name: flag for name, flag in others if flag.text.split()[0] in options}


def with_flags(message: str, flags: Mapping[str, Flag]) -> str:
    """Replace the parameters in a message of the library by options of the command line.

    Any other name with a value is a setting, if the command takes settings; all else is unchanged.

    Examples
    --------
    >>> flags = {"folder": Flag("--out"), "again": Flag("--force", False), "set": Flag("--set")}
    >>> with_flags("choose another `folder`, or use `again=True` with `lr=0.1`", flags)
    'choose another --out, or use --force with --set lr=0.1'
    """

    def written(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name in flags:
            flag = flags[name]
            if value is None or not flag.takes_value:
                return flag.text
            plain = value.strip("'")
            return f"{flag.text} {shlex.quote(plain)}"
        return f"--set {name}={value}" if value and "set" in flags else match[0]

    return PARAMETER.sub(written, message)


def _build_parser(chosen: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``faircil``, with the options of the chosen command."""
    parser = Parser(
        prog="faircil",
        description="Fair class-incremental learning: learn new classes without forgetting some "
        "groups more than others.",
        epilog="Start with `faircil demo`. Exit codes: 0 success, 1 error, 2 wrong usage; 130, 143 "
        "or 129 interrupted by Ctrl-C, SIGTERM or SIGHUP; for a gate also 3 (fails) and 4 (cannot "
        "tell).",
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
            add_command(subparsers, name, _parts_of(command.module), command.help)
    return parser


DONE, ERROR, USAGE = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 done, 1 error, 2 usage.

    If stopped by a signal, the code is 128 plus its number: 130 after Ctrl-C, 143 after SIGTERM,
    129 after SIGHUP. Commands with their own codes, such as gates, return them.
    """
    words = sys.argv[1:] if argv is None else argv
    with listening():
        if os.environ.get("WORLD_SIZE", "1") in ("", "1"):
            return _main(words)
        return _with_others(words)


# Commands that several processes, as started by torchrun, carry out together.
TOGETHER = ("run", "fit", "update", "predict", "audit", "tune")


def _with_others(words: Sequence[str]) -> int:
    """Run a command in the first of several processes; the others help, or have nothing to do."""
    from faircil.runs.together import follow, leading, started

    try:
        ranks = started()
        helped = next((word for word in words if not word.startswith("-")), None) in TOGETHER
        if ranks.size == 1 or (not helped and ranks.rank == 0):
            return _main(words)
        if ranks.rank:
            return follow(ranks) if helped else DONE
        with leading(ranks) as team:
            team.code = _main(words)
            return team.code
    except FaircilError as error:
        say(f"error: {error}")
        return ERROR


def _check_here() -> None:
    """Reject a current folder that was removed, as some libraries abort the program then."""
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(
            f"the current folder cannot be used: {error.strerror}; change to another one, or to "
            "the one that has taken its place: cd ."
        ) from None


LEAST_SPACE = 2**30  # bytes of address space that a process needs


def _check_limits() -> None:
    """Reject an address space so small that libraries would wait for memory forever."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < LEAST_SPACE:
        raise UsageError(
            f"the address space of a process is limited to {limit / 2**20:,.0f} MiB, and the "
            f"libraries of faircil need at least {LEAST_SPACE / 2**20:,.0f} MiB: raise the limit "
            "(ulimit -v), or limit the memory of a container instead"
        )


def _check_words(argv: Sequence[str]) -> None:
    """Reject file names that cannot be stored, for example in the configuration of a run."""
    encoding = sys.getfilesystemencoding().upper()
    raise_all(
        [
            f"{word!r} has bytes that are not valid {encoding}; rename the file, or set LC_ALL to "
            "a UTF-8 locale"
            for word in argv
            if NO_TEXT.search(word)
        ]
    )


def _main(argv: Sequence[str]) -> int:
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ? instead
    if not argv:  # typed to see what there is
        _build_parser(None).print_help(sys.stderr)
        return USAGE
    arguments: argparse.Namespace | None = None
    try:
        _check_here()
        _check_limits()
        _check_words(argv)
        arguments = parse(argv)
        code: int | None = arguments.command(arguments)
        sys.stdout.flush()
    except FaircilError as error:
        message = str(error)
        if arguments is not None:  # else the error is the parser's, which knows only options
            message = with_flags(message, flags_of(arguments.parser))
        say(f"error:\n{message}" if message.startswith("- ") else f"error: {message}")
        return USAGE if isinstance(error, UsageError) else ERROR
    except OSError as error:  # a device that is full or gone, or a name that is too long
        if error.filename is None:
            silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):  # else the reader of our output has stopped
            what = "the output" if error.filename is None else repr(str(error.filename))
            say(
                f"error: {what:.200} cannot be read or written: {error.strerror or error}; "
                "check the name, your permissions there and the free space"
            )
        return ERROR
    except MemoryError as error:
        say(f"error: not enough memory: {error}; use fewer rows or columns, or another machine")
        return ERROR
    except (Exception, KeyboardInterrupt) as error:
        if (stopped := exit_code(error)) is None:
            raise
        # Commands add remarks on it, such as what is finished, as notes of the error.
        say("; ".join(["interrupted", *getattr(error, "__notes__", ())]))
        return stopped
    return DONE if code is None else code


# A shell word, in which quoted blanks do not split, or an option and its first word.
PIECE = re.compile(r"""(?:-[-a-z]+ )?(?:"[^"]*"|'[^']*'|[^\s"'])+""")


class Formatter(argparse.HelpFormatter):
    """Help formatter that keeps examples in epilogs, and does not break names at hyphens."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return textwrap.indent(filled(text, width - len(indent)), indent)


def filled(text: str, width: int) -> str:
    r"""Fill the paragraphs of a text; indented lines are examples, which can still be pasted.

    Examples
    --------
    >>> print(filled("One and\ntwo.\n\nexample:\n  faircil x --to 'a b' c", 20))
    One and two.
    <BLANKLINE>
    example:
      faircil x \
          --to 'a b' c
    """
    lines: list[str] = []
    text = re.sub(r" \\\n +", " ", text)  # examples are wrapped again for this width
    for example, block in groupby(text.splitlines(), key=lambda line: line.startswith(" ")):
        if example:
            lines += [part for line in block for part in _example(line, width)]
            continue
        for empty, paragraph in groupby(block, key=lambda line: not line.strip()):
            words = " ".join(paragraph)
            lines += [""] if empty else textwrap.wrap(words, width, break_on_hyphens=False)
    return "\n".join(lines)


def _example(line: str, width: int) -> list[str]:
    """Split a command at blanks, with a backslash at the end of each line but the last."""
    if len(line) <= width:
        return [line.rstrip()]
    first, *pieces = PIECE.findall(line)
    indent = line[: len(line) - len(line.lstrip())]
    lines = [indent + first]
    for piece in pieces:
        if len(lines[-1]) + 1 + len(piece) > width - 2:  # room for the backslash
            lines[-1] += " \\"
            lines.append(f"{indent}    {piece}")
        else:
            lines[-1] += f" {piece}"
    return lines
