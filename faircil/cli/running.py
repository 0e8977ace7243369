"""Run seeds one after another: reuse what is there, show progress, keep what is finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from faircil.cli.console import say
from faircil.cli.progress import Reporter, reporting
from faircil.results.record import RunSummary
from faircil.results.reuse import finished_runs, remove_others
from faircil.runs.config import RunConfig
from faircil.sweep.work import make_run

MOST_NOTES = 10


@dataclass(frozen=True)
class RunOptions:
    """How to run, and what to do with what the folder holds.

    Parameters
    ----------
    typed : str
        What the user typed, to run it again.
    device : torch.device
    again : bool
        Whether to run finished seeds again.
    replace : bool
        Whether runs of another configuration make way; else they are an error.
    quiet : bool
        Whether to show neither progress nor notes.
    """

    typed: str
    device: torch.device
    again: bool = False
    replace: bool = False
    quiet: bool = False


def run_seeds(
    config: RunConfig, seeds: Sequence[int], folder: Path, options: RunOptions
) -> list[RunSummary]:
    """Run a configuration for each seed, or take a finished run of it from the folder."""
    found = finished_runs(folder, config.model_dump(mode="json"), replace=options.replace)
    done = {seed: found[seed] for seed in seeds if seed in found and not options.again}
    if done and not options.quiet:
        say(f"already in {folder}, not run again: {_seeds(done)}")
    todo = [seed for seed in seeds if seed not in done]
    try:
        with reporting(config, len(todo), options.quiet or not todo) as reporter:
            for seed in todo:
                done[seed] = _run_seed(config, seed, folder, options, reporter)
    except KeyboardInterrupt:
        same = "the same command without --force" if options.again else "the same command"
        kept = f"{_seeds(done)} in {folder}; {same} goes on with the others"
        nothing = "nothing was kept" + " but embeddings of texts" * (config.text is not None)
        say(f"finished: {kept}" if done else f"no seed was finished, {nothing}")
        raise
    runs = [done[seed] for seed in seeds]
    if not options.quiet:
        _say_notes(runs)
    return runs


def _run_seed(
    config: RunConfig, seed: int, folder: Path, options: RunOptions, reporter: Reporter
) -> RunSummary:
    summary = make_run(
        config,
        seed,
        folder,
        command=options.typed,
        device=options.device,
        begin=lambda stream: reporter.start(seed, len(stream.tasks)),
        listener=reporter,
        progress=reporter.embedding,
    )
    if options.replace:
        remove_others(folder, config.model_dump(mode="json"))
    return summary


def _seeds(seeds: Iterable[int]) -> str:
    return f"seed {', '.join(map(str, sorted(seeds)))}"


def _say_notes(runs: Sequence[RunSummary]) -> None:
    notes = list(dict.fromkeys(note for run in runs for note in run.notes))
    for note in notes[:MOST_NOTES]:
        say(f"note: {note}")
    if len(notes) > MOST_NOTES:
        say(f"note: {len(notes) - MOST_NOTES} more of this kind in {runs[0].dir}/summary.json")
