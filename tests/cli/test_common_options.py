from __future__ import annotations

import argparse

import pytest

from faircil.cli.common_options import add_own_arguments, own_data
from faircil.data.own import OwnData


def read(*arguments: str) -> tuple[OwnData | None, list[str]]:
    parser = argparse.ArgumentParser()
    add_own_arguments(parser.add_argument_group())
    mistakes: list[str] = []
    return own_data(parser.parse_args(arguments), mistakes), mistakes


@pytest.mark.parametrize(
    ("arguments", "own"),
    [
        ([], None),
        (["--data", "a.csv", "--label", "y"], OwnData("a.csv", "y")),
        (["--data", "a.csv", "--label", "y", "--text", "bio"], OwnData("a.csv", "y", text="bio")),
        (
            ["--data", "a.csv", "--label", "y", "--sensitive", "s", "t", "--test-share", "0.2"],
            OwnData("a.csv", "y", ("s", "t"), test_share=0.2),
        ),
    ],
)
def test_options_become_roles(arguments: list[str], own: OwnData | None) -> None:
    assert read(*arguments) == (own, [])


def test_a_text_column_is_for_own_data() -> None:
    assert read("--text", "bio") == (None, ["`text`: for your own data, given with --data FILE"])
