"""Settings of a run: its parts, their flat names, the shipped table, and overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_origin

from pydantic import BaseModel, SerializeAsAny, TypeAdapter, ValidationError, model_serializer
from pydantic.fields import FieldInfo

from faircil.errors import UsageError, collecting, shortened, unknown_name
from faircil.fields import SETTINGS, Count, Share, fields_of, one_of, setting_mistakes
from faircil.files import applies, shipped_rows
from faircil.learners import LEARNERS, Options
from faircil.media import MEDIA, Medium
from faircil.text.options import TextOptions, encoder_mode
from faircil.vision.picture_inputs import ImageOptions
from faircil.weighting.measures import MEASURES
from faircil.weighting.selection import SELECTIONS
from faircil.weighting.weights import FairSampleWeights

_SWITCH = TypeAdapter(bool)


class TrainingSettings(BaseModel):
    """How a run trains, for any learner."""

    model_config = SETTINGS

    epochs: Count = 20
    """epochs per task"""
    batch_size: Count = 64
    """current samples per step"""
    memory_batch_size: Count = 64
    """buffer samples per step"""
    net: Literal["mlp", "conv", "resnet18"] = "mlp"
    """net: mlp, dense layers; for images, conv, two convolutions with pooling before them, or
    resnet18, 17 convolutions in residual blocks"""
    hidden: tuple[Count, ...] = (256, 256)
    """widths of the net's hidden dense layers, e.g. 256,256"""
    buffer_size: Count = 32
    """buffer samples per group (class and attribute value)"""
    keep: Annotated[str, one_of("keep", SELECTIONS)] = "weighted"
    """samples of a weighted epoch: weighted, those with a weight above .05 and a few others to fill
    the last batch; all, zero weights included; draw, as many as weighted, drawn with replacement,
    half by weight and half equally over groups"""
    average_last: Share = 0.0
    """share of a task's last epochs over whose steps the parameters of the net are averaged"""
    round: bool = False
    """whether weights are rounded to 0 or 1"""
    shards: Count = 1
    """parts into which the data and every batch are divided; torchrun starts that many processes,
    or a divisor, which share them, and one process gets the same result"""


class DataSettings(BaseModel):
    """How a named dataset becomes tasks."""

    model_config = SETTINGS

    class_order: Literal["fixed", "shuffled"] = "fixed"
    """order of classes: fixed, or shuffled by the seed"""
    classes_per_task: Count | None = None
    """classes per task of a named dataset; default: the dataset's own"""


class Settings(BaseModel):
    """Settings of a run: one part for each component, defined next to it.

    As JSON they are flat, ``{name: value}``: names are unique over the parts. ``--set``, the
    shipped table and tuning use these names.

    Parameters
    ----------
    learner : Options
        An instance of the learner's ``options``.
    training : TrainingSettings
    weights : FairSampleWeights
        The weighting, with the measure of the run.
    data : DataSettings
    text : TextOptions or None
        None if inputs are not texts.
    images : ImageOptions or None
        None if inputs are not images.
    """

    model_config = SETTINGS

    learner: SerializeAsAny[Options]
    training: TrainingSettings
    weights: FairSampleWeights
    data: DataSettings
    text: TextOptions | None = None
    images: ImageOptions | None = None

    @property
    def media(self) -> TextOptions | ImageOptions | None:
        """How texts or images become inputs; None for other inputs."""
        return self.images if self.text is None else self.text

    @property
    def medium(self) -> Medium | None:
        """The medium of the inputs, if they are not columns."""
        return next((medium for medium in MEDIA if getattr(self, medium) is not None), None)

    def flat(self) -> dict[str, Any]:
        """Return all values by name."""
        names = setting_names(type(self.learner), self.medium)
        return {name: getattr(getattr(self, row.part), name) for name, row in names.items()}

    @model_serializer
    def _as_flat(self) -> dict[str, Any]:
        # Omitted if it is 1, so that undivided runs keep their earlier identity.
        return {name: one for name, one in self.flat().items() if (name, one) != ("shards", 1)}


# Fields of FairSampleWeights that the run itself provides: its measure and its net.
BESIDES = {"measure", "head", "batch", "logits"}


@dataclass(frozen=True)
class Setting:
    """A setting: its part of :class:`Settings`, and its definition."""

    part: str
    field: FieldInfo


def _parts(options: type[Options], medium: Medium | None) -> dict[str, type]:
    """Return the classes of the parts of a run's settings."""
    parts: dict[str, type] = {
        "learner": options,
        "training": TrainingSettings,
        "weights": FairSampleWeights,
        "data": DataSettings,
    }
    return parts if medium is None else {**parts, medium: MEDIA[medium]}


@cache
def setting_names(options: type[Options], medium: Medium | None = None) -> Mapping[str, Setting]:
    """Return the settings of a run by name.

    Parameters
    ----------
    options : type
        The learner's class of settings.
    medium : str or None
        Texts and images have additional settings.
    """
    found: dict[str, Setting] = {}
    for part, kind in _parts(options, medium).items():
        for name, field in fields_of(kind).items():
            if part == "weights" and name in BESIDES:
                continue
            if name in found:
                raise UsageError(
                    f"setting '{name}' is defined twice, by {options.__name__} and by "
                    f"{kind.__name__}; rename it in {options.__name__}"
                )
            found[name] = Setting(part, field)
    return MappingProxyType(found)


def settings_of(method: str, medium: Medium | None = None) -> Mapping[str, Setting]:
    """Return the settings of a method's runs, by name; for an unknown one, the common ones."""
    learner = LEARNERS.get(method)
    return setting_names(Options if learner is None else learner.options, medium)


