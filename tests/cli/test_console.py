from __future__ import annotations

import pytest
from rich.console import Console

import faircil.cli.console
from faircil.cli import flags_of, parse, with_flags
from faircil.cli.console import say, show_columns, show_table
from faircil.report import Cell, Table

TABLE = Table(
    "numbers",
    ("method", "accuracy", "eer"),
    (
        (Cell("er"), Cell(".900 ± .001", best=True), Cell(".100")),
        (Cell("fsw lam=0.5"), Cell(".800 ± .002"), Cell("–")),
    ),
    ranked=True,
)


def test_table_with_a_star_and_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(TABLE)
    out = capsys.readouterr().out
    assert "│ er          │ .900 ± .001 * │ .100 │" in out
    assert "│ fsw lam=0.5 │   .800 ± .002 │    – │" in out
    assert out.splitlines()[-1] == (
        "*: significantly better than all others (paired t-test over at least 3 common seeds, "
        "Holm, 5 %)"
    )


def test_those_among_the_best_have_another_mark(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(Table("numbers", ("method", "eer"), ((Cell("er"), Cell(".1", among_best=True)),)))
    out = capsys.readouterr().out
    assert "│ er     │ .1 ° │" in out
    assert "°: the best mean and the next ones, down to the first that is significantly" in out
    assert "*" not in out


def test_best_is_bold_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        faircil.cli.console,
        "make_console",
        lambda: Console(force_terminal=True, color_system="standard", width=80),
    )
    show_table(TABLE)
    out = capsys.readouterr().out
    assert "\x1b[1m.900 ± .001 *" in out
    assert "\x1b[1m.800" not in out


def test_table_without_a_ranking_has_no_caption(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(Table("numbers", ("seed", "eer"), ((Cell("0"), Cell(".1")),)))
    assert capsys.readouterr().out.rstrip().endswith("┘")


def test_wide_output_into_a_file_is_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    cells = tuple(Cell(f"value {number:04}") for number in range(20))
    show_table(Table("wide", tuple(f"name {number:04}" for number in range(20)), (cells,)))
    out = capsys.readouterr().out
    assert all(cell.text in out for cell in cells)
    assert "…" not in out


def test_narrow_terminal_gets_the_table_in_parts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faircil.cli.console, "make_console", lambda: Console(width=32))
    show_table(TABLE)
    out = capsys.readouterr().out
    assert out.count("fsw lam=0.5") == 2
    assert out.count("numbers") == 1
    for text in (".900 ± .001 *", ".800 ± .002", ".100"):
        assert text in out


def test_brackets_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    say("error: [bold]x[/] :smile:")
    show_columns("title", ("name",), [("[red]y",)])
    captured = capsys.readouterr()
    assert captured.err == "error: [bold]x[/] :smile:\n"
    assert "[red]y" in captured.out


def test_long_messages_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say("word " * 100)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("choose another folder with `folder`", "choose another folder with --out"),
        ("use `measure='eer'`, or `sensitive`", "use --measure eer, or --sensitive"),
        ("give your own data with `own`", "give your own data with --data FILE --label COLUMN"),
        ("choose fewer with `overrides`", "choose fewer with --set"),
        ("use `again=True` or fewer `jobs`", "use --force or fewer --jobs"),
        ("lower it with `lr=0.1`", "lower it with --set lr=0.1"),
        ("hold some out with `held_out=32`", "hold some out with --held-out 32"),
        ("run `faircil data fetch drug`, see `tau`", "run `faircil data fetch drug`, see `tau`"),
    ],
)
def test_parameters_in_messages_become_options(message: str, shown: str) -> None:
    assert with_flags(message, flags_of(parse(["run"]).parser)) == shown


@pytest.mark.parametrize(
    ("command", "message", "shown"),
    [
        ("tune", "use `objective='accuracy - eer'`", "use --objective 'accuracy - eer'"),
        ("tune", "leave `lr` out of `fixed`, `tried`", "leave `lr` out of --set, --try"),
        ("tune", "give a seed with `seeds`", "give a seed with --seeds"),
        ("postprocess", "another `folder`, `lr=0.1`", "another --out, `lr=0.1`"),
        ("compare runs", "use `held_out=32`, `folder`", "use `held_out=32`, `folder`"),
    ],
)
def test_a_command_has_only_its_own_options(command: str, message: str, shown: str) -> None:
    assert with_flags(message, flags_of(parse(command.split()).parser)) == shown


def test_names_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b]52;c;eA==\x07[red]b\x9b31m"
    say(hostile)
    show_columns(hostile, (hostile,), [(hostile,)])
    show_table(Table(hostile, (hostile,), ((Cell(hostile),),)))
    captured = capsys.readouterr()
    assert captured.err == "a\ufffd]52;c;eA==[red]b\ufffd31m\n"  # rich drops the bell itself
    assert "\x1b" not in captured.out
    assert "\x9b" not in captured.out
    assert captured.out.count("[red]b") == 6
