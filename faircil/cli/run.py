"""``faircil run``: train a method on a stream of tasks, for several seeds."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faircil.cli.common_options import (
    add_measure_arguments,
    add_own_arguments,
    add_scheduler_argument,
    check_workers,
    names_of,
    own_data,
    parse_seeds,
    sharded_settings,
)
from faircil.cli.console import print_json, say, say_notes, show_columns, show_table
from faircil.errors import collecting, raise_all

if TYPE_CHECKING:
    from faircil.data.own import OwnData
    from faircil.runs.config import Part, RunConfig
    from faircil.sweep.sweep import Finish
    from faircil.tuning.auto import Choice, Maker
    from faircil.tuning.request import Tuned, TuneRequest

EPILOG = """examples:
  faircil run --dataset biased-digits
  faircil run --dataset mnist --method fsw --measure eer --seeds 0-4 --set tau=10 alpha=0.001 lam=1
  faircil run --dataset biased-mnist --method er --weighting random --measure eo
  faircil run --dataset biased-mnist --target "eo_gap<=0.05"
  faircil run --data mine.csv --label job --sensitive sex --measure eopp --favoured surgeon judge
  faircil run --dataset biased-mnist --method fsw --postprocess eps-fair --held-out 100
  faircil run --data mine.csv --label job --sensitive sex race --tasks "nurse,surgeon|poet,judge"
  faircil run --data bios.csv --text bio --label job --sensitive gender --baseline none
  faircil run --images photos

`faircil list` shows datasets, methods, measures, weightings, settings and what the metrics mean.
Finished seeds are not run again. Two commands may fill one folder at the same time: each seed is
run by one of them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    what = parser.add_argument_group("what to run")
    what.add_argument("--dataset", metavar="NAME", help=names_of("dataset"))
    what.add_argument(
        "--method",
        metavar="NAME",
        help=f"auto, chosen on held-out training data, or {names_of('learner')} (default: auto; "
        "moments with --target)",
    )
    what.add_argument(
        "--weighting",
        metavar="NAME",
        help="sample weighting: fsw, random, balanced or none",
    )
    add_measure_arguments(what)
    what.add_argument(
        "--baseline",
        metavar="NAME",
        help="method to run for comparison, or none (default: er, plain replay, with your own "
        "data; otherwise none)",
    )
    what.add_argument(
        "--target",
        metavar="TEXT",
        help="'eo_gap<=0.05' or 'worst_group>=0.6': choose lam, the weight of accuracy: the most "
        "accurate that meets this on held-out training data, or the closest if none does",
    )
    what.add_argument(
        "--postprocess",
        metavar="NAME",
        help="eps-fair: adjust predictions after each task so that each class is predicted almost "
        "equally often in every group; needs the attribute of every test sample",
    )
    what.add_argument(
        "--epsilon",
        type=float,
        metavar="E",
        help="for --postprocess: largest difference of prediction rates, 0 to 1 (default: 0.05)",
    )
    what.add_argument(
        "--held-out",
        type=int,
        default=0,
        metavar="N",
        help="samples of each group held out from training to fit post-processing; with 0, it is "
        "fitted on the buffer, on which the net is overconfident (default: 0)",
    )
    what.add_argument(
        "--evaluate-on",
        choices=("test", "validation"),
        default="test",
        metavar="PART",
        help="evaluate on test, or on validation: a held-out tenth of each group's training data, "
        "to compare settings without the test data (default: test)",
    )
    what.add_argument(
        "--seeds", default="0", metavar="LIST", help="seeds: 3, 0-4 or 0,2,5 (default: 0)"
    )
    what.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE", help="settings"
    )
    add_own_arguments(parser.add_argument_group("own data, instead of --dataset"))
    how = parser.add_argument_group("running and storing")
    how.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    how.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="number of seeds to run in parallel, in processes with one thread each (default: 1)",
    )
    add_scheduler_argument(how)
    how.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for the runs, readable only by you (default: in runs/)",
    )
    how.add_argument(
        "--force",
        action="store_true",
        help="run finished seeds again, and replace runs of another configuration in the folder; "
        "files that faircil did not write are never replaced",
    )
    how.add_argument(
        "--no-model",
        action="store_true",
        help="do not save the final models (default: saved in seed-N/model of the folder)",
    )
    how.add_argument(
        "--abstain",
        type=float,
        metavar="SHARE",
        help="show how many predictions of each group remain if this share of the final ones, the "
        "least certain, is withheld, e.g. 0.1",
    )
    how.add_argument(
        "--track",
        nargs="+",
        default=[],
        metavar="NAME[=PLACE]",
        help="log metrics during the run to tensorboard[=FOLDER], mlflow[=EXPERIMENT] or "
        "wandb[=PROJECT]",
    )
    how.add_argument("--json", action="store_true", help="print one JSON document on stdout")
    how.add_argument("--quiet", action="store_true", help="print neither progress nor notes")


