"""What a run is: dataset, method, weighting, measure and settings, all resolved and checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from faircil.buffer import RULES
from faircil.data.datasets import DATASETS
from faircil.data.own import OwnData
from faircil.errors import UsageError, raise_all, unknown_name
from faircil.learners import ALIASES, LEARNERS
from faircil.weighting.granularity import GRANULARITIES
from faircil.weighting.measures import MEASURES
from faircil.weighting.solver import SOLVERS
from faircil.weighting.training import WEIGHTINGS

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class Settings(BaseModel):
    """Numbers and switches of a run; every field can be set with ``--set name=value``."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    lr: Positive = 0.01
    """learning rate of SGD"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """momentum of SGD"""
    epochs: Count = 20
    """epochs per task"""
    batch_size: Count = 64
    """current samples per step"""
    memory_batch_size: Count = 64
    """buffer samples per step"""
    hidden: tuple[Count, ...] = (256, 256)
    """widths of the MLP's hidden layers, e.g. 256,256"""
    tau: NonNegative = 2.0
    """weight of the replay loss"""
    alpha: Positive | Literal["auto"] = "auto"
    """step size of the predicted losses; the larger, the fewer samples are kept; auto: 12/|T|"""
    lam: NonNegative = 0.5
    """weight of the current classes' loss against the disparity"""
    granularity: Literal["sample", "group"] = "sample"
    """whether the program decides about samples, or how much of each group to draw"""
    floor: bool = True
    """whether a current class may not be predicted to fall below loss 0"""
    solver: str = "auto"
    """solver of the linear program"""
    buffer_size: Count = 32
    """buffer samples per group (class and attribute value)"""
    buffer_rule: str = "random"
    """which samples of a group stay in the buffer"""
    class_order: Literal["fixed", "shuffled"] = "fixed"
    """whether the order of classes is drawn from the seed"""
    classes_per_task: Count | None = None
    """classes per task of a named dataset; default: the dataset's own"""


class RunConfig(BaseModel):
    """One run, up to its seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    own: OwnData | None = None
    method: str
    weighting: str
    measure: str
    settings: Settings

    @property
    def label(self) -> str:
        """Short name of the method as people know it."""
        for alias, (method, weighting) in ALIASES.items():
            if (self.method, self.weighting) == (method, weighting):
                return alias
        return self.method if self.weighting == "none" else f"{self.method}+{self.weighting}"


def resolve(
    *,
    dataset: str | None = None,
    own: OwnData | None = None,
    method: str = "fsw",
    weighting: str | None = None,
    measure: str | None = None,
    overrides: Iterable[str] = (),
) -> RunConfig:
    """Put a run together from names, the shipped table and ``name=value`` overrides.

    All mistakes are reported at once.
    """
    mistakes: list[str] = []
    if (dataset is None) == (own is None):
        mistakes.append("give either a dataset by name or a file of your own data")
    if dataset is not None and dataset not in DATASETS:
        mistakes.append(unknown_name("dataset", dataset, DATASETS))
    method, weighting = _method_and_weighting(method, weighting, mistakes)
    attribute = bool(own.sensitive) if own else dataset in DATASETS and DATASETS[dataset].attribute
    measure = measure or ("eo" if attribute else "eer")
    if measure not in MEASURES:
        mistakes.append(unknown_name("measure", measure, MEASURES))
    elif MEASURES[measure].by_attribute and not attribute and (own or dataset in DATASETS):
        mistakes.append(
            f"measure '{measure}' compares the values of a sensitive attribute, and "
            f"{own.path if own else dataset} has none; use --measure eer"
            + (", or name a column with --sensitive" if own else "")
        )
    name = dataset or (Path(own.path).name.split(".")[0] if own else "")
    values = shipped_settings(name, method, weighting, measure)
    given = _parse(overrides, mistakes)
    if own and (named := {"class_order", "classes_per_task"} & given.keys()):
        mistakes.append(
            f"setting {', '.join(sorted(named))} is for named datasets; own data takes --tasks"
        )
    values.update(given)
    settings = _validate(values, mistakes)
    raise_all(mistakes)
    return RunConfig(
        dataset=name,
        own=own,
        method=method,
        weighting=weighting,
        measure=measure,
        settings=settings or Settings(),
    )


def shipped_settings(dataset: str, method: str, weighting: str, measure: str) -> dict[str, Any]:
    """Look the run up in ``settings.toml``."""
    key = {"dataset": dataset, "method": method, "weighting": weighting, "measure": measure}
    table = tomllib.loads((files("faircil") / "settings.toml").read_text(encoding="utf-8"))
    values: dict[str, Any] = {}
    for row in table["row"]:
        if all(key[name] in row[name] for name in key if name in row):
            values.update(row["set"])
    return values


def _method_and_weighting(
    method: str, weighting: str | None, mistakes: list[str]
) -> tuple[str, str]:
    """Resolve aliases; the second is the weighting's name."""
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
    if weighting not in WEIGHTINGS:
        mistakes.append(unknown_name("weighting", weighting, WEIGHTINGS))
    elif weighting != "none" and method in LEARNERS and (why := LEARNERS[method].no_weighting):
        mistakes.append(f"method '{method}' cannot use weighting '{weighting}': {why}")
    return method, weighting


def _parse(overrides: Iterable[str], mistakes: list[str]) -> dict[str, Any]:
    """Read ``name=value`` pairs; a comma makes a list."""
    values: dict[str, Any] = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name or not value:
            mistakes.append(f"setting '{override}' is not of the form name=value, e.g. tau=10")
        elif name not in Settings.model_fields:
            mistakes.append(unknown_name("setting", name, Settings.model_fields))
        else:
            values[name] = value.split(",") if name == "hidden" else value
    return values


def _validate(values: Mapping[str, Any], mistakes: list[str]) -> Settings | None:
    """Check types, ranges and names of the settings."""
    tables: dict[str, Iterable[str]] = {
        "solver": [*SOLVERS, "auto"],
        "buffer_rule": RULES,
        "granularity": GRANULARITIES,
    }
    for name, table in tables.items():
        if name in values and values[name] not in table:
            mistakes.append(unknown_name(name.replace("_", " "), str(values[name]), table))
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        by_name: dict[str, str] = {}
        for problem in error.errors():
            name = str(problem["loc"][0])
            if name not in tables:
                by_name.setdefault(name, problem["msg"].lower())
        mistakes += [
            f"setting {name}={_written(values[name])} is not allowed: {message}"
            for name, message in by_name.items()
        ]
    return None


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def check_config(values: Mapping[str, Any]) -> RunConfig:
    """Read a resolved configuration back, e.g. from a run folder."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise UsageError(f"this is no configuration of a run: {error}") from None
