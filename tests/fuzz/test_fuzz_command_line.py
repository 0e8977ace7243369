"""Fuzzing of the command line: words of every command, right ones, nearly right ones and odd ones.

What would train for long, or reach for the network, gets one mistake more: `run` on other data,
`tune`, `demo` and `data fetch` end before they begin.
"""

from __future__ import annotations

import argparse
import os
import shutil
from functools import cache
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st

from faircil.cli import COMMANDS, Parser, _parts_of as parts_of, add_command, main
from fuzzing import WORDS, Harness, few_and_thousands, scratch_folder, silent
from spoilt_files import write_tables

HOME = scratch_folder()
COLUMNS = ["a", "b", "job", "sex", "guess", "JOB", "nowhere"]
VALUES = st.one_of(
    st.sampled_from(COLUMNS),
    st.sampled_from(["t.csv", "t.parquet", "t.npz", "t.tsv", "model", "nothing.csv", ".", "out"]),
    st.sampled_from(["0", "1", "-1", "0.5", "nan", "inf", "1e309", "9" * 30, "١", "0x10", "2.5"]),
    st.sampled_from(
        ["moments", "er", "eo", "eer", "toy-groups", "none", "auto", "cpu", "eo_gap>0.1"]
    ),
    st.sampled_from(["width=8", "lr=1e400", "lr=", "=", "epochs=0", "x,y|z", "|", "@t.csv", "@x"]),
    WORDS.filter(lambda text: "\0" not in text),
)


@cache
def options_of(command: str) -> list[argparse.Action]:
    """Return the options of a command."""
    subparsers = Parser(prog="faircil").add_subparsers()
    add_command(subparsers, command, parts_of(str(COMMANDS[command].module)), "does")
    return [one for one in subparsers.choices[command]._actions if one.dest != "help"]


def option(action: argparse.Action) -> st.SearchStrategy[list[str]]:
    """Draw an option with as many values as it takes, or with others."""
    values = VALUES
    if action.choices is not None:
        values = st.one_of(st.sampled_from(list(map(str, action.choices))), VALUES)
    most = 0 if action.nargs == 0 else 2 if action.nargs in ("+", "*") else 1
    usual = st.lists(values, min_size=most and 1, max_size=most)
    flag = list(action.option_strings[-1:])
    return st.one_of(usual, usual, usual, st.lists(values, max_size=2)).map(lambda w: [*flag, *w])


RUN = "--data t.csv --label job --sensitive sex --ignore guess --set width=8"
# Lines that are right, of which words are left out, doubled and replaced.
RIGHT = {
    "audit": ["t.csv --truth job --prediction guess --sensitive sex --draws 100"],
    "fit": [
        f"{RUN} --force --method moments --out model",
        f"{RUN} --force --plan-only --out plan",
        "--like plan --data t.csv --moments-only --out site --force",
    ],
    "update": ["model --data t.csv"],
    "predict": ["model --data t.csv --out out.csv --force"],
    "forget": ["model --data t.csv"],
    "merge": ["site --out merged --force", "site other --out merged --force"],
    "show": ["model", "plan", "merged"],
    "diagnose": ["--data t.csv --label job --sensitive sex --ignore guess"],
    "run": [f"{RUN} --method moments --held-out 1 --out out"],
    "compare": ["out"],
    "report": ["out --out page.html"],
    "postprocess": ["out"],
    "list": ["measures"],
    "tune": ["--dataset toy --method er --trials 2"],
    "demo": ["--seeds 0"],
    "data": ["list", "check mnist", "fetch mnist"],
}
# What ends a line before it trains or fetches, if it is one that would.
MISTAKES = {
    "run": ["--dataset", "nothing"],
    "tune": ["--dataset", "nothing"],
    "demo": ["--nothing"],
    "data": ["--nothing"],
}


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(sorted(COMMANDS)))
    words = draw(st.sampled_from(RIGHT[command])).split()
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(words)))
        kind = draw(st.sampled_from(["option", "option", "value", "remove", "double"]))
        if kind == "option":
            words += draw(st.sampled_from(options_of(command)).flatmap(option))
        elif kind == "value":
            words[at : at + 1] = [draw(VALUES)]
        elif kind == "remove":
            del words[at : at + 1]
        else:
            words[at:at] = words[at : at + 2]
    first = draw(st.sampled_from([command] * 20 + ["", "--version", "fitt", "--help", "-x"]))
    return [first, *words]


def slow(words: list[str]) -> bool:
    """Whether a line may train on data of others, for long, or fetch something."""
    long = (
        "toy",
        "digits",
        "mnist",
        "drug",
        "bios",
        "--text",
        "--images",
        "--jobs",
        "--seeds",
        "--track",
    )
    big = any(word.isdecimal() and int(word) > 10**6 for word in words if word.isascii())
    if words[0] == "data":
        return "fetch" in words or not {"list", "check"}.intersection(words)
    others = any(word.startswith(long) for word in words) or "moments" not in words or big
    return words[0] in ("tune", "demo") or (words[0] == "run" and others)


# Makes what other lines begin with.
MADE = [
    "fit --data t.csv --label job --sensitive sex --ignore guess --set width=8 --out model",
    "fit --data t.csv --label job --sensitive sex --set width=8 --plan-only --out plan",
    "update model --data t.csv",
    "fit --like plan --data t.csv --moments-only --out site",
    "fit --like plan --data t.tsv --moments-only --out other",
    "merge site --out merged",
    f"run {RIGHT['run'][0]}",
]


@cache
def beginning() -> tuple[Path, dict[str, bytes]]:
    """Return a folder of tables, models and a run, and the bytes of the tables by name."""
    folder = scratch_folder()
    before = write_tables(folder)
    for line in MADE:
        code, said = ended_with(line.split(), folder)
        assert code == 0, (line, said)
    return folder, before


def ended_with(words: list[str], folder: Path) -> tuple[int, str]:
    """Return the exit code of a line in a folder, and what it printed."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        with silent() as printed, mock.patch.dict(os.environ, {"FAIRCIL_DATA": str(folder)}):
            try:
                code = main(words)
            except SystemExit as end:  # of --help and --version
                code = int(end.code or 0)
    finally:
        os.chdir(here)
    return code, printed.getvalue()


def check_line(words: list[str]) -> None:
    made, before = beginning()
    shutil.rmtree(HOME)
    shutil.copytree(made, HOME)  # so that a case does not depend on those before
    if slow(words):
        words = [*words, *MISTAKES[words[0]]]
    code, printed = ended_with(words, HOME)
    assert code in (0, 1, 2, 3, 4), code
    assert code == 0 or printed.strip()
    assert {name: (HOME / name).read_bytes() for name in before} == before


HARNESSES = {
    "command line": Harness(lines(), check_line, short=20),
}
test_a_few_cases, test_thousands_of_cases = few_and_thousands(HARNESSES)
