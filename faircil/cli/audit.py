"""``faircil audit``: how fairly a table of predictions treats people, and a gate on it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from faircil.beginning import COUNTS, TABLES
from faircil.cli.common_options import add_worker_arguments, begin_early, check_workers, workers
from faircil.cli.console import json_text, make_console, print_json, say, say_notes, show_table
from faircil.files import refuse_input

if TYPE_CHECKING:
    from faircil.auditing import Audit, Gate
    from faircil.engines import Engine
    from faircil.report import Table

EPILOG = """examples:
  faircil audit predictions.csv --truth y --prediction p --sensitive sex race
  faircil audit predictions.parquet --truth y --prediction p --sensitive sex --favoured hired
  faircil audit predictions/ --truth y --prediction p --sensitive sex --jobs 4
  faircil audit new.csv --against old.csv --truth y --prediction p --sensitive sex
  faircil audit predictions.csv --truth y --prediction p --sensitive sex \\
      --fail-on "eo_gap>0.10" "worst_group<0.7" --junit gate.xml --markdown gate.md
  faircil predict model --data new.csv --keep job sex -o predictions.csv &&
      faircil audit predictions.csv --truth job --prediction prediction --sensitive sex
  faircil audit runs/biased-digits/fsw-eo-1234/seed-0
  faircil audit model --data test.csv --remember

The folder of a run needs no columns: its predictions after the last task are audited. Nor does a
model: it predicts the rows of a table that it has not learned. Intervals have a confidence of 95 %.
"By chance" is what a system without any difference would show at these sizes. A gate fails only if
the whole interval is beyond the limit. Exit codes of a gate: 0 passes, 3 fails, 4 cannot tell
(unless --cannot-tell is pass or fail). Only you can read the files of --out; those of --markdown
and --junit follow your umask.
"""

KNOWN_TO_MODELS = ("truth", "prediction", "sensitive", "task", "favoured")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="table of predictions, folder of such tables, run folder or model folder",
    )
    parser.add_argument(
        "--data", type=Path, metavar="FILE", help="if FILE is a model: rows that it has not learned"
    )
    parser.add_argument(
        "--remember",
        action="store_true",
        help="store the result in the model and its card",
    )
    parser.add_argument("--truth", metavar="COLUMN", help="the true class")
    parser.add_argument(
        "--prediction",
        metavar="COLUMN",
        help="the predicted class; faircil predict writes it to the column prediction",
    )
    parser.add_argument(
        "--sensitive",
        nargs="+",
        default=[],
        metavar="COLUMN",
        help="sensitive attributes: each is audited, and their intersection (default: none, only "
        "classes are compared)",
    )
    parser.add_argument(
        "--task",
        metavar="COLUMN",
        help="task number of each row's class: accuracy is then averaged over tasks",
    )
    parser.add_argument(
        "--favoured", nargs="+", metavar="CLASS", help="classes that people want, for eopp"
    )
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="an earlier table, run or model to compare with",
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=2000,
        metavar="N",
        help="random draws that intervals are computed from (default: 2000)",
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of the draws (default: 0)"
    )
    add_worker_arguments(parser)
    gate = parser.add_argument_group("gate")
    gate.add_argument(
        "--fail-on",
        nargs="+",
        action="extend",
        default=[],
        metavar="CONDITION",
        help='results that are not acceptable, such as "eo_gap>0.10" or "eo_gap[sex]>0.10"',
    )
    gate.add_argument(
        "--cannot-tell",
        choices=["report", "pass", "fail"],
        default="report",
        help="verdict if the interval contains the limit (default: report, exit code 4)",
    )
    gate.add_argument("--junit", type=Path, metavar="FILE", help="write the gate as JUnit XML")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    output.add_argument("--markdown", type=Path, metavar="FILE", help="write Markdown there")
    output.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="write audit.json and audit.md there"
    )


def command(arguments: argparse.Namespace) -> int:
    """Run the audit, print and write it; return the exit code of the gate."""
    begin_early(arguments, COUNTS if arguments.data is None else TABLES)
    from faircil.auditing.audit_files import audit_document
    from faircil.auditing.gate import decide
    from faircil.auditing.words import (
        audit_markdown,
        audit_sentences,
        audit_tables,
        before_and_after,
        gate_sentences,
        levelling_sentence,
    )

    paths = (arguments.file, arguments.against, arguments.data)
    given = [path for path in paths if path is not None]
    for path, kind in _files(arguments).items():
        # An audit may be stored next to its run or model, and replaced there.
        again = kind != "junit" and path.parent == arguments.out
        refuse_input(path, *(one for one in given if not (again and one.is_dir())))
    audits = _audits(arguments)
    report = audits[0].report()
    gate = None
    if arguments.fail_on:
        gate = decide(report, arguments.fail_on, cannot_tell=arguments.cannot_tell)
    before = audits[1].report() if len(audits) > 1 else None
    levelled = audits[0].levelled_down(audits[1]) if before is not None else ()
    earlier = None if before is None else (arguments.against, before, levelled)
    document = audit_document(arguments.file, arguments.typed, report, gate, earlier)
    tables = (
        audit_tables(report)
        if before is None
        else [*audit_tables(report), before_and_after(before, report)]
    )
    told = [*audit_sentences(report), *map(levelling_sentence, levelled), *gate_sentences(gate)]
    heading = f"{report.n:,} samples of {arguments.file}"
    _write(arguments, document, audit_markdown(heading, tables, told), gate)
    if arguments.json:
        print_json(document)
    else:
        _show(heading, tables, told)
    return 0 if gate is None else gate.exit_code


def _audits(arguments: argparse.Namespace) -> list[Audit]:
    """Read the tables; raise an error with all mistakes in the call and in the tables."""
    from faircil.auditing.gate import misfits as without_finding, parse_conditions
    from faircil.errors import DataError, UsageError, collecting, raise_all

    misfits = _misfits(arguments)
    mistakes = [*misfits]
    conditions = parse_conditions(arguments.fail_on, mistakes)
    if arguments.truth is not None:  # runs and models have their own attributes
        mistakes += without_finding(conditions, arguments.sensitive, arguments.favoured)
    if arguments.junit is not None and not arguments.fail_on:
        mistakes.append("--junit writes the result of a gate; give conditions with --fail-on")
    known = len(mistakes)
    check_workers(arguments, mistakes)
    audits: list[Audit] = []
    faults: list[str] = []
    audited = _audit_model if arguments.data is not None else _audit_predictions
    if not misfits and len(mistakes) == known:
        with workers(arguments) as engine:
            for path in (arguments.file, arguments.against):
                if path is None:
                    continue
                try:
                    with collecting(mistakes):
                        made = audited(arguments, path, engine)
                        faults += made.mistakes()
                        audits.append(made)
                except DataError as error:
                    faults += map(str, error.args)
    every = list(dict.fromkeys([*mistakes, *faults]))
    raise_all(every, UsageError if mistakes else DataError)
    return audits


def _misfits(arguments: argparse.Namespace) -> list[str]:
    """Return which options do not apply to what is audited."""
    from faircil.model.saved import CONTENT

    if (arguments.file / CONTENT).is_file():
        given = [name for name in KNOWN_TO_MODELS if getattr(arguments, name)]
        flags = ", ".join(f"--{name}" for name in given)
        mistakes = [f"{flags}: the model already defines this; leave it out"] if given else []
        if arguments.data is None:
            mistakes.append(
                f"{arguments.file} is a model: give rows that it has not learned with --data FILE"
            )
        return mistakes
    given = [f"--{name}" for name in ("data", "remember") if getattr(arguments, name)]
    said = f"{', '.join(given)}: only a model takes this, and there is none in {arguments.file}"
    return [said] if given else []


def _audit_predictions(arguments: argparse.Namespace, path: Path, engine: Engine) -> Audit:
    from faircil.auditing.reading import RUN_ATTRIBUTE, audit_file

    return audit_file(
        path,
        truth=arguments.truth,
        prediction=arguments.prediction,
        sensitive=arguments.sensitive,
        task=arguments.task,
        favoured=arguments.favoured,
        draws=arguments.draws,
        seed=arguments.seed,
        run_attribute=RUN_ATTRIBUTE if arguments.truth else _run_attribute(path),
        engine=engine,
    )


def _run_attribute(path: Path) -> str:
    """Return the name of a run's attribute, if it is a run that states one."""
    from faircil.auditing.reading import RUN_ATTRIBUTE
    from faircil.results.run_files import read_names

    run = path if path.is_dir() else path.parent
    names = read_names(run) if (run / "summary.json").is_file() else None
    return (names.attribute if names else None) or RUN_ATTRIBUTE


