"""A run's configuration: data, method, weighting, measure and settings, resolved and checked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from faircil.data.datasets import DATASETS
from faircil.data.own import OwnData
from faircil.data.part_files import table_files
from faircil.data.tables import read_table, refuse_devices
from faircil.errors import DataError, FaircilError, raise_all, unknown_name
from faircil.fields import fields_of
from faircil.files import TABLES_IN_FOLDERS, kept_digest
from faircil.learners import ALIASES, LEARNERS
from faircil.media import Medium, digest_of
from faircil.postprocess import EPSILON, POSTPROCESSES
from faircil.postprocess.epsilon_fair import epsilon_mistakes
from faircil.runs.settings import (
    DataSettings,
    Settings,
    parse_overrides,
    shipped_settings,
    unused_mistakes,
    validate_settings,
)
from faircil.text.options import TextOptions, encoder_mistakes
from faircil.vision.picture_inputs import ImageOptions, image_mistakes
from faircil.weighting.measures import MEASURES
from faircil.weighting.over_ranks import divided_mistakes
from faircil.weighting.selection import WEIGHTINGS

Part = Literal["test", "validation"]  # what a run is evaluated on


def has_attribute(dataset: str | None, own: OwnData | None) -> bool:
    """Return whether the data of a run has a sensitive attribute."""
    row = DATASETS.get(dataset or "")
    return bool(own.sensitive) if own else row is not None and row.attribute is not None


def medium_of(dataset: str | None, own: OwnData | None) -> Medium | None:
    """Return whether the inputs of a run are texts, images, or neither."""
    row = DATASETS.get(dataset or "")
    if own:
        return "text" if own.text is not None else "images" if own.images is not None else None
    return "text" if row is not None and row.texts else None


def checked_method_and_weighting(
    method: str, weighting: str | None, mistakes: list[str], other_methods: Iterable[str] = ()
) -> tuple[str, str]:
    """Return the method without alias, and the weighting; add errors to ``mistakes``.

    ``other_methods`` are further names that the caller accepts, to list in the message.
    """
    if weighting is not None and weighting not in WEIGHTINGS:
        mistakes.append(unknown_name("weighting", weighting, WEIGHTINGS))
        weighting = None
    if method in ALIASES:
        learner, implied = ALIASES[method]
        if weighting not in (None, implied):
            mistakes.append(
                f"method '{method}' is '{learner}' with weighting '{implied}', but weighting is "
                f"'{weighting}'; use `method='{learner}'` with `weighting='{weighting}'`"
            )
        return learner, implied
    weighting = weighting or "none"
    if method not in LEARNERS:
        mistakes.append(unknown_name("method", method, [*other_methods, *LEARNERS, *ALIASES]))
    elif weighting != "none" and (why := LEARNERS[method].no_weighting):
        mistakes.append(f"method '{method}' cannot use weighting '{weighting}': {why}")
    return method, weighting


def default_measure(dataset: str | None, own: OwnData | None) -> str:
    """Return the measure of runs for which none is given."""
    return "eo" if has_attribute(dataset, own) else "eer"


def checked_measure(
    measure: str | None, dataset: str | None, own: OwnData | None, mistakes: list[str]
) -> str:
    """Check the measure; by default, it is ``eo`` if there is an attribute, else ``eer``."""
    measure = measure or default_measure(dataset, own)
    if measure not in MEASURES:
        mistakes.append(unknown_name("measure", measure, MEASURES))
    elif MEASURES[measure].needs_attribute:
        what = f"measure '{measure}'"
        mistakes += attribute_mistakes(what, dataset, own, "use `measure='eer'`")
    return measure


def favoured_mistakes(measure: str, favoured: Sequence[str]) -> list[str]:
    """Return a mistake if favoured classes are missing, or if the measure does not use them."""
    if measure not in MEASURES:
        return []
    if favoured and not MEASURES[measure].needs_favoured:
        return [
            f"`favoured` names classes, and measure '{measure}' compares all of them; use "
            "`measure='eopp'`, or leave it out"
        ]
    if not favoured and MEASURES[measure].needs_favoured:
        return [
            f"measure '{measure}' compares groups of the favoured classes alone, those whose "
            "outcome people want; name them with `favoured`, as in the data (all classes: "
            "`measure='eo'`)"
        ]
    return []


def program_mistakes(measure: str, method: str, weighting: str) -> list[str]:
    """Return a mistake if sample weights cannot minimise the measure, with methods that can."""
    if weighting == "none" or measure not in MEASURES or MEASURES[measure].combine == "sum":
        return []
    able = [name for name, row in LEARNERS.items() if measure in (row.learner.follows or ())]
    return [
        f"weighting '{weighting}' of method '{method}' minimises sums over comparisons of groups, "
        f"and measure '{measure}' is the largest loss of a group; use a method that minimises it "
        f"({', '.join(able)}), or another measure, such as `measure='eo'`"
    ]


def shard_mistakes(settings: Settings, weighting: str) -> list[str]:
    """Return why the weights of a run cannot be computed in shards, if so."""
    weights = settings.weights
    if settings.training.shards == 1 or weighting == "none":
        return []
    return divided_mistakes(weights.gradient, weights.granularity, "`shards` above 1")


def attribute_mistakes(
    what: str, dataset: str | None, own: OwnData | None, *remedies: str
) -> list[str]:
    """Return a mistake if the data has no sensitive attribute, which ``what`` needs."""
    compares = f"{what} compares the values of a sensitive attribute, and"
    if own and not own.sensitive:
        name = "name a sensitive column with `sensitive`" if own.path else "give some"
        data = f" is named for {own.path}" if own.path else " is given"
        return [f"{compares} none{data}; {', or '.join([*remedies, name])}"]
    if not own and (row := DATASETS.get(dataset or "")) and row.attribute is None:
        other = "choose a `dataset` that has one (see `faircil list datasets`)"
        return [f"{compares} {dataset} has none; {', or '.join([*remedies, other])}"]
    return []


def postprocess_mistakes(
    postprocess: str, epsilon: float | None, held_out: int, method: str
) -> list[str]:
    """Return why the method's predictions cannot be post-processed with these options."""
    mistakes = [] if epsilon is None else epsilon_mistakes(epsilon)
    if held_out < 0:
        mistakes.append(f"`held_out` is {held_out}, expected a number of samples, 0 for none")
    if postprocess == "none":
        if epsilon is not None:
            mistakes.append("`epsilon` is for post-processing; add `postprocess='eps-fair'`")
    elif postprocess not in POSTPROCESSES:
        mistakes.append(unknown_name("postprocess", postprocess, [*POSTPROCESSES, "none"]))
    elif method in LEARNERS and not LEARNERS[method].replays and held_out == 0:
        mistakes.append(
            f"postprocess '{postprocess}' is fitted on the buffer, and method '{method}' keeps "
            "none; hold samples out of training with `held_out=32`, or choose a `method` that "
            "replays"
        )
    return mistakes