def command(arguments: argparse.Namespace) -> None:
    """Choose what the user leaves open, run all seeds, and print the result."""
    from faircil.cli.run_seeds import (
        Beside,
        RunOptions,
        against_baseline,
        baseline_mistakes,
        kept_at,
        run_seeds,
        say_models,
    )
    from faircil.compute import choose_device
    from faircil.report import abstention_table, compare, seed_table
    from faircil.results.folder import seed_folder
    from faircil.results.processed import abstained
    from faircil.results.record import as_document
    from faircil.sweep.store import Store
    from faircil.sweep.work import Work
    from faircil.tracking import Tracker, new_trackers

    mistakes: list[str] = []
    seeds, device = [], ""
    with collecting(mistakes):
        seeds = parse_seeds(arguments.seeds)
    with collecting(mistakes):
        device = str(choose_device(arguments.device))
    check_workers(arguments, mistakes)
    arguments.set = sharded_settings(arguments, mistakes)
    if arguments.track and arguments.jobs > 1:
        mistakes.append(f"--track follows one run at a time, and --jobs is {arguments.jobs}")
    if arguments.track and arguments.scheduler is not None:
        mistakes.append("--track follows runs of this process, and --scheduler is given")
    trackers: list[Tracker] = []
    with collecting(mistakes):
        trackers = new_trackers(arguments.track)
    mistakes += [*abstain_mistakes(arguments), *baseline_mistakes(arguments.baseline)]
    config, chosen = settle(arguments, seeds, device, mistakes)
    folder = arguments.out or Store().folder_of(Work(config, seeds[0]))
    force, quiet = arguments.force, arguments.quiet
    # A run on validation data is a trial, whose model is not needed.
    keep = not arguments.no_model and config.evaluate_on == "test"
    options = RunOptions(
        arguments.typed,
        device,
        arguments.jobs,
        again=force,
        replace=force,
        quiet=quiet,
        keep=keep,
        trackers=trackers,
        scheduler=arguments.scheduler,
    )
    beside = Beside.of(config, arguments.baseline, arguments.set, arguments.out, seeds)
    runs = run_seeds(config, seeds, folder, options)
    others = [] if beside is None else beside.run(seeds, options)
    answers = [] if arguments.abstain is None else abstained(runs, arguments.abstain)
    if arguments.json:
        if answers:
            groups = [asdict(one) for one in answers]
            chosen |= {"abstention": {"share": arguments.abstain, "groups": groups}}
        document = as_document(runs) | chosen
        document |= {"baseline": as_document(others)} if others else {}
        for one, run in zip(document["runs"], runs, strict=True):
            one["model"] = kept_at(run)
        print_json(document)
    else:
        show_table(seed_table(runs))
        for table in compare([*runs, *others]) if others else ():
            show_table(table)
        say_notes(against_baseline([*runs, *others]) if others and not quiet else [])
        if not quiet:
            _show_changes(seed_folder(folder, seeds[0]), seeds[0])
        if answers:
            show_table(abstention_table(answers, arguments.abstain))
    if not quiet:
        say(f"saved in {folder}")
        if beside is not None and others:
            # With --out, the folder of the baseline is inside the first one.
            folders = shlex.join(map(str, (folder, beside.folder)[: 1 if arguments.out else 2]))
            say(f"baseline {beside.config.label} in {beside.folder}")
            say(f"both as a page: faircil report {folders}")
        if keep:
            say_models(runs)


