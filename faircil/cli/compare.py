"""``faircil compare`` and ``faircil report``: runs as a table, runs and audits as a page."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli import Parts
from faircil.cli.console import say, show_table
from faircil.errors import UsageError

if TYPE_CHECKING:
    from faircil.auditing.audit_files import KeptAudit
    from faircil.report.sections import AuditRow
    from faircil.results.record import RunSummary


PAGES = (".html", ".htm")  # allowed endings of a page, so that no other file is replaced


def _add_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="folders with runs")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")


def _table(arguments: argparse.Namespace) -> None:
    """Print one table for each set of comparable runs."""
    from faircil.report import as_markdown, compare, in_markdown, legend
    from faircil.results.folder import find_runs

    for found in compare(find_runs(arguments.runs)):
        if arguments.markdown:
            # In Markdown, a separate line is a paragraph.
            lines = map(in_markdown, legend(found).splitlines())
            explained = "".join(f"\n{line}\n" for line in lines)
            print(f"### {in_markdown(found.title)}\n\n{as_markdown(found)}{explained}")  # noqa: T201
        else:
            show_table(found)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUNS_OR_AUDIT",
        help="folders with runs, and folders that faircil audit -o has written",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="file to write (default: report.html)",
    )


def _report(arguments: argparse.Namespace) -> None:
    """Write the page, and report its path."""
    from faircil.auditing.audit_files import is_audit, read_audit
    from faircil.errors import DataError, raise_all
    from faircil.results.folder import find_runs

    if arguments.out.suffix.lower() not in PAGES:
        raise UsageError(
            f"--out is {arguments.out}; expected a name that ends in {' or '.join(PAGES)}"
        )
    audits: list[KeptAudit] = []
    mistakes: list[str] = []
    for path in filter(is_audit, arguments.runs):
        try:
            audits.append(read_audit(path))
        except DataError as error:
            mistakes += map(str, error.args)
    raise_all(mistakes, DataError)
    folders = [path for path in arguments.runs if not is_audit(path)]
    runs = find_runs(folders) if folders else []
    size = write_report(runs, arguments.out, arguments.typed, audits)
    say_report(arguments.out, size)


def say_report(path: Path, size: int) -> None:
    """Report the path and size of a page."""
    say(f"report: {path} ({size / 1e6:.1f} MB); open it in a browser")


def write_report(
    runs: Sequence[RunSummary], out: Path, typed: str, audits: Sequence[KeptAudit] = ()
) -> int:
    """Write a page about runs and audits as a file; return its size in bytes.

    Parameters
    ----------
    runs : sequence of RunSummary
    out : Path
    typed : str
        The command that generates the page, to repeat it.
    audits : sequence of KeptAudit
    """
    from faircil.auditing.audit_page import audit_part
    from faircil.errors import StorageError
    from faircil.files import replacing
    from faircil.report.sections import report_page
    from faircil.report.study import studies_of
    from faircil.results.record import version
    from faircil.weighting.measures import find_measure

    shown = {str(run.config["measure"]) for run in runs}
    studies = studies_of(runs, {name: find_measure(name).shown for name in shown})
    alone = len(audits) == 1 and not runs
    parts = [audit_part(one, place, alone=alone) for place, one in enumerate(audits, start=1)]
    made = f"Made by faircil {version()} with: {typed}"
    text = report_page(studies, _audits(runs), made, parts)
    content = text.encode("utf-8", errors="replace")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out, private=False) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise StorageError(
            f"cannot write the report to {out}: {error.strerror or error}; give another file with "
            "`out`"
        ) from None
    return len(content)


def _audits(runs: Sequence[RunSummary]) -> dict[str, list[AuditRow]]:
    """Audit the final predictions of the first seed of each configuration that has them."""
    from faircil.auditing.audit_page import audit_rows
    from faircil.auditing.reading import PREDICTIONS, audit_file

    first: dict[str, RunSummary] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        first.setdefault(str(Path(run.dir).parent), run)
    found: dict[str, list[AuditRow]] = {}
    for run in [one for one in first.values() if (Path(one.dir) / PREDICTIONS).is_file()]:
        title = f"{run.config['dataset']}, {run.label}, seed {run.seed}, after its last task"
        if title in found:  # other settings of the same method
            title += f" ({Path(run.dir).parent.name})"
        made = audit_file(Path(run.dir), run_attribute=_attribute(run))
        found[title] = audit_rows(made.report())
    return found


def _attribute(run: RunSummary) -> str:
    """Return the name of a run's attribute; runs of earlier versions do not state it."""
    return (run.names.attribute if run.names else None) or "attribute"


table = Parts(
    """examples:
  faircil compare runs/mnist
  faircil compare runs/mnist/er-eer-* runs/mnist/fsw-eer-* --markdown

A method is marked best only where it is significantly better than every other one: paired t-test
over at least 3 common seeds, Holm, 5 %. joint and finetune are references and not ranked. Runs
with another sensitive attribute, other tasks or other test data are shown in separate tables.
""",
    _add_table,
    _table,
)
report = Parts(
    """examples:
  faircil report runs/biased-digits
  faircil report runs/mnist/er-eer-* runs/mnist/fsw-eer-* -o mnist.html
  faircil audit predictions.csv --truth y --prediction p --sensitive sex -o audited &&
      faircil report audited -o audit.html

The page needs no network and no script: open it in a browser, print it, or hand it over. Methods
are compared with plain replay (er) where it is among the runs; `faircil run --baseline er` runs it
beside a method.
""",
    _add_report,
    _report,
)
