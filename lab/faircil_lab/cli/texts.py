"""``faircil bench text``: what a large text encoder costs, on made texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from faircil_lab.bench.texts import Workload
from faircil_lab.cli.output import add_output_arguments, begin, keep, page_command

if TYPE_CHECKING:
    import torch

    from faircil_lab.bench.pages import Findings
    from faircil_lab.bench.texts import TextOutcome

HELP = "measure training, weights and embeddings with a large text encoder"
EPILOG = """The encoder has BERT's architecture and random weights; the texts are drawn, as many as
BiasBios has. Nothing is downloaded. Measured are the parts of an epoch of FSW (one pass of the
encoder, statistics beyond it, linear program, training), and embeddings of a frozen encoder: time,
tokens per second, peak memory of a GPU.

examples:
  faircil bench text --page docs/text-speed.md
  faircil bench text --rows 50000 --steps 50 --repeats 1
  faircil bench text --layers 2 --hidden 64 --rows 2500 --tokens 32 --steps 5 --device cpu
"""
SIZES = {
    "layers": "layers of the encoder",
    "hidden": "numbers per token",
    "rows": "texts for training, of all tasks",
    "tokens": "tokens of each text",
    "steps": "training steps that are timed in a round",
    "repeats": "rounds",
}  # fields of a workload


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    for name, what in SIZES.items():
        default = getattr(Workload, name)
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{what} (default: {default})"
        )
    parser.add_argument(
        "--device",
        default="auto",
        help="auto, cpu, cuda or cuda:N (default: auto, which stops if a CPU would take long)",
    )
    add_output_arguments(parser, Path("bench") / "text")


def command(arguments: argparse.Namespace) -> None:
    """Measure, write the files, print the tables."""
    from faircil.compute import choose_device
    from faircil.errors import collecting, raise_all
    from faircil.text.encoders import text_module
    from faircil.text.passes import CPU_CHUNK, Passing

    mistakes: list[str] = []
    with collecting(mistakes):
        device = choose_device(arguments.device)
    with collecting(mistakes):
        workload = Workload(**{name: getattr(arguments, name) for name in SIZES})
    raise_all(mistakes)
    version = text_module("transformers").__version__
    if arguments.device == "auto" and device.type == "cpu":
        _refuse_if_long(workload)
    number = "bfloat16" if Passing(pad_id=0).mixed(device) else "float32"
    about = [f"transformers {version}; products inside of the encoder are in {number}"]
    if device.type == "cpu":
        about.append(f"A CPU takes {CPU_CHUNK:,} tokens at once, whatever is allowed")
    tell, notes = begin(arguments, about)
    outcomes = _told(_outcomes(workload, device), tell)
    keep(outcomes, partial(_finish, arguments, workload, str(device), notes), arguments)


def _refuse_if_long(workload: Workload) -> None:
    from faircil.errors import UsageError
    from faircil_lab.bench.texts import PATIENCE, cpu_seconds, spoken

    seconds = cpu_seconds(workload)
    if seconds > PATIENCE:
        raise UsageError(
            f"there is no GPU, and this CPU would take about {spoken(seconds)}; take less with "
            "--rows, --steps and --repeats, a smaller encoder with --layers and --hidden, or do "
            "it all the same with --device cpu"
        )


def _outcomes(workload: Workload, device: torch.device) -> Iterator[TextOutcome]:
    from threadpoolctl import threadpool_limits

    from faircil.compute import enough_memory
    from faircil_lab.bench.texts_measure import (
        make_corpus,
        make_encoder,
        measure_embeddings,
        measure_epochs,
    )

    with enough_memory(), threadpool_limits(1, user_api="blas"):
        encoder, corpus = make_encoder(workload), make_corpus(workload)
        yield from measure_epochs(workload, encoder, corpus, device)
        yield from measure_embeddings(workload, encoder, corpus, device)


def _told(outcomes: Iterator[TextOutcome], tell: Callable[[str], None]) -> Iterator[TextOutcome]:
    """Pass outcomes on and say how it goes, a line for each."""
    from faircil_lab.bench.measuring import written
    from faircil_lab.bench.texts import EpochRound
    from faircil_lab.bench.texts_page import rate

    for outcome in outcomes:
        yield outcome
        if isinstance(outcome, EpochRound):
            speeds = (f"{name}: {rate(cost)} per second" for name, cost in outcome.training.items())
            tell(
                f"epoch, round {outcome.number}: one pass {written(outcome.forward.seconds)}, "
                f"statistics with it {written(outcome.statistics.seconds)}, LP "
                f"{written(outcome.lp)}; {'; '.join(speeds)}"
            )
        else:
            tell(
                f"embedding, {outcome.case.name}, round {outcome.number}: "
                f"{rate(outcome.cost)} tokens per second"
            )


def _finish(
    arguments: argparse.Namespace,
    workload: Workload,
    device: str,
    notes: tuple[str, ...],
    outcomes: tuple[TextOutcome, ...],
    complete: bool,
) -> Findings:
    from faircil.results.identity import environment
    from faircil_lab.bench.texts import TextResults
    from faircil_lab.bench.texts_page import text_findings

    return text_findings(
        TextResults(
            workload,
            outcomes,
            command=page_command(arguments.typed),
            environment=environment(arguments.typed, device),
            notes=notes,
            complete=complete,
        )
    )
