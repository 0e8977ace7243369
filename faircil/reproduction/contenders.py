"""Who is compared: the paper's methods, and those that show what its method adds."""

from __future__ import annotations

from dataclasses import dataclass

from faircil.config import RunConfig, resolve
from faircil.data.datasets import DATASETS
from faircil.tuning.request import Tuned, TuneRequest


@dataclass(frozen=True)
class Contender:
    """A method as one row or one line.

    Parameters
    ----------
    name : str
        In plain words.
    method : str
    weighting : str or None
        None: the method's own.
    fixed : tuple of str
        ``name=value`` settings that make it what it is, so that they are not up for choice.
    in_paper : bool
        Whether the paper has it.
    """

    name: str
    method: str
    weighting: str | None = None
    fixed: tuple[str, ...] = ()
    in_paper: bool = True

    @property
    def is_weighted(self) -> bool:
        """Whether its runs solve the program, which is all that the measure enters."""
        return self.method == "fsw" or self.weighting is not None


FSW = Contender("FSW", "fsw")
REPLAY = Contender("replay", "er", in_paper=False)
BY_GROUP = ("granularity=group",)
CONTENDERS = (
    Contender("joint training", "joint"),
    Contender("fine-tuning", "finetune"),
    Contender("iCaRL", "icarl"),
    Contender("WA", "wa"),
    Contender("CLAD", "clad"),
    Contender("GSS", "gss"),
    Contender("OCS", "ocs"),
    Contender("FaIRL", "fairl"),
    FSW,
    REPLAY,
    Contender("replay, random weights", "er", "random", in_paper=False),
    Contender("replay, balanced subset", "er", "balanced", in_paper=False),
    Contender("FSW by group", "fsw", fixed=BY_GROUP, in_paper=False),
    Contender("DER++", "der++", in_paper=False),
    Contender("DER++ with FSW by group", "der++", "fsw", fixed=BY_GROUP, in_paper=False),
)


def request(contender: Contender, dataset: str, measure: str) -> TuneRequest:
    """Return what has to be chosen before it is compared on a dataset by a measure.

    The measure does not enter the runs of a method without weighting. They all carry the measure
    of the dataset, and only the objective tells EO from DP: both choose among the same runs.
    """
    own = _run_measure(contender, dataset, measure)
    return TuneRequest(
        dataset=dataset,
        method=contender.method,
        measure=own,
        weighting=contender.weighting,
        fixed=contender.fixed,
        objective=None if own == measure else f"accuracy - {measure}",
    )


def chosen(contender: Contender, tuned: Tuned | None) -> tuple[str, ...]:
    """Return its ``name=value`` settings: fixed ones, then those that were chosen."""
    return (*contender.fixed, *(tuned.best.overrides if tuned else ()))


def config(contender: Contender, dataset: str, measure: str, tuned: Tuned | None) -> RunConfig:
    """Return its run on test data, with the settings chosen, or with the shipped ones (None)."""
    return resolve(
        dataset=dataset,
        method=contender.method,
        weighting=contender.weighting,
        measure=_run_measure(contender, dataset, measure),
        overrides=chosen(contender, tuned),
    )


def _run_measure(contender: Contender, dataset: str, measure: str) -> str:
    """Return the measure that its runs carry."""
    if contender.is_weighted:
        return measure
    return "eer" if DATASETS[dataset].attribute is None else "eo"
