"""Where the paper shows its figures: a dataset and the measure that FSW is given there."""

from __future__ import annotations

from dataclasses import dataclass

DATASET_NAMES = {
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "biased-mnist": "Biased MNIST",
    "drug": "DRUG",
    "biasbios": "BiasBios",
    "biasbios-sample": "BiasBios sample",
}
# What the paper's tables and figures contain under the name of a measure.
PAPER_METRICS = {"eer": "eer_task", "eo": "eo_gap", "dp": "dp_predicted"}


@dataclass(frozen=True)
class Target:
    """A dataset and a measure."""

    dataset: str
    measure: str

    @property
    def title(self) -> str:
        """Its name in plain words."""
        return f"{DATASET_NAMES[self.dataset]} ({self.measure.upper()})"

    @property
    def key(self) -> str:
        """Its name in published data."""
        return f"{self.dataset} {self.measure}"

    @property
    def file(self) -> str:
        """A part of file names."""
        return f"{self.dataset}-{self.measure}"

    @property
    def metric(self) -> str:
        """The disparity that the paper shows here."""
        return PAPER_METRICS[self.measure]


TARGETS = (
    Target("mnist", "eer"),
    Target("fashion-mnist", "eer"),
    Target("biased-mnist", "eo"),
    Target("biased-mnist", "dp"),
    Target("drug", "eo"),
    Target("drug", "dp"),
    Target("biasbios", "eo"),
    Target("biasbios", "dp"),
)
