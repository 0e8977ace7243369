"""Choosing settings: rounds of trials, those of all requests side by side."""

from __future__ import annotations

from collections.abc import Sequence

from faircil.errors import FaircilError, collecting, raise_all, unknown_name
from faircil.sweep.sweep import Finish
from faircil.tuning.problem import each_once, problem_of
from faircil.tuning.request import NotTuned, Tuned, TuneRequest
from faircil.tuning.search import Search
from faircil.tuning.strategies import STRATEGIES


def tune(request: TuneRequest, finish: Finish) -> Tuned:
    """Choose settings for one request; see :func:`tune_all`."""
    return tune_all([request], finish)[0]


def tune_all(requests: Sequence[TuneRequest], finish: Finish) -> list[Tuned]:
    """Choose settings for all requests; an error if that fails for some.

    Parameters
    ----------
    requests : sequence of TuneRequest
    finish : callable
        Makes runs, see :func:`faircil.sweep.sweep.finish`. All trials of a round are one call.
    """
    found = tune_each(requests, finish)
    raise_all([one.problem for one in found if isinstance(one, NotTuned)], FaircilError)
    return [one for one in found if isinstance(one, Tuned)]


def tune_each(requests: Sequence[TuneRequest], finish: Finish) -> list[Tuned | NotTuned]:
    """Choose settings for all requests; where that fails, say why and go on with the others.

    Mistakes in a request are an error before any run is made.
    """
    searches = check_requests(requests)
    while proposals := [(search, point) for search in searches.values() for point in search.next()]:
        works = [search.works(point) for search, point in proposals]
        outcomes = iter(finish([work for some in works for work in some]))
        for (search, point), some in zip(proposals, works, strict=True):
            search.take(point, [next(outcomes) for _ in some])
    return [searches[request].result() for request in requests]


def check_requests(
    requests: Sequence[TuneRequest], mistakes: Sequence[str] = ()
) -> dict[TuneRequest, Search]:
    """Get ready to search; raises with all mistakes at once, those of the caller too."""
    mistakes = list(mistakes)
    searches: dict[TuneRequest, Search] = {}
    for request in dict.fromkeys(requests):
        with collecting(mistakes):
            searches[request] = _start(request)
    raise_all(each_once(mistakes))
    return searches


def _start(request: TuneRequest) -> Search:
    mistakes: list[str] = []
    problem = None
    if request.strategy not in STRATEGIES:
        mistakes.append(unknown_name("strategy", request.strategy, STRATEGIES))
    with collecting(mistakes):
        problem = problem_of(request)
    raise_all(each_once(mistakes))
    assert problem is not None  # else there was a mistake
    return Search(problem, STRATEGIES[request.strategy](problem))
