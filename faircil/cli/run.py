"""``faircil run``: train a method over a stream of tasks, for several seeds."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from faircil.cli.console import reporting, say, show_table
from faircil.cli.seeds import parse_seeds
from faircil.errors import UsageError

if TYPE_CHECKING:
    from faircil.config import RunConfig
    from faircil.results.summary import RunSummary

HELP = "train a method over a stream of tasks and measure accuracy and fairness"
EPILOG = """examples:
  faircil run --dataset biased-digits --method fsw
  faircil run --dataset mnist --method fsw --measure eer --seeds 0-4 --set tau=10 alpha=0.001 lam=1
  faircil run --dataset biased-mnist --method er --weighting random --measure eo
  faircil run --data mine.csv --label job --sensitive sex race --tasks "nurse,surgeon|poet,judge"

`faircil list` shows datasets, methods, measures, weightings and settings.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    what = parser.add_argument_group("what to run")
    what.add_argument("--dataset", metavar="NAME", help="a dataset by name")
    what.add_argument("--method", metavar="NAME", default="fsw", help="learner (default: fsw)")
    what.add_argument(
        "--weighting",
        metavar="NAME",
        help="weights of the current samples: fsw, random, balanced or none",
    )
    what.add_argument(
        "--measure",
        metavar="NAME",
        help="fairness measure (default: eo with an attribute, else eer)",
    )
    what.add_argument("--seeds", default="0", metavar="LIST", help="3, 0-4 or 0,2,5 (default: 0)")
    what.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings"
    )
    own = parser.add_argument_group("own data, instead of --dataset")
    own.add_argument("--data", metavar="FILE", help="a .csv or .npz file")
    own.add_argument("--label", metavar="COLUMN", help="column of the class")
    own.add_argument(
        "--sensitive", nargs="+", default=[], metavar="COLUMN", help="sensitive attributes"
    )
    own.add_argument(
        "--tasks", metavar="CLASSES", help="'a,b|c,d' (default: two per task in sorted order)"
    )
    own.add_argument(
        "--use-sensitive", action="store_true", help="use the sensitive columns as features too"
    )
    own.add_argument("--test-column", metavar="COLUMN", help="column that marks the test rows")
    own.add_argument(
        "--test-share", type=float, default=None, metavar="SHARE", help="else drawn (default: 0.3)"
    )
    how = parser.add_argument_group("how to run and what to keep")
    how.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    how.add_argument("--out", type=Path, metavar="DIR", help="folder (default: below runs/)")
    how.add_argument("--force", action="store_true", help="replace what the folder holds")
    how.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    how.add_argument("--quiet", action="store_true", help="no progress")


def command(arguments: argparse.Namespace) -> None:
    """Run all seeds and print the result."""
    from faircil.report import seed_table
    from faircil.results.summary import as_document

    seeds = parse_seeds(arguments.seeds)
    config = _config(arguments)
    runs = run_seeds(
        config,
        seeds,
        out=arguments.out,
        device=arguments.device,
        force=arguments.force,
        quiet=arguments.quiet,
    )
    if arguments.json:
        print(json.dumps(as_document(runs), indent=2, ensure_ascii=False))  # noqa: T201
    else:
        show_table(seed_table(runs))
        say(f"saved in {Path(runs[0].dir).parent}")


def run_seeds(
    config: RunConfig,
    seeds: list[int],
    *,
    out: Path | None,
    device: str,
    force: bool = False,
    quiet: bool = False,
) -> list[RunSummary]:
    """Run a configuration for each seed, or take a finished run of it from the folder."""
    from faircil.cli.device import choose_device
    from faircil.experiment import load_stream, run
    from faircil.results.folder import default_folder, finished_run, write_run

    chosen = choose_device(device)
    folder = out or default_folder(config.model_dump(mode="json"), config.label)
    typed = shlex.join(["faircil", *sys.argv[1:]])
    done: dict[int, RunSummary] = {}
    for seed in seeds:
        found = None if force else finished_run(folder, config.model_dump(mode="json"), seed)
        if found is not None:
            done[seed] = found
    if done and not quiet:
        say(f"already in {folder}: seed {', '.join(map(str, done))} (--force runs again)")
    todo = [seed for seed in seeds if seed not in done]
    try:
        with reporting(config, len(todo), quiet) as reporter:
            for seed in todo:
                stream = load_stream(config, seed)
                reporter.start(seed, len(stream.tasks))
                result = run(config, seed, stream=stream, device=chosen, listener=reporter)
                done[seed] = write_run(folder / f"seed-{seed}", result, typed)
    except KeyboardInterrupt:
        finished = ", ".join(map(str, sorted(done))) or "none"
        say(f"finished seeds: {finished}, in {folder}; the same command goes on with the others")
        raise
    runs = [done[seed] for seed in seeds]
    for note in dict.fromkeys(note for summary in runs for note in summary.notes):
        if not quiet:
            say(f"note: {note}")
    return runs


def _config(arguments: argparse.Namespace) -> RunConfig:
    """Resolve names and settings; options of own data need a file."""
    from faircil.config import resolve
    from faircil.data.own import OwnData

    own = None
    if arguments.data is not None:
        if arguments.label is None:
            raise UsageError("--data needs --label: the column that holds the class")
        own = OwnData(
            path=arguments.data,
            label=arguments.label,
            sensitive=tuple(arguments.sensitive),
            tasks=arguments.tasks,
            use_sensitive=arguments.use_sensitive,
            test_column=arguments.test_column,
            test_share=0.3 if arguments.test_share is None else arguments.test_share,
        )
    else:
        given = [
            f"--{name.replace('_', '-')}"
            for name in (
                "label",
                "sensitive",
                "tasks",
                "use_sensitive",
                "test_column",
                "test_share",
            )
            if getattr(arguments, name)
        ]
        if given:
            raise UsageError(f"{', '.join(given)}: only with --data FILE")
    return resolve(
        dataset=arguments.dataset,
        own=own,
        method=arguments.method,
        weighting=arguments.weighting,
        measure=arguments.measure,
        overrides=arguments.set,
    )