class RunConfig(BaseModel):
    """The configuration of a run, without its seed.

    ``data_sha256`` is the hash of the user's own data, ``encoder_sha256`` that of the encoder's
    files: a run on other content is a different run. The latter is None without an encoder, and if
    its files cannot be found, which is an error when the run starts. ``epsilon`` is None without
    post-processing; ``held_out`` is the number of samples of each group that are held out from
    training as its pool. ``evaluate_on`` is ``validation`` if a part of the training data replaces
    the test data, which is then not used. ``favoured`` are names of classes. As JSON, ``settings``
    are flat.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    own: OwnData | None = None
    data_sha256: str | None = None
    method: str
    weighting: str
    measure: str
    postprocess: str = "none"
    epsilon: float | None = None
    held_out: int = 0
    evaluate_on: Part = "test"
    # Omitted if empty, since only one measure uses it.
    favoured: tuple[str, ...] = Field(default=(), exclude_if=lambda names: not names)
    # Omitted if None, so that runs without an encoder keep the identity that they had before.
    encoder_sha256: str | None = Field(default=None, exclude_if=lambda digest: digest is None)
    settings: Settings

    @field_validator("settings", mode="before")
    @classmethod
    def _from_flat(cls, value: object, info: ValidationInfo) -> object:
        """Validate flat settings, given the method and the measure, which are validated first."""
        read, needed = info.data, {"method", "measure", "dataset", "own"}
        if not isinstance(value, dict) or not needed <= read.keys():
            return value
        mistakes: list[str] = []
        medium = medium_of(read["dataset"], read["own"])
        settings = validate_settings(
            value, read["method"], read["measure"], mistakes, medium=medium
        )
        if settings is None:
            raise ValueError("; ".join(mistakes))
        return settings

    @model_validator(mode="after")
    def _one_measure(self) -> Self:
        """Refuse weights with another measure than that of the run."""
        if self.settings.weights.measure != self.measure:
            raise ValueError(
                f"the run's measure is '{self.measure}', and that of its weights "
                f"'{self.settings.weights.measure}'; make both the same"
            )
        return self

    @property
    def medium(self) -> Medium | None:
        """The medium of the inputs, if they are not columns."""
        return self.settings.medium

    @property
    def text(self) -> TextOptions | None:
        """Options for encoding texts; None without texts."""
        return self.settings.text

    @property
    def images(self) -> ImageOptions | None:
        """Options for encoding images; None without images."""
        return self.settings.images

    @property
    def trains_encoder(self) -> bool:
        """Whether a pre-trained text encoder is fine-tuned."""
        text = self.text
        return text is not None and text.finetune

    @property
    def label(self) -> str:
        """Short name of the method, with weighting and post-processing if there are any."""
        parts = [self.method, self.weighting, self.postprocess]
        for alias, (method, weighting) in ALIASES.items():
            if (self.method, self.weighting) == (method, weighting):
                parts = [alias, self.postprocess]
        return "+".join(part for part in parts if part != "none")


def resolve(
    *,
    dataset: str | None = None,
    own: OwnData | None = None,
    method: str = "fsw",
    weighting: str | None = None,
    measure: str | None = None,
    postprocess: str | None = None,
    epsilon: float | None = None,
    held_out: int = 0,
    evaluate_on: Part = "test",
    favoured: Sequence[str] = (),
    overrides: Iterable[str] = (),
    mistakes: Iterable[str] = (),
    other_methods: Iterable[str] = (),
) -> RunConfig:
    """Build a configuration from names, the shipped settings and ``name=value`` overrides.

    All mistakes are reported at once, including those already found by the caller. If the method is
    unknown, the message also lists ``other_methods``, which the caller accepts.
    """
    mistakes = list(mistakes)
    if dataset is None and own is None:
        mistakes.append(
            "nothing to run on: name a dataset with `dataset` (see `faircil list datasets`), or "
            "give your own data with `own`"
        )
    if dataset is not None and own is not None:
        mistakes.append(f"dataset '{dataset}' and own data {own.path} are given; give one of them")
    if dataset is not None and dataset not in DATASETS:
        mistakes.append(unknown_name("dataset", dataset, DATASETS))
    method, weighting = checked_method_and_weighting(method, weighting, mistakes, other_methods)
    measure = checked_measure(measure, dataset, own, mistakes)
    mistakes += favoured_mistakes(measure, favoured)
    mistakes += program_mistakes(measure, method, weighting)
    postprocess = postprocess or "none"
    if postprocess != "none" and epsilon is None:
        epsilon = EPSILON
    mistakes += postprocess_mistakes(postprocess, epsilon, held_out, method)
    if postprocess != "none":
        mistakes += attribute_mistakes(f"postprocess '{postprocess}'", dataset, own)
    elif held_out > 0:
        mistakes += attribute_mistakes("post-processing, which `held_out` is for,", dataset, own)
    medium = medium_of(dataset, own)
    given = parse_overrides(overrides, method, mistakes, medium=medium)
    row = DATASETS.get(dataset or "")
    shipped_for = (row.base if row else None) or dataset  # a variant has the settings of its base
    values = shipped_settings(shipped_for, method, weighting, measure, medium=medium, given=given)
    values.update(given)
    if own and (named := fields_of(DataSettings).keys() & values.keys()):
        mistakes.append(
            f"setting {', '.join(sorted(named))} is for named datasets; choose the tasks of own "
            "data with `tasks`"
        )
    settings = validate_settings(values, method, measure, mistakes, medium=medium)
    if settings is not None and method in LEARNERS:
        mistakes += unused_mistakes(method, settings.learner, given)
    if settings is not None:
        mistakes += shard_mistakes(settings, weighting)
    if settings is not None and settings.images is not None:
        mistakes += image_mistakes(settings.images, settings.training.net, given)
    if settings is not None and settings.text is not None and not mistakes:
        mistakes += encoder_mistakes(settings.text, given)
        if settings.text.finetune and LEARNERS[method].one_pass:
            mistakes.append(
                f"method '{method}' learns in one pass on fixed features and trains no encoder; "
                "use `finetune=false`, or another method"
            )
        if settings.text.finetune and getattr(settings.learner, "predictor", "net") == "moments":
            mistakes.append(
                "`predictor=moments` copies the net after each task; a text encoder is too large "
                "for that: use `predictor=net` or `finetune=false`"
            )
    raise_all(mistakes)
    assert settings is not None  # else there was a mistake
    return RunConfig(
        dataset=dataset or (own.name if own else ""),
        own=own,
        data_sha256=_data_digest(own) if own and own.path else None,
        method=method,
        weighting=weighting,
        measure=measure,
        postprocess=postprocess,
        epsilon=epsilon,
        held_out=held_out,
        evaluate_on=evaluate_on,
        favoured=tuple(dict.fromkeys(favoured)),
        encoder_sha256=_encoder_digest(settings),
        settings=settings,
    )


def _encoder_digest(settings: Settings) -> str | None:
    try:
        return None if settings.media is None else digest_of(settings.media)
    except FaircilError:
        return None


def check_data(config: RunConfig) -> None:
    """Raise an error if the user's data has changed since the configuration was built.

    Otherwise, a run on the new data would be stored under the hash of the old data.
    """
    own = config.own
    if (
        own is not None
        and config.data_sha256 is not None
        and _data_digest(own) != config.data_sha256
    ):
        raise DataError(
            f"{own.path} has changed since the command began, so its runs would be on different "
            "data; leave it as it is meanwhile, and run the command again"
        )


def _data_digest(own: OwnData) -> str:
    """Return a hash of the user's table or folder, and of the images that it lists."""
    path = Path(own.path)
    if own.images is None and path.is_dir():
        files = [f"{file.relative_to(path)} {_digest(file)}\n" for file in table_files(path)]
        if not files:
            raise DataError(
                f"the folder {path} has no table, files that end in "
                f"{', '.join(TABLES_IN_FOLDERS)}; give a file, or for images their folder"
            )
        return hashlib.sha256("".join(files).encode()).hexdigest()
    if own.images is None:
        return _digest(path)
    whole = hashlib.sha256(b"" if path.is_dir() else _digest(path).encode())
    table = read_table(path)
    names = table.get(own.images, ())  # a missing column is reported when the data is read
    for name in dict.fromkeys(name for name in names if isinstance(name, str)):
        (file,) = own.files([name])
        # Missing files are reported all together when images are read.
        whole.update(f"{name} {_digest(Path(file)) if Path(file).is_file() else None}\n".encode())
    return whole.hexdigest()


def _digest(path: Path) -> str:
    refuse_devices(path)
    try:
        return kept_digest(path)
    except FileNotFoundError:
        raise DataError(f"there is no file {path}; check the path") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; give a file") from None