def settle(
    arguments: argparse.Namespace, seeds: Sequence[int], device: str, mistakes: list[str]
) -> tuple[RunConfig, dict[str, Any]]:
    """Return the configuration: as given, or chosen automatically or by a target.

    Everything is checked before anything runs.

    Returns
    -------
    config : RunConfig
    chosen : dict
        How it was chosen, for JSON; empty if nothing was chosen.
    """
    from faircil.cli.progress import embedding_lines
    from faircil.runs.config import medium_of, resolve
    from faircil.runs.state import embed_images_of
    from faircil.tuning import auto
    from faircil.tuning.tuning_files import target_outcome

    own = own_data(arguments, mistakes)
    medium = medium_of(arguments.dataset, own)
    arguments.method = arguments.method or (auto.AUTO if arguments.target is None else "moments")
    if arguments.method == auto.AUTO and auto.protects(arguments.set):
        arguments.method = auto.MOMENTS.method
        if not arguments.quiet:
            say_notes([f"method {auto.MOMENTS.name}, since {auto.KEEPS_ROWS}"])
    configure = partial(
        resolve,
        dataset=arguments.dataset,
        own=own,
        method=arguments.method,
        weighting=arguments.weighting,
        measure=arguments.measure,
        favoured=arguments.favoured,
        postprocess=arguments.postprocess,
        epsilon=arguments.epsilon,
        held_out=arguments.held_out,
        evaluate_on=arguments.evaluate_on,
        other_methods=(auto.AUTO,),
    )
    if arguments.method == auto.AUTO:

        def make(candidate: auto.Candidate, part: Part) -> RunConfig:
            return configure(
                method=candidate.method,
                weighting=candidate.weighting,
                overrides=auto.settings_for(candidate, arguments.set, medium=medium),
                evaluate_on=part,
            )

        mistakes += auto_mistakes(arguments)
        configs: list[RunConfig] = []
        with collecting(mistakes):
            configs = auto.check(make)
        raise_all(list(dict.fromkeys(mistakes)))
        embed_images_of(configs[0], device, embedding_lines(arguments.quiet))
        if not arguments.quiet:
            say_notes(auto.partly_used(arguments.set, medium=medium))
        choice = choose_method(make, arguments, device)
        return choice.config, {"choice": auto.as_document(choice)}
    request = target_request(arguments, own, seeds, mistakes)
    with collecting(mistakes):
        config = configure(overrides=arguments.set, mistakes=mistakes)
    raise_all(list(dict.fromkeys(mistakes)))
    embed_images_of(config, device, embedding_lines(arguments.quiet))
    if request is None:
        return config, {}
    tuned = meet_target(request, arguments, device)
    config = configure(overrides=[*arguments.set, *tuned.best.overrides])
    return config, {"target": target_outcome(tuned)}


def abstain_mistakes(arguments: argparse.Namespace) -> list[str]:
    """Return why --abstain cannot be used, if so."""
    share, part = arguments.abstain, arguments.evaluate_on
    if share is None:
        return []
    mistakes = []
    if not 0 < share < 1:
        mistakes.append(f"--abstain is {share:g}, expected a share between 0 and 1, e.g. 0.1")
    if part != "test":
        mistakes.append("--abstain needs predictions, which a run on validation data does not keep")
    return mistakes


