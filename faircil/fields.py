"""Types of settings: numeric ranges, names in a registry, and messages for invalid values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from faircil.errors import unknown_name

# Beyond these, products of settings and data exceed the range of float64 or 64-bit integers.
LARGEST, MOST = 1e30, 10**9
Positive = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=MOST)]
Natural = Annotated[int, Field(ge=0, le=MOST)]

# Shared by all classes of settings. The docstring below a field is its help text.
SETTINGS = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

_UNKNOWN = "unknown_name"
_NOT_THERE = ("extra_forbidden", "unexpected_keyword_argument")


def one_of(kind: str, table: Iterable[str], *others: str) -> AfterValidator:
    """Return a validator that accepts only names in a table.

    The table is read when a value is validated, so entries may be added later.

    Parameters
    ----------
    kind : str
        What the error calls the value.
    table : iterable of str
        Usually a mapping keyed by name.
    *others : str
        Further allowed names.
    """

    def check(name: str) -> str:
        names = [*table, *others]
        if name not in names:
            raise PydanticCustomError(
                _UNKNOWN, "{sentence}", {"sentence": unknown_name(kind, name, names)}
            )
        return name

    return AfterValidator(check)


def fields_of(kind: type) -> dict[str, FieldInfo]:
    """Return the fields of a class of settings, by name."""
    found: dict[str, FieldInfo] = kind.__pydantic_fields__  # type: ignore[attr-defined]
    return found


def documented(kind: type) -> str:
    """Return the docstring of a class of settings with a parameters section added.

    The help texts are written once, below the fields.
    """
    lines = ["Parameters", "----------"]
    for name, field in fields_of(kind).items():
        lines += [f"{name} : default {field.default!r}"]
        lines += [f"    {line}" for line in (field.description or "").splitlines()]
    section = "".join(f"    {line}\n" for line in lines)
    before, heading, after = (kind.__doc__ or "").partition("    Examples\n")
    return f"{before}{section}\n{heading}{after}"


def setting_mistakes(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each invalid setting.

    Parameters
    ----------
    error : ValidationError
        Raised by a class of settings.
    values : mapping
        The given values, by name.
    """
    expected: dict[str, list[str]] = {}
    sentences: dict[str, str] = {}
    for problem in error.errors(include_url=False):
        name = str(problem["loc"][0])
        if problem["type"] in _NOT_THERE:
            sentences[name] = f"there is no setting '{name}'"
        elif problem["type"] == _UNKNOWN:
            sentences[name] = problem["msg"]
        text = problem["msg"].removeprefix("Input should be ").split(", unable")[0]
        if text not in expected.setdefault(name, []):
            expected[name].append(text)
    return [
        sentences.get(name)
        or f"setting {name}={_written(values.get(name))} is not allowed: it should be "
        + " or ".join(texts)
        for name, texts in expected.items()
    ]


def _written(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
