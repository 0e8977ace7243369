"""Which method, weighting, measure and post-processing go together, and with which data."""

from __future__ import annotations

from faircil.data.datasets import DATASETS
from faircil.data.own import OwnData
from faircil.errors import unknown_name
from faircil.learners import ALIASES, LEARNERS
from faircil.postprocess import POSTPROCESSES
from faircil.postprocess.epsilon_fair import epsilon_mistakes
from faircil.weighting.measures import MEASURES
from faircil.weighting.training import WEIGHTINGS


def has_attribute(dataset: str | None, own: OwnData | None) -> bool:
    """Tell whether the data of a run has a sensitive attribute."""
    row = DATASETS.get(dataset or "")
    return bool(own.sensitive) if own else row is not None and row.attribute is not None


def has_texts(dataset: str | None, own: OwnData | None) -> bool:
    """Tell whether the inputs of a run are texts."""
    row = DATASETS.get(dataset or "")
    return own.text is not None if own else row is not None and row.texts


def checked_method_and_weighting(
    method: str, weighting: str | None, mistakes: list[str]
) -> tuple[str, str]:
    """Resolve aliases; the second is the weighting's name."""
    if weighting is not None and weighting not in WEIGHTINGS:
        mistakes.append(unknown_name("weighting", weighting, WEIGHTINGS))
        weighting = None
    if method in ALIASES:
        learner, implied = ALIASES[method]
        if weighting not in (None, implied):
            mistakes.append(
                f"method '{method}' is '{learner}' with weighting '{implied}', but weighting is "
                f"'{weighting}'; use --method {learner} --weighting {weighting}"
            )
        return learner, implied
    weighting = weighting or "none"
    if method not in LEARNERS:
        mistakes.append(unknown_name("method", method, [*LEARNERS, *ALIASES]))
    elif weighting != "none" and (why := LEARNERS[method].no_weighting):
        mistakes.append(f"method '{method}' cannot use weighting '{weighting}': {why}")
    return method, weighting


def checked_measure(
    measure: str | None, dataset: str | None, own: OwnData | None, mistakes: list[str]
) -> str:
    """Check the measure, or choose it: ``eo`` where there is an attribute, else ``eer``."""
    measure = measure or ("eo" if has_attribute(dataset, own) else "eer")
    if measure not in MEASURES:
        mistakes.append(unknown_name("measure", measure, MEASURES))
    elif MEASURES[measure].by_attribute:
        what = f"measure '{measure}'"
        mistakes += attribute_mistakes(what, dataset, own, "use --measure eer")
    return measure


def attribute_mistakes(
    what: str, dataset: str | None, own: OwnData | None, *remedies: str
) -> list[str]:
    """Say that the data has no sensitive attribute, which ``what`` needs, if so."""
    compares = f"{what} compares the values of a sensitive attribute, and"
    if own and not own.sensitive:
        advice = ", or ".join([*remedies, "name a column with --sensitive"])
        return [f"{compares} none is named for {own.path}; {advice}"]
    if not own and dataset in DATASETS and DATASETS[dataset].attribute is None:
        return [f"{compares} {'; '.join([f'{dataset} has none', *remedies])}"]
    return []


def postprocess_mistakes(
    postprocess: str, epsilon: float | None, held_out: int, method: str
) -> list[str]:
    """Say why the method's predictions cannot be post-processed so."""
    mistakes = [] if epsilon is None else epsilon_mistakes(epsilon)
    if held_out < 0:
        mistakes.append(f"--held-out is {held_out}, expected a number of samples, 0 for none")
    if postprocess == "none":
        if epsilon is not None:
            mistakes.append("--epsilon is for post-processing; add --postprocess eps-fair")
    elif postprocess not in POSTPROCESSES:
        mistakes.append(unknown_name("postprocess", postprocess, [*POSTPROCESSES, "none"]))
    elif method in LEARNERS and not LEARNERS[method].replays and held_out == 0:
        mistakes.append(
            f"postprocess '{postprocess}' is fitted on the buffer, and method '{method}' keeps "
            "none; hold samples out with --held-out 32, or use a method that replays"
        )
    return mistakes