def _audit_model(arguments: argparse.Namespace, path: Path, engine: Engine) -> Audit:
    """Let a model predict rows that it has not learned, and audit the predictions."""
    from faircil.cli.progress import learning
    from faircil.model.card import audit_of
    from faircil.model.saved import changing, check_there, load_model, save_model
    from faircil.model.table_models import measure_table

    check_there(path)
    remembered = arguments.remember and path == arguments.file
    with changing(path) if remembered else nullcontext():
        model = load_model(path)
        with learning(str(arguments.data), arguments.json, "predicting") as watcher:
            measured, notes = measure_table(model, arguments.data, engine=engine, watcher=watcher)
        if not arguments.json:
            say_notes(notes)
        made = audit_of(model, measured, arguments.draws, arguments.seed)
        if remembered:
            save_model(model, path)
    return made


def _show(heading: str, tables: Sequence[Table], told: Sequence[str]) -> None:
    from faircil.auditing.words import EXPLAINED

    console = make_console()
    console.print(Text(heading, style="bold"))
    for table in tables:
        show_table(table)
    for line in (*told, EXPLAINED):
        console.print(Text(line), soft_wrap=True)


def _files(arguments: argparse.Namespace) -> dict[Path, str]:
    """Return the files to write, with their contents."""
    from faircil.auditing.audit_files import KEPT, KEPT_PAGE

    files: dict[Path, str] = {}
    if arguments.markdown is not None:
        files[arguments.markdown] = "markdown"
    if arguments.out is not None:
        files |= {arguments.out / KEPT: "json", arguments.out / KEPT_PAGE: "markdown"}
    if arguments.junit is not None:
        files[arguments.junit] = "junit"
    return files


def _write(
    arguments: argparse.Namespace, document: dict[str, Any], markdown: str, gate: Gate | None
) -> None:
    from faircil.errors import StorageError
    from faircil.files import make_private, replacing, write_private

    texts = {"markdown": markdown, "json": json_text(document) + "\n"}
    if gate is not None:
        texts["junit"] = gate.as_junit()
    files = _files(arguments)
    for path, kind in files.items():
        try:
            if path.parent == arguments.out:  # stored; the others are pages for further readers
                make_private(path.parent)
                write_private(path, texts[kind])
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                with replacing(path, private=False) as partial:
                    partial.write_text(texts[kind], encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"cannot write {path}: {error.strerror or error}; choose another place"
            ) from None
    if files:
        say(f"saved: {', '.join(map(str, files))}")
