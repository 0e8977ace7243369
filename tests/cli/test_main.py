from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from importlib import metadata
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import faircil
from cli_outcome import Cli
from faircil.cli import COMMANDS, filled, main


def program(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS), ("data", "fetch")])
def test_help_fits_a_terminal_of_80_columns(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    assert stopped.value.code == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(" ".join(["usage: faircil", *command]))
    assert captured.err == ""
    assert [line for line in captured.out.splitlines() if len(line) > 80] == []


def test_without_a_command_there_is_help(cli: Cli) -> None:
    outcome = cli()
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("usage: faircil")
    assert "Start with `faircil demo`" in outcome.err


def test_a_long_example_is_cut_before_an_option_and_pastes_as_it_was() -> None:
    line = "  faircil audit p.csv --truth y \\\n      --fail-on 'eo_gap > 0.1' --sensitive sex race"
    shown = filled(f"examples:\n{line}", 40)
    assert shown.splitlines()[1:] == [
        "  faircil audit p.csv --truth y \\",
        "      --fail-on 'eo_gap > 0.1' \\",
        "      --sensitive sex race",
    ]
    pasted, meant = (text.replace("\\\n", "") for text in (shown.partition("\n")[2], line))
    assert shlex.split(pasted) == shlex.split(meant)


def test_packages_add_commands(tmp_path: Path) -> None:
    (tmp_path / "greeting.py").write_text(
        "EPILOG = None\n"
        "def add_arguments(parser): parser.add_argument('name')\n"
        "def command(arguments): print('hello', arguments.name)\n"
    )
    info = tmp_path / "greeting-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[faircil.commands]\ngreet = greeting\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom faircil.cli import main\n"
    assert program(code + "main(['greet', 'Ada'])").stdout == "hello Ada\n"
    listing = "try: main(['--help'])\nexcept SystemExit: print('greeting' in sys.modules)"
    assert "greet " in program(code + listing).stdout
    assert program(code + listing).stdout.endswith("False\n")


@pytest.mark.parametrize("arguments", [["reproduce", "--list"], ["bench", "lp"], ["bench"]])
def test_commands_of_the_laboratory_say_how_to_install_it(
    cli: Cli, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "entry_points", lambda **_: ())
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert "pip install ./lab" in outcome.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"faircil {faircil.__version__}\n"


def test_the_entry_point_runs_main(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (point,) = entry_points(group="console_scripts", name="faircil")
    monkeypatch.setattr(sys, "argv", ["faircil", "--version"])
    with pytest.raises(SystemExit) as stopped:
        point.load()()
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"faircil {faircil.__version__}\n"


def test_neither_import_nor_help_loads_torch() -> None:
    code = (
        "import sys, faircil, faircil.cli\n"
        "try: faircil.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print('loaded:', {'torch', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules))"
    )
    assert program(code).stdout.endswith("loaded: set()\n")


def test_compare_does_not_load_torch(tmp_path: Path) -> None:
    code = (
        f"import sys, faircil.cli\nfaircil.cli.main(['compare', {str(tmp_path)!r}])\n"
        "print('torch' in sys.modules)"
    )
    assert program(code).stdout == "False\n"


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break in another way there")
@pytest.mark.parametrize(
    "command", [["list", "metrics"], ["compare", "runs", "--markdown"], ["--help"]]
)
def test_reader_that_stops_reading_is_no_error_of_ours(
    cli: Cli, command: list[str], tmp_path: Path
) -> None:
    if "runs" in command:
        cli("run", "--method", "fsw", "--dataset", "toy", "--set", "epochs=1")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "faircil", *command],
        stdout=write,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        text=True,
        check=False,
    )
    os.close(write)
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_device_is_told(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "faircil", "list", "measures"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the output cannot be read or written: No space left")
    assert len(done.stderr.splitlines()) == 1


class FullDevice(io.TextIOWrapper):
    """A stream that nothing can be written to."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_messages_that_cannot_be_written_do_not_cost_a_run(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stderr", FullDevice(io.BytesIO()))
    code = main(["run", "--dataset", "toy", "--method", "er", "--set", "epochs=1", "--out", "kept"])
    assert code == 0
    assert (tmp_path / "kept/seed-0/summary.json").exists()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_streams_that_are_closed(stream: str, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, stream, None)
    assert main(["list", "measures"]) == 0
    assert main(["list", "nothing"]) == 2
    getattr(sys, stream).close()


def test_terminal_without_unicode(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert main(["list", "datasets"]) == 0
    assert b"16 ? 16" in written.getvalue()
