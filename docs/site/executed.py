"""Run the Python and the commands of pages, and check that they print what the pages show.

    python docs/site/executed.py docs/tutorials/table.md …   run pages and update their output

A ``text`` block directly below a block of Python, or of commands (a block without a language), is
its output. All Python of a page is run, as one module in one folder; ``faircil`` commands are run,
in this process, if their output is shown.

In the output, a line ``…`` stands for any lines, and ``…`` within a line for any words, such as
long parts and times. Words must match; numbers may differ slightly (:data:`NEAR`), since processors
round differently, and a single person changes the rate of a small group.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?!\w)")
ANY, ROW = "…", "│"
NEAR = 0.05  # absolute for numbers up to 1, relative for larger ones
END = "\x1e"  # printed after each block


@dataclass(frozen=True)
class Block:
    """A block of code, and the output that the page shows below it, if any.

    Parameters
    ----------
    language : str
        ``python``, or empty for commands.
    text : str
    shown : str or None
    span : tuple of int
        Start and end of the shown output in the page.
    """

    language: str
    text: str
    shown: str | None = None
    span: tuple[int, int] = (0, 0)


def code_blocks(page: str) -> list[Block]:
    """Return the blocks of Python and of commands of a page, in order."""
    found: list[Block] = []
    end = -1
    for fence in FENCE.finditer(page):
        language, text = fence["language"], fence["text"]
        if language in ("", "python"):
            found.append(Block(language, text))
            end = fence.end()
        elif language == "text" and end >= 0 and not page[end : fence.start()].strip():
            found[-1] = Block(found[-1].language, found[-1].text, text, fence.span("text"))
    return found


def commands_of(text: str) -> list[str]:
    r"""Return the commands of faircil in a block, without comments.

    >>> commands_of("make setup\nfaircil show \\\n  model  # all of it\n")
    ['faircil show    model']
    """
    lines = text.replace("\\\n", " ").splitlines()
    return [line.split(" #")[0].rstrip() for line in lines if line.startswith("faircil ")]


def module_of(blocks: Sequence[Block]) -> str:
    """Return a page as one module, which prints :data:`END` after each block."""
    parts = []
    for block in blocks:
        if block.language:
            parts.append(block.text)
        elif block.shown is not None:
            for command in commands_of(block.text):
                parts.append(f"__import__('executed').call({command!r})\n")
        parts.append(f"print({END!r})\n")
    return "".join(parts)


def call(command: str) -> None:
    """Run a faircil command in this process, with its messages on stdout."""
    from faircil.cli import main

    with contextlib.redirect_stderr(sys.stdout):
        code = main(shlex.split(command)[1:])
    if code not in (0, 3, 4):  # a gate that fails or is undecided is a result
        raise RuntimeError(f"`{command}` ended with exit code {code}")


def printed_by(blocks: Sequence[Block], printed: str) -> list[str]:
    """Return the output of each block."""
    parts = printed.split(f"{END}\n")
    assert len(parts) == len(blocks) + 1, "the page was not run to its end"
    return parts[:-1]


def _frame(line: str) -> str:
    """Return the words of a line, regardless of numbers, spacing, and lines and marks of tables."""
    words = re.sub(r"[━─═]+|[°*†]", "─", NUMBER.sub("#", line))
    return re.sub(r"[\s─]+", " ", words).strip()


def _fits(shown: str, printed: str) -> bool:
    """Return whether a printed line has the words of a shown line."""
    pattern = ".*".join(re.escape(_frame(part)) for part in shown.split(ANY))
    return re.fullmatch(pattern, _frame(printed)) is not None


def _units(printed: str) -> list[list[str]]:
    """Return lines, with the rows of a table grouped."""
    units: list[list[str]] = []
    for line in printed.rstrip().splitlines():
        if line.startswith(ROW) and units and units[-1][0].startswith(ROW):
            units[-1].append(line)
        else:
            units.append([line])
    return units


def find_lines(shown: str, printed: str) -> list[str]:
    """Return the printed line for each shown line; for ``…``, that itself.

    Rows of a table may be in another order, for example if they are sorted by a number.

    Raises
    ------
    ValueError
        If a line is missing or unexpected; the message quotes it.
    """
    units, found = _units(printed), []
    anywhere = False  # whether the next printed lines may be omitted
    for line in shown.rstrip().splitlines():
        if line.strip() == ANY:
            anywhere = True
            found.append(line)
            continue
        while units:
            fitting = [row for row in units[0] if _fits(line, row)]
            if fitting:
                break
            if not anywhere:
                raise ValueError(f"'{units[0][0]}' is printed where '{line}' is shown")
            del units[0]
        else:
            raise ValueError(f"'{line}' is shown, but what is printed is\n{printed}")
        units[0].remove(fitting[0])
        found.append(fitting[0])
        if not units[0]:
            del units[0]
        # The rest of a table may be omitted if other rows of it were.
        anywhere = anywhere and line.startswith(ROW)
    if units and not anywhere:
        raise ValueError(f"'{units[0][0]}' is printed, but not shown")
    return found


def numbers_of(line: str) -> list[float]:
    """Return the numbers of a line.

    >>> numbers_of("of 1,200 rows −.5 is 3 %")
    [1200.0, -0.5, 3.0]
    """
    return [float(n.replace(",", "").replace("−", "-")) for n in NUMBER.findall(line)]


def check_shown(shown: str, printed: str) -> None:
    """Raise ValueError if the shown output differs from the printed one."""
    wanted = shown.rstrip().splitlines()
    for line, other in zip(wanted, find_lines(shown, printed), strict=True):
        if ANY in line:
            continue
        for a, b in zip(numbers_of(line), numbers_of(other), strict=True):
            if abs(a - b) > NEAR * max(1, abs(a)):
                raise ValueError(f"'{line}' is shown, but '{other}' is printed")


def renewed(page: str, outputs: Sequence[str]) -> str:
    """Return a page with its output replaced by what its blocks print now."""
    for block, printed in reversed(list(zip(code_blocks(page), outputs, strict=True))):
        if block.shown is None:
            continue
        lines = printed.rstrip().splitlines()
        if block.shown.strip():
            old = block.shown.rstrip().splitlines()
            new = find_lines(block.shown, printed)
            lines = [a if ANY in a else b for a, b in zip(old, new, strict=True)]
        start, end = block.span
        text = "\n".join(line.rstrip() for line in lines)
        page = f"{page[:start]}{text}\n{page[end:]}"
    return page


def run_page(path: Path) -> list[str]:
    """Run a page in a temporary folder; return the output of each block."""
    blocks = code_blocks(path.read_text("utf-8"))
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("documented.py").write_text(module_of(blocks), "utf-8")
        with contextlib.redirect_stdout(printed):
            runpy.run_path("documented.py", run_name="documented")
    return printed_by(blocks, printed.getvalue())


if __name__ == "__main__":
    sys.modules["executed"] = sys.modules["__main__"]
    for name in sys.argv[1:]:
        page = Path(name)
        page.write_text(renewed(page.read_text("utf-8"), run_page(page)), "utf-8")