def auto_mistakes(arguments: argparse.Namespace) -> list[str]:
    """Return mistakes: options that require the user to choose the method."""
    given = {
        "--weighting": arguments.weighting is not None,
        "--postprocess": arguments.postprocess not in (None, "none"),
        "--held-out": arguments.held_out != 0,
        "--target": arguments.target is not None,
        "--evaluate-on validation": arguments.evaluate_on != "test",
    }
    return [
        f"{flag} is for a method that you choose; name one with --method, such as moments or fsw"
        for flag, is_given in given.items()
        if is_given
    ]


def choose_method(make: Maker, arguments: argparse.Namespace, device: str) -> Choice:
    """Try the candidates on held-out training rows; show their results and the choice."""
    from faircil.report import format_value
    from faircil.tuning.auto import choose

    choice = choose(make, finish_trials(arguments, device))
    if not arguments.quiet and not arguments.json:
        rows = [
            (
                one.candidate.name,
                *map(format_value, (one.accuracy, one.value, one.worst_group)),
                one.problem or "",
            )
            for one in choice.tried
        ]
        title = f"candidates on {choice.rows:,} held-out training rows"
        header = ("method", "accuracy", choice.objective.metric, "worst group", "")
        show_columns(title, header, rows)
    if not arguments.quiet:
        say(f"chose {choice.chosen.name}: {choice.reason}")
    return choice


def finish_trials(arguments: argparse.Namespace, device: str) -> Finish:
    """Return a function that executes trial runs and shows their progress."""
    from faircil.cli.sweeping import finish_shown
    from faircil.sweep.sweep import SweepOptions

    options = SweepOptions(jobs=arguments.jobs, device=device, scheduler=arguments.scheduler)
    return partial(finish_shown, options=options, quiet=arguments.quiet)


def target_request(
    arguments: argparse.Namespace,
    own: OwnData | None,
    seeds: Sequence[int],
    mistakes: list[str],
) -> TuneRequest | None:
    """Return the checked search for a target; None without one, or for an unknown method."""
    from faircil.learners import ALIASES, LEARNERS
    from faircil.runs.config import checked_measure
    from faircil.tuning.request import TuneRequest, parse_target
    from faircil.tuning.tune import check_requests

    if arguments.target is None:
        return None
    if arguments.postprocess not in (None, "none") or arguments.held_out:
        mistakes.append(
            "--target is judged without post-processing; leave out --postprocess and --held-out"
        )
    if arguments.method not in (*LEARNERS, *ALIASES):  # reported when the configuration is resolved
        with collecting(mistakes):
            parse_target(arguments.target)
        return None
    request = TuneRequest(
        dataset=arguments.dataset or "",
        own=own,
        method=arguments.method,
        # Errors are reported when the configuration is resolved.
        measure=checked_measure(arguments.measure, arguments.dataset, own, []),
        weighting=arguments.weighting,
        fixed=tuple(arguments.set),
        seeds=tuple(seeds) or (0,),
        favoured=tuple(arguments.favoured),
        target=arguments.target,
    )
    with collecting(mistakes):
        check_requests([request], mistakes)
    return request


def meet_target(request: TuneRequest, arguments: argparse.Namespace, device: str) -> Tuned:
    """Execute the trial runs for a target, and report the choice."""
    from faircil.tuning.tune import tune
    from faircil.tuning.tuning_files import target_line

    tuned = tune(request, finish_trials(arguments, device))
    if not arguments.quiet:
        say(target_line(tuned))
    if tuned.note:
        say(f"note: {tuned.note}")
    return tuned


def _show_changes(folder: Path, seed: int) -> None:
    """Show how a one-pass method weighted the groups; for other methods, nothing."""
    from faircil.report import change_table
    from faircil.results.run_files import read_epochs, read_names

    epochs = read_epochs(folder)
    if epochs and (passed := epochs[-1].passed) is not None and passed.groups:
        title = f"weights of the groups after the last task, seed {seed}"
        show_table(change_table(passed, read_names(folder), title))
