"""Settings of a run: their types and ranges, the shipped table, and ``name=value`` overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, cast

from pydantic import TypeAdapter, ValidationError, create_model

from faircil.buffer import RULES
from faircil.errors import shortened, unknown_name
from faircil.files import applies, shipped_rows
from faircil.learners import LEARNERS, Options
from faircil.options import Count, NonNegative, Positive
from faircil.text.options import TextOptions, way_of
from faircil.weighting.granularity import GRANULARITIES
from faircil.weighting.losses import LOSSES
from faircil.weighting.solver import SOLVERS
from faircil.weighting.weights import GRADIENTS

_SWITCH = TypeAdapter(bool)


class Settings(Options):
    """Numbers and switches of a run; every field can be set with ``--set name=value``.

    The settings of a run are those here, which every method has, and those of its learner; see
    :func:`settings_of`. Runs on texts have those of :class:`faircil.text.options.TextOptions` too.
    """

    epochs: Count = 20
    """epochs per task"""
    batch_size: Count = 64
    """current samples per step"""
    memory_batch_size: Count = 64
    """buffer samples per step"""
    hidden: tuple[Count, ...] = (256, 256)
    """widths of the MLP's hidden layers, e.g. 256,256"""
    alpha: Positive | Literal["auto"] = "auto"
    """step size of the predicted losses; the larger, the fewer samples are kept; auto: 12/|T|"""
    lam: NonNegative = 0.5
    """weight of the current classes' loss against the disparity"""
    granularity: Literal["sample", "group", "cluster", "cluster-weights"] = "sample"
    """what the program decides: sample, a weight for each; group or cluster, how much of each to
    draw; cluster-weights, a weight for each cluster"""
    clusters: Count = 300
    """how many clusters of gradients to make within groups, for granularity=cluster"""
    gradient: Literal["last", "all"] = "last"
    """whose gradients are compared: those of the last layer, or of all"""
    loss: str = "cross-entropy"
    """loss that the program is about, see `faircil list losses`; training keeps its own"""
    floor: bool = True
    """whether a current class may not be predicted to fall below loss 0"""
    keep: Literal["weighted", "all"] = "weighted"
    """what an epoch trains on: weighted, samples with a weight above .05 and a few others to fill
    the last batch; all, zero weights included"""
    round: bool = False
    """whether weights become 0 or 1, whichever is nearer"""
    solver: str = "auto"
    """solver of the linear program, see `faircil list solvers`"""
    buffer_size: Count = 32
    """buffer samples per group (class and attribute value)"""
    class_order: Literal["fixed", "shuffled"] = "fixed"
    """order of classes: fixed, or shuffled by the seed"""
    classes_per_task: Count | None = None
    """classes per task of a named dataset; default: the dataset's own"""


def settings_of(method: str, texts: bool = False) -> type[Settings]:
    """Return the settings of runs of a method: those of every run, and those of its learner.

    Parameters
    ----------
    method : str
    texts : bool
        Whether the run is on texts, which have settings of their own.
    """
    learner = LEARNERS.get(method)
    return _joined(Options if learner is None else learner.options, texts)


@cache
def _joined(options: type[Options], texts: bool) -> type[Settings]:
    """Join by the class of the options: a name can be registered again with another learner."""
    own: tuple[Any, ...] = () if options is Options else (options,)
    if not own and not texts:
        return Settings
    # In this order: a learner's own defaults win.
    bases: Any = (*own, *((TextOptions,) if texts else ()), Settings)
    return cast(type[Settings], create_model("Settings", __base__=bases))


def learner_options(method: str, settings: Settings) -> Options:
    """Return the part of a run's settings that its learner knows."""
    options = LEARNERS[method].options
    return options(**{name: getattr(settings, name) for name in options.model_fields})


def text_options(settings: Settings) -> TextOptions:
    """Return the part of the settings of a run on texts that is about them."""
    return TextOptions(**{name: getattr(settings, name) for name in TextOptions.model_fields})


def own_settings(method: str) -> list[str]:
    """Return the names of the settings that runs of other methods may not have."""
    common = Settings.model_fields
    return [name for name in LEARNERS[method].options.model_fields if name not in common]


def shipped_settings(
    dataset: str | None,
    method: str,
    weighting: str,
    measure: str,
    *,
    texts: bool = False,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Look the run up in ``settings.toml``; own data (None) has only rows without a dataset.

    A row may name settings of several methods; each takes those that it has. ``given`` are the
    user's own: what suits a net depends on whether the encoder of its texts is trained.
    """
    key = {"dataset": dataset, "method": method, "weighting": weighting, "measure": measure}
    values: dict[str, Any] = {}
    for row in shipped_rows("faircil.runs", "settings.toml"):
        trained = _is_true(given.get("finetune", values.get("finetune", False)))
        key["texts"] = way_of(trained) if texts else None
        if applies(row, key):
            values.update(row["set"])
    known = settings_of(method, texts).model_fields
    return {name: value for name, value in values.items() if name in known}


def _is_true(value: Any) -> bool:
    """Read a switch as the settings will; one that cannot be read is a mistake there."""
    try:
        return _SWITCH.validate_python(value)
    except ValidationError:
        return False


def parse_overrides(
    overrides: Iterable[str], method: str, mistakes: list[str], *, texts: bool = False
) -> dict[str, Any]:
    """Read ``name=value`` pairs for a run of the method; a comma makes a list."""
    known = settings_of(method, texts).model_fields
    values: dict[str, Any] = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name or not value:
            mistakes.append(f"setting '{override}' is not of the form name=value, e.g. tau=10")
        elif name in TextOptions.model_fields and not texts:
            mistakes.append(
                f"setting '{name}' is for texts, and the data of this run has none; name their "
                "column with --text COLUMN, or choose a dataset of texts (`faircil list datasets`)"
            )
        elif name not in known:
            owners = [other for other, _ in LEARNERS.items() if name in own_settings(other)]
            mistakes.append(
                f"method '{method}' has no setting '{name}'; it belongs to {shortened(owners)}"
                if owners
                else unknown_name("setting", name, known)
            )
        else:
            values[name] = value.split(",") if name == "hidden" else value
    return values


def validate_settings(
    values: Mapping[str, Any], method: str, mistakes: list[str], *, texts: bool = False
) -> Settings | None:
    """Check types, ranges and names of the settings of a method."""
    tables: dict[str, Iterable[str]] = {
        "solver": [*SOLVERS, "auto"],
        "buffer_rule": RULES,
        "granularity": GRANULARITIES,
        "gradient": GRADIENTS,
        "loss": LOSSES,
    }
    for name, table in tables.items():
        if name in values and values[name] not in table:
            mistakes.append(unknown_name(name.replace("_", " "), str(values[name]), table))
    try:
        return settings_of(method, texts).model_validate(values)
    except ValidationError as error:
        expected: dict[str, dict[str, None]] = {}
        for problem in error.errors():
            name = str(problem["loc"][0])
            if name not in tables:
                text = problem["msg"].removeprefix("Input should be ").split(", unable")[0]
                expected.setdefault(name, {})[text] = None
        mistakes += [
            f"setting {name}={_written(values[name])} is not allowed: it should be "
            + " or ".join(texts)
            for name, texts in expected.items()
        ]
    return None


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
