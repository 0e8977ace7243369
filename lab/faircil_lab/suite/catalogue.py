"""The suite: which streams, by which measure, over which seeds, under which rules. It is frozen.

A change of a stream, of its test rows or of a rule makes another version, whose rows are not
comparable with those of an earlier one. The digests of the test rows are written here, so that
another version of a library that draws other rows is noticed and not scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faircil.data.datasets import DATASETS
from faircil.errors import DataError, unknown_name
from faircil.runs.config import resolve
from faircil.weighting.measures import MEASURES

Inputs = Literal["images", "people", "texts", "points"]
SEEDS = (0, 1, 2, 3, 4)
PLAIN = "er"  # the method that budgets and levelling down are measured by


@dataclass(frozen=True)
class SuiteStream:
    """A stream of the suite.

    Parameters
    ----------
    dataset : str
        Its name, that of the dataset.
    title : str
    inputs : {"images", "people", "texts", "points"}
    measure : str
        Of fairness; the disparity of the final model is its metric.
    size : tuple of int
        Tasks, classes, training rows, test rows (of seed 0).
    digests : tuple of str
        Of the test rows, by seed from 0; a single one where all seeds have the same.
    forbidden : str
        What the rules of all streams do not say.
    redrawn : bool
        Whether the seed changes the data, and not only what a method draws itself.
    core : bool
        Whether anybody can get its files; only such streams count in the overall order.
    """

    dataset: str
    title: str
    inputs: Inputs
    measure: str
    size: tuple[int, int, int, int]
    digests: tuple[str, ...]
    forbidden: str
    redrawn: bool = True
    core: bool = True

    @property
    def heading(self) -> str:
        """Title and name."""
        return f"{self.title[0].upper()}{self.title[1:]}: {self.dataset}"

    @property
    def disparity(self) -> str:
        """Name of the metric."""
        return MEASURES[self.measure].shown

    @property
    def attribute(self) -> str | None:
        """The sensitive attribute."""
        return DATASETS[self.dataset].attribute

    @property
    def epochs(self) -> int:
        """Passes over the rows of a task that a method may make: those of plain replay."""
        return resolve(dataset=self.dataset, method=PLAIN).settings.training.epochs

    @property
    def buffer_size(self) -> int:
        """Rows of a group that a method may keep: those of plain replay."""
        return resolve(dataset=self.dataset, method=PLAIN).settings.training.buffer_size

    def check(self, digest: str, seed: int, where: str) -> None:
        """Raise if test rows are not those of the suite.

        Parameters
        ----------
        digest : str
            That of the rows.
        seed : int
        where : str
            Where they come from, for the message.
        """
        expected = self.digests[seed % len(self.digests)]
        if digest != expected:
            raise DataError(
                f"{where}: the test rows of {self.dataset} with seed {seed} have digest {digest}, "
                f"expected {expected}; the installed libraries draw other rows than those that the "
                "suite was frozen with, so no score would be comparable: use the versions in "
                "constraints.txt"
            )


@dataclass(frozen=True)
class Suite:
    """Streams that are scored together.

    Parameters
    ----------
    name : str
    version : int
    streams : tuple of SuiteStream
    seeds : tuple of int
    """

    name: str
    version: int
    streams: tuple[SuiteStream, ...]
    seeds: tuple[int, ...]

    @property
    def label(self) -> str:
        """Name and version, as row files carry them."""
        return f"{self.name} {self.version}"

    def chosen(self, names: Sequence[str] | None, mistakes: list[str]) -> list[SuiteStream]:
        """Return streams by name; all for None."""
        known = {stream.dataset: stream for stream in self.streams}
        wanted = known if names is None else dict.fromkeys(names)
        mistakes += [unknown_name("stream", n, known) for n in wanted if n not in known]
        return [known[name] for name in wanted if name in known]

    def chosen_seeds(self, seeds: Sequence[int] | None, mistakes: list[str]) -> list[int]:
        """Return some of the seeds; all for None."""
        others = [seed for seed in seeds or () if seed not in self.seeds]
        if others:
            mistakes.append(
                f"seed {', '.join(map(str, others))} is not of the suite {self.label}, which has "
                f"seeds {self.seeds[0]} to {self.seeds[-1]}: its test rows are frozen"
            )
        return [seed for seed in self.seeds if seeds is None or seed in seeds]


RULES: Mapping[str, str] = {
    "Order": "Each task comes once, in the given order. At a task, a method may use its training "
    "rows, and what it has kept. Predictions are due after each task, for all test rows so far, "
    "without knowing their task.",
    "Budget": "At most as many epochs per task as the list of streams says, and at most as many "
    "kept rows of each group (a class with one attribute value; without an attribute, a class). "
    "A method that trains on its kept rows alone may make 64 passes over them. Sums and other "
    "statistics may be kept if their size does not grow with the rows.",
    "Attribute": "Attribute values of training rows may be used. Those of test rows may not, not "
    "even for prediction.",
    "Knowledge": "No other data and no pre-trained weights, except the frozen text encoder. "
    "Nothing that removes a bias based on knowledge of how it was introduced.",
    "Choices": "Nothing is chosen on test rows: neither settings nor epochs nor seeds. Settings "
    "are chosen on held-out training rows, or taken from the literature. All seeds count, "
    "including those that failed.",
}
_NOTHING = "nothing beyond the rules"
_NOT_AS_INPUT = "the attribute as an input, or columns made from it"

FULL = Suite(
    "fair-cil",
    1,
    (
        SuiteStream(
            "fashion-mnist",
            "Fashion-MNIST",
            "images",
            "eer",
            (5, 10, 60_000, 10_000),
            ("e74583d0a8d49cc3",),
            _NOTHING,
            redrawn=False,
        ),
        SuiteStream(
            "fashion-bias",
            "Fashion-MNIST with a bias per task",
            "images",
            "eo",
            (5, 10, 60_000, 10_000),
            (
                "1ac1a361f59d9b96",
                "c32db44df477c71c",
                "e03dedf68df80236",
                "ee8c9ac973cd0f78",
                "d836d7c94998cc91",
            ),
            "inputs that are equal for an image and its negative, and negatives of training rows",
        ),
        SuiteStream(
            "biased-mnist",
            "Biased MNIST",
            "images",
            "eo",
            (5, 10, 60_000, 10_000),
            (
                "7768e36201a0f6b1",
                "5393cded2d276367",
                "28a7cab7756b3904",
                "16d0d3218ec9b51f",
                "1bc07d02f0682a8d",
            ),
            "inputs without the background or without colour, and rows painted in other colours",
        ),
        SuiteStream(
            "census-occupation",
            "occupations by sex",
            "people",
            "eo",
            (6, 12, 68_617, 29_406),
            (
                "4843a9e21e6d99ef",
                "715e10a298320c7a",
                "826fcf3f547e55c4",
                "41f9d667d79d09f2",
                "fb2c643e0d271837",
            ),
            _NOT_AS_INPUT,
        ),
        SuiteStream(
            "census-race",
            "occupations by race",
            "people",
            "eo",
            (6, 12, 68_617, 29_406),
            (
                "5ad1edec4b171986",
                "86796a5a77347600",
                "7321ad50e2d37400",
                "ada5ff45f3c3ffce",
                "f270ccced24f6c6c",
            ),
            _NOT_AS_INPUT,
        ),
        SuiteStream(
            "census-sex-race",
            "occupations by sex and race",
            "people",
            "eo",
            (4, 8, 59_549, 25_520),
            (
                "f3c70290caf93efa",
                "e823d41792bc3e6b",
                "f1f41a56164f54ec",
                "b294da28904b82d2",
                "85101708a1968068",
            ),
            _NOT_AS_INPUT,
        ),
        SuiteStream(
            "drug",
            "use of cannabis by gender",
            "people",
            "eo",
            (3, 6, 1_319, 566),
            (
                "779666f642a5175e",
                "404d9f352447485f",
                "3a834753c2689431",
                "2373b9067c3d4e66",
                "0dad0e8f4e37da24",
            ),
            "nothing beyond the rules; gender is one of the inputs",
        ),
        SuiteStream(
            "biasbios-sample",
            "biographies by gender",
            "texts",
            "eo",
            (3, 6, 1_396, 599),
            (
                "c16bec21d4d5a8cd",
                "c973279c8c6134e8",
                "6c576b96fcf2eeb8",
                "f7a1ea2be2c112fc",
                "2e68fe41054cfee7",
            ),
            "any encoder other than MiniLM, or training it",
            core=False,
        ),
    ),
    SEEDS,
)
SMALL = Suite(
    "fair-cil-small",
    1,
    (
        SuiteStream(
            "toy",
            "three clusters",
            "points",
            "eer",
            (2, 3, 3_000, 1_500),
            ("c270258c45eacd54",),
            _NOTHING,
        ),
        SuiteStream(
            "digits",
            "digits",
            "images",
            "eer",
            (5, 10, 25_140, 2_160),
            (
                "7ee9597e3e26ddf4",
                "ae38b82cd3272066",
                "d757f66cd5621d8a",
                "c39c25f2f975d6fd",
                "dca6162ddd1d4313",
            ),
            _NOTHING,
        ),
        SuiteStream(
            "digits-bias",
            "digits with a bias per task",
            "images",
            "eo",
            (5, 10, 25_140, 2_160),
            (
                "ffdbd3199746e9c5",
                "9f387495eae2ced4",
                "128d3c5688887321",
                "988f2a061edd8cfa",
                "65116ffb6c85724f",
            ),
            "inputs that are equal for an image and its negative, and negatives of training rows",
        ),
        SuiteStream(
            "biased-digits",
            "digits on colours",
            "images",
            "eo",
            (5, 10, 25_140, 2_160),
            (
                "f576c08ee70cccaa",
                "fb6f8a5a69c0a836",
                "24e598120d087063",
                "fba8a76d132817e9",
                "30c267af2873ff55",
            ),
            "inputs without the background or without colour, and rows painted in other colours",
        ),
    ),
    SEEDS,
)
