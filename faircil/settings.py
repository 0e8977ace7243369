"""Settings of a run: their types and ranges, the shipped table, and ``name=value`` overrides."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from faircil.buffer import RULES
from faircil.errors import unknown_name
from faircil.weighting.granularity import GRANULARITIES
from faircil.weighting.solver import SOLVERS
from faircil.weighting.weights import GRADIENTS

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
    granularity: Literal["sample", "group", "cluster", "cluster-weights"] = "sample"
    """what the program decides: sample, a weight for each; group or cluster, how much of each to
    draw; cluster-weights, a weight for each cluster"""
    clusters: Count = 300
    """how many clusters of gradients to make within groups, for granularity=cluster"""
    gradient: Literal["last", "all"] = "last"
    """whose gradients are compared: those of the last layer, or of all"""
    floor: bool = True
    """whether a current class may not be predicted to fall below loss 0"""
    solver: str = "auto"
    """solver of the linear program, see `faircil list solvers`"""
    buffer_size: Count = 32
    """buffer samples per group (class and attribute value)"""
    buffer_rule: str = "random"
    """which samples of a group stay in the buffer: random or large-weight-first"""
    class_order: Literal["fixed", "shuffled"] = "fixed"
    """order of classes: fixed, or shuffled by the seed"""
    classes_per_task: Count | None = None
    """classes per task of a named dataset; default: the dataset's own"""


def shipped_settings(
    dataset: str | None, method: str, weighting: str, measure: str
) -> dict[str, Any]:
    """Look the run up in ``settings.toml``; own data (None) has no row there."""
    key = {"dataset": dataset, "method": method, "weighting": weighting, "measure": measure}
    table = tomllib.loads((files("faircil") / "settings.toml").read_text(encoding="utf-8"))
    values: dict[str, Any] = {}
    for row in table["row"]:
        if all(key[name] in row[name] for name in key if name in row):
            values.update(row["set"])
    return values


def parse_overrides(overrides: Iterable[str], mistakes: list[str]) -> dict[str, Any]:
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


def validate_settings(values: Mapping[str, Any], mistakes: list[str]) -> Settings | None:
    """Check types, ranges and names of the settings."""
    tables: dict[str, Iterable[str]] = {
        "solver": [*SOLVERS, "auto"],
        "buffer_rule": RULES,
        "granularity": GRANULARITIES,
        "gradient": GRADIENTS,
    }
    for name, table in tables.items():
        if name in values and values[name] not in table:
            mistakes.append(unknown_name(name.replace("_", " "), str(values[name]), table))
    try:
        return Settings.model_validate(values)
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
