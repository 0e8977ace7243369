"""Settings of learning from moments."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from faircil.learners.base import Count, NonNegative, Options, Positive, Share

BY_MEANS = ("nearest-mean", "lda")  # classifiers by class means, without group weights
PROTECTING = ("min_cell", "noise_epsilon")  # privacy settings


class MomentsOptions(Options):
    """Settings of learning from moments."""

    features: Literal["relu", "raw", "both", "patches", "trained"] = "relu"
    """fixed features: relu, random ReLU features of the standardised inputs; raw, these inputs;
    both; patches, of images; trained, relu and the last activations of a net that is trained on the
    first task alone"""
    width: Count | Literal["auto"] = "auto"
    """number of features; auto: as many as the first task has rows, from 200 to 2000, fewer if the
    moments would take more than 2 GiB, compressed if `rank` allows it; 2049 for patches"""
    rank: Count | Literal["auto", "full"] = "auto"
    """directions kept of each group's second moments: full, all of them; a number compresses them;
    auto: full where they fit, else as many as 1.5 GiB hold, at least 50; a note reports it"""
    classifier: Literal["auto", "discriminants", "ridge", "nearest-mean", "lda"] = "auto"
    """classifier: ridge, the largest score of ridge regression wins; discriminants, linear
    discriminants of these scores; auto: discriminants where the weights of classes are fixed, else
    ridge; or, for comparison, classifiers without group weights: nearest-mean or lda"""
    ridge: Positive | Literal["auto"] = "auto"
    """penalty relative to the mean square of a feature, for lda to its mean variance; auto: the one
    of 1e-4, 1e-3, …, 1 with the smallest objective, chosen again when there are 1.5 times as many
    rows; for lda, by oracle approximating shrinkage"""
    group_weights: Literal["fair", "group", "class", "samples"] = "fair"
    """weights of the groups: fair, chosen for the measure; or fixed, for comparison: equal for all
    groups of a class, for all classes, for all samples"""
    evened: Literal["left-out", "training"] = "left-out"
    """losses that are made even: left-out, of each row by the solution without it; training"""
    certainty: NonNegative = 1.0
    """differences of up to this many standard errors are not evened out"""
    arithmetic: Literal["float32", "float64"] = "float32"
    """number format of the moments and their solution"""
    decay: Share = 1.0
    """factor on the weight of a group's earlier rows once a task brings as many new ones; with
    fewer new ones, they lose less. For classes that come back changed; rows of such groups cannot
    be removed"""
    forgettable: Literal["auto", "true", "false"] = "auto"
    """whether a checksum of every row is kept, 8 bytes each, without which no row can be removed;
    auto: for up to 20 million rows"""
    min_cell: Annotated[int, Field(ge=0)] = 0
    """minimum number of rows that are added together to the sums of a class and group: smaller
    groups are pooled within their class, smaller classes left out; 0: all sums are exact, and those
    of one row are that row"""
    noise_epsilon: Positive | Literal["none"] = "none"
    """ε of Gaussian noise on the sums of each group, for differential privacy of a row's features;
    with noise, rows cannot be removed"""
    noise_delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    """δ of that noise"""
    clip_norm: Annotated[float, Field(gt=1, allow_inf_nan=False)] | Literal["auto"] = "auto"
    """largest norm of the features of a row, with noise: its deviation grows with the square; auto:
    the square root of their number"""

    @property
    def protects(self) -> bool:
        """Whether single people are protected from anyone who reads the sums."""
        fields = type(self).model_fields
        return any(getattr(self, name) != fields[name].default for name in PROTECTING)

    @field_validator("ridge", "group_weights", "evened", "certainty")
    @classmethod
    def _has_effect(cls, value: object, info: ValidationInfo) -> object:
        """Reject settings that a classifier by class means does not use."""
        kind, name = info.data.get("classifier", "auto"), str(info.field_name)
        usual = cls.model_fields[name].default
        used = kind not in BY_MEANS or (kind == "lda" and name == "ridge")
        if not used and value != usual:
            told = {"default": usual, "classifier": kind}
            raise PydanticCustomError(
                "no_effect", "{default} with classifier={classifier}, which does not use it", told
            )
        return value
