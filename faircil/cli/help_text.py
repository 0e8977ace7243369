"""Help as wide as the terminal: paragraphs are filled, and long examples go on in a new line."""

from __future__ import annotations

import argparse
import re
import textwrap
from itertools import groupby

# A word of a shell, in which quoted blanks do not split, or an option and its first word.
PIECE = re.compile(r"""(?:-[-a-z]+ )?(?:"[^"]*"|'[^']*'|[^\s"'])+""")


class Formatter(argparse.HelpFormatter):
    """Help whose epilogs keep their examples, and whose names do not break at hyphens."""

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
    text = re.sub(r" \\\n +", " ", text)  # examples are cut where this width wants it
    for example, block in groupby(text.splitlines(), key=lambda line: line.startswith(" ")):
        if example:
            lines += [part for line in block for part in _example(line, width)]
            continue
        for empty, paragraph in groupby(block, key=lambda line: not line.strip()):
            words = " ".join(paragraph)
            lines += [""] if empty else textwrap.wrap(words, width, break_on_hyphens=False)
    return "\n".join(lines)


def _example(line: str, width: int) -> list[str]:
    """Cut a command at its blanks, with a backslash at the end of each line but the last."""
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