def own_settings(method: str) -> list[str]:
    """Return the names of settings that runs of other methods may lack."""
    return [name for name in fields_of(LEARNERS[method].options) if name not in fields_of(Options)]


def unused_settings(method: str, options: Options, names: Iterable[str]) -> dict[str, str]:
    """Return the settings that have no effect on a method with these options, and the reasons."""
    learner, known = LEARNERS[method].learner, setting_names(type(options))
    asked = [name for name in names if name in known and known[name].part != "data"]
    reasons = {name: learner.why_unused(options, name) for name in asked}
    if "shards" in asked and not LEARNERS[method].divisible:
        reasons["shards"] = reasons["shards"] or "each step of it needs a whole batch"
    return {name: reason for name, reason in reasons.items() if reason is not None}


def unused_mistakes(method: str, options: Options, names: Iterable[str]) -> list[str]:
    """Reject settings without effect, since a user who gives one expects an effect."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in unused_settings(method, options, names).items():
        by_reason.setdefault(reason, []).append(name)
    return [
        f"setting {', '.join(some)} has no effect on method '{method}': {reason}; leave it out"
        for reason, some in by_reason.items()
    ]


def in_effect(overrides: Iterable[str], method: str, *, medium: Medium | None = None) -> list[str]:
    """Return the ``name=value`` texts of settings that a method has and that take effect."""
    known = settings_of(method, medium)
    there = {text: text.partition("=")[0] for text in overrides}
    there = {text: name for text, name in there.items() if name in known}
    values = parse_overrides(there, method, [], medium=medium)
    own = {name: value for name, value in values.items() if known[name].part == "learner"}
    try:
        options = LEARNERS[method].options(**own)
    except ValidationError:
        return list(there)  # mistakes are reported when the run is configured
    unused = unused_settings(method, options, values)
    return [text for text, name in there.items() if name not in unused]


def shipped_settings(
    dataset: str | None,
    method: str,
    weighting: str,
    measure: str,
    *,
    medium: Medium | None = None,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Look the run up in ``settings.toml``; own data (None) matches only rows without a dataset.

    A row may contain settings of several methods; each method takes its own. ``given`` are the
    user's settings: what suits a net depends on whether its text encoder is trained.
    """
    key = {"dataset": dataset, "method": method, "weighting": weighting, "measure": measure}
    values: dict[str, Any] = {}
    for row in shipped_rows("faircil.runs", "settings.toml"):
        trained = _is_true(given.get("finetune", values.get("finetune", False)))
        key["texts"] = encoder_mode(trained) if medium == "text" else None
        if applies(row, key):
            values.update(row["set"])
    known = settings_of(method, medium)
    return {name: value for name, value in values.items() if name in known}


def _is_true(value: Any) -> bool:
    """Parse a switch as the settings do; invalid values are reported there."""
    try:
        return _SWITCH.validate_python(value)
    except ValidationError:
        return False


def parse_overrides(
    overrides: Iterable[str],
    method: str,
    mistakes: list[str],
    *,
    medium: Medium | None = None,
) -> dict[str, Any]:
    """Parse ``name=value`` pairs for a run of the method; commas separate list items."""
    known = settings_of(method, medium)
    values: dict[str, Any] = {}
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name or not value:
            mistakes.append(f"setting '{override}' is not of the form name=value, e.g. tau=10")
        elif name in fields_of(TextOptions) and medium != "text":
            mistakes.append(
                f"setting '{name}' is for texts, and the data of this run has none; name the "
                "column of texts with `text`, or choose a `dataset` of texts (see "
                "`faircil list datasets`)"
            )
        elif name in fields_of(ImageOptions) and medium != "images":
            mistakes.append(
                f"setting '{name}' is for image files, and the data of this run has none; name "
                "their folder, or the column of their paths, with `images`"
            )
        elif name not in known:
            owners = [other for other, _ in LEARNERS.items() if name in own_settings(other)]
            mistakes.append(
                f"method '{method}' has no setting '{name}'; it belongs to {shortened(owners)}"
                if owners
                else unknown_name("setting", name, known)
            )
        else:
            listed = get_origin(known[name].field.annotation) is tuple
            values[name] = value.split(",") if listed else value
    return values


def validate_settings(
    values: Mapping[str, Any],
    method: str,
    measure: str,
    mistakes: list[str],
    *,
    medium: Medium | None = None,
) -> Settings | None:
    """Build the parts of a run's settings from flat values; None if some are invalid.

    Parameters
    ----------
    values : mapping
        By name, from :func:`settings_of`. Missing ones have their defaults.
    method, measure : str
        Of the run.
    mistakes : list of str
        Receives the mistakes found.
    medium : str or None
        The medium of the run's inputs, if they are not columns.
    """
    learner = LEARNERS.get(method)
    options = Options if learner is None else learner.options
    names = setting_names(options, medium)
    given: dict[str, dict[str, Any]] = {part: {} for part in _parts(options, medium)}
    found: list[str] = []
    for name, value in values.items():
        if name in names:
            given[names[name].part][name] = value
        else:
            found.append(unknown_name("setting", name, names))
    if measure in MEASURES:  # else its mistake is already known
        given["weights"]["measure"] = measure
    parts = {}
    for part, kind in _parts(options, medium).items():
        with collecting(found):  # FairSampleWeights raises its own errors
            try:
                parts[part] = kind(**given[part])
            except ValidationError as error:
                found += setting_mistakes(error, given[part])
    mistakes += found
    return None if found else Settings(**parts)
