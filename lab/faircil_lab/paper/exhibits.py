"""All exhibits by name: settings are chosen once for all, then one sweep, then the pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from faircil.errors import FaircilError, StorageError, raise_all, unknown_name
from faircil.sweep.sweep import Finish, SweepOptions
from faircil.sweep.work import Outcome, Work
from faircil.tuning.request import Tuned, TuneRequest
from faircil.tuning.tune import tune_each
from faircil_lab.paper import tables
from faircil_lab.paper.biographies import BIOGRAPHIES, TRAINED
from faircil_lab.paper.buffer_size import BufferSize
from faircil_lab.paper.calibration import Calibration
from faircil_lab.paper.chosen_settings import ChosenSettings
from faircil_lab.paper.contenders import where_possible
from faircil_lab.paper.cost import CostFigure
from faircil_lab.paper.epsilon_fair import EpsilonFairTable
from faircil_lab.paper.exhibit import Exhibit, Page, Results
from faircil_lab.paper.lp_time import LpTime
from faircil_lab.paper.methods import METHODS_TABLE
from faircil_lab.paper.moments_page import MOMENTS_TABLE
from faircil_lab.paper.render import index_markdown, write_page, write_text
from faircil_lab.paper.sequential import Sequential
from faircil_lab.paper.taylor import Taylor
from faircil_lab.paper.toy_page import Toy
from faircil_lab.paper.tradeoff import Tradeoff
from faircil_lab.paper.tsne import Tsne
from faircil_lab.paper.weights_page import Weights

EXHIBITS: dict[str, Exhibit] = {
    "toy": Toy(),
    "table1": tables.TABLE1,
    "eer": tables.EER,
    "eo": tables.EO,
    "dp": tables.DP,
    "tradeoff": Tradeoff(),
    "sequential": Sequential(),
    "weights": Weights(),
    "ablation": tables.ABLATION,
    "non-targeted": tables.NON_TARGETED,
    "epsilon-fair": EpsilonFairTable(),
    "buffer-size": BufferSize(),
    "buffer-strategy": tables.BUFFER_STRATEGY,
    "hinge": tables.HINGE,
    "layers": tables.LAYERS,
    "solvers": tables.SOLVERS,
    "runtime": tables.RUNTIME,
    "lp-time": LpTime(),
    "taylor": Taylor(),
    "cost": CostFigure(),
    "tsne": Tsne(),
    # Pages without a counterpart in the paper.
    "moments": MOMENTS_TABLE,
    "streams": tables.STREAMS_TABLE,
    "calibration": Calibration(),
    "methods": METHODS_TABLE,
    "chosen-settings": ChosenSettings(),
    "biographies": BIOGRAPHIES,
    "biographies-trained": TRAINED,
}
ALL = "all"
INDEX = "README.md"


@dataclass(frozen=True)
class Changes:
    """What a user changes: ``seeds`` and ``settings`` of the exhibits that have such a field."""

    seeds: tuple[int, ...] | None = None
    settings: str | None = None


def chosen_exhibits(
    names: Sequence[str], known: Mapping[str, Exhibit], changes: Changes
) -> dict[str, Exhibit]:
    """Return exhibits by name, as the user wants them; all unknown names are one error."""
    wanted = list(known) if ALL in names else list(dict.fromkeys(names))
    raise_all(
        [unknown_name("table or figure", n, [*known, ALL]) for n in names if n not in (*known, ALL)]
    )
    return {name: _changed(known[name], changes) for name in wanted}


def _changed(exhibit: Any, changes: Changes) -> Exhibit:
    """Set the fields of an exhibit, a dataclass, that the user changes and it has."""
    own = {field.name for field in fields(exhibit)}
    wanted = {field.name: getattr(changes, field.name) for field in fields(changes)}
    values: dict[str, Any] = {
        name: value for name, value in wanted.items() if value is not None and name in own
    }
    return cast(Exhibit, replace(exhibit, **values))


def collect(exhibits: Mapping[str, Exhibit], finish: Finish, options: SweepOptions) -> Results:
    """Choose all settings, then make all runs; what two exhibits share is made once."""
    finish = where_possible(finish, options)
    requests = {request: None for e in exhibits.values() for request in e.requests()}
    # What needs no choice is made in parallel with the trials: no process waits for the last one.
    ready = [work for e in exhibits.values() if not e.requests() for work in e.works({})]

    def finish_trials(works: Sequence[Work]) -> list[Outcome]:
        return finish([*works, *ready])[: len(works)]

    found = tune_each(list(requests), finish_trials) if requests else []
    tuned: dict[TuneRequest, Tuned] = {one.request: one for one in found if isinstance(one, Tuned)}
    failed = {
        one.request: _without_subject(one.problem, one.request)
        for one in found
        if not isinstance(one, Tuned)
    }
    works = {work.key: work for e in exhibits.values() for work in e.works(tuned)}
    outcomes = finish(list(works.values())) if works else []
    return Results(
        outcomes=dict(zip(works, outcomes, strict=True)),
        tuned=tuned,
        root=options.root,
        run_missing=options.run_missing,
        any_code=options.any_code,
        not_tuned=failed,
    )


def _without_subject(problem: str, request: TuneRequest) -> str:
    """Leave out whose problem it is: a page puts methods with the same reason together."""
    return problem.partition(f" on {request.data}: ")[2] or problem


def reproduce(
    exhibits: Mapping[str, Exhibit],
    folder: Path,
    finish: Finish,
    options: SweepOptions,
    *,
    index: bool,
    report: Callable[[str], None] = lambda _: None,
) -> dict[str, Page]:
    """Make the pages of exhibits and write them.

    Parameters
    ----------
    exhibits : mapping
        By name.
    folder : Path
        For ``NAME.md``, ``images/`` and, with ``index``, ``README.md``.
    finish : callable
        Makes runs, see :func:`faircil.sweep.sweep.finish`.
    options : SweepOptions
        How it makes them.
    index : bool
        Whether these are all exhibits, so that the index can be written.
    report : callable
        Gets a line about the page that is being made: some measure for minutes.

    Returns
    -------
    dict
        Pages by name. An exhibit that could not be made has a page that says why.
    """
    results = collect(exhibits, finish, options)
    pages: dict[str, Page] = {}
    for number, (name, exhibit) in enumerate(exhibits.items(), start=1):
        report(f"page {number} of {len(exhibits)}: {exhibit.title}")
        pages[name] = _page(exhibit, results)
        write_page(folder, name, exhibit, pages[name])
    if index:
        write_text(folder / INDEX, index_markdown(exhibits, pages))
    return pages


def _page(exhibit: Exhibit, results: Results) -> Page:
    try:
        return exhibit.page(results)
    except StorageError:
        raise  # a full disk is no matter of one exhibit
    except FaircilError as error:
        return Page(f"Not made: {error}", ())
