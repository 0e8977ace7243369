"""A small sample of biographies: all methods on a frozen encoder, with plain models beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from faircil.report import format_value
from faircil.reproduction.claims import OPEN, Claim, claims_of
from faircil.reproduction.contenders import CONTENDERS
from faircil.reproduction.exhibit import Results
from faircil.reproduction.exhibits.tables import BEYOND, CONTROLS
from faircil.reproduction.layout import Column, Row
from faircil.reproduction.measurements.references import (
    ON_EMBEDDINGS,
    ON_WORDS,
    ReferenceValues,
    TextReference,
)
from faircil.reproduction.measurements.statements import look_up, problem_of, values_of
from faircil.reproduction.page import Grid, Page, Section
from faircil.reproduction.table_page import ComparisonTable, table_page
from faircil.reproduction.targets import Target
from faircil.results.summary import RunSummary, spread

JOINT = CONTENDERS[0]
SAMPLE = Target("biasbios-sample", "eo")
COLUMN = Column(SAMPLE, ("accuracy", "eo_gap"), ("dp", "seconds total"))
REFERENCES = {
    ON_WORDS: "TF-IDF + logistic regression",
    ON_EMBEDDINGS: "MiniLM embeddings + logistic regression",
}
HEADER = (
    *("model", "accuracy", "accuracy after the last task", "eo_gap"),
    *("test samples right after the last task", "eo_gap by chance"),
)
ABOUT = (
    "2,951 biographies of Bias in Bios, collected from public samples of it: no natural sample. "
    "736 rows whose profession is a classifier's guess are left out, and 220 of professions with "
    "few. The other 1,995 are of six professions, in three tasks of two, with gender as the "
    "attribute. All 1,008 accountants come from one source, which has 10 of each of the others: a "
    "model can tell the source instead of the profession, so accuracy on them comes too easily. "
    "The last task has 148 training samples.\n\n"
    "The encoder is a frozen MiniLM; a net with two hidden layers learns from its embeddings. "
    "`seconds total` is the time of one run whose embeddings were computed before, from the first "
    "task to the last evaluation, without reading the data; a sweep makes several side by side."
)
ABOUT_REFERENCES = (
    "Logistic regression, fitted anew after each task on all training samples of the classes so "
    "far: joint, with nothing to forget. Accuracy is a mean over classes; of all test samples more "
    "are right, since half are accountants. By chance: what `eo_gap` would be if the samples that "
    "are predicted right were spread over the genders of their class at random. Groups of ten test "
    "samples show that much between groups that are treated alike; less accurate models show more."
)


@dataclass(frozen=True)
class Biographies(ComparisonTable):
    """A table that the paper does not have, with references beside it."""

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs and from what was measured."""
        lines = self.lines(COLUMN, results)
        page = table_page(self, {COLUMN: lines})
        found = {
            name: [look_up(TextReference(kind, SAMPLE.dataset, s), results) for s in self.seeds]
            for kind, name in REFERENCES.items()
        }
        models = {name: values_of(some) for name, some in found.items()}
        joint = next(line.runs for line in lines if line.row.contender == JOINT)
        models[JOINT.name] = [_of_run(run) for run in joint]
        problems = dict.fromkeys(filter(None, map(problem_of, found.values())))
        reasons = [f"Not run: {problem.removeprefix('not run: ')}." for problem in problems]
        section = Section(
            "References",
            "\n\n".join([ABOUT_REFERENCES, *reasons]),
            Grid(HEADER, tuple(_row(name, values) for name, values in models.items())),
            commands=("faircil reproduce biographies",),
        )
        how, table, *others = page.sections
        sections = (how, table, section, *others)
        answer = [*_accuracies(models), *told_apart(claims_of(COLUMN, lines, self.pairs))]
        return replace(page, answer=" ".join(answer) or page.answer, sections=sections)


def _of_run(run: RunSummary) -> ReferenceValues:
    metrics = run.metrics
    return ReferenceValues(metrics["accuracy"], run.per_task[-1]["accuracy"], metrics["eo_gap"])


def _row(name: str, values: Sequence[ReferenceValues]) -> tuple[str, ...]:
    if not values:
        return (name, "not run", *("–" for _ in HEADER[2:]))
    columns = zip(*map(astuple, values), strict=True)
    return (name, *(format_value(*spread(column)) for column in columns))


def _accuracies(models: Mapping[str, Sequence[ReferenceValues]]) -> list[str]:
    """Say how accurate models are that see all classes so far at once."""
    parts = [f"{name} {_row(name, values)[1]}" for name, values in models.items() if values]
    return [f"Accuracy with all classes so far at once: {', '.join(parts)}."] if parts else []


def told_apart(claims: Sequence[Claim]) -> list[str]:
    """Say which comparisons give something, also if none does."""
    if not claims:
        return []
    told = [
        f"{claim.pair.left} is {claim.reading} than {claim.pair.right} in {claim.metric}"
        for claim in claims
        if claim.reading != OPEN
    ]
    count = f"Of {len(claims)} comparisons of FSW with replay, its controls and DER++"
    return [f"{count}, {len(told)} are told apart{': ' * bool(told)}{'; '.join(told)}."]


BIOGRAPHIES = Biographies(
    "Biographies, a small sample",
    "biographies",
    tuple(Row(contender) for contender in CONTENDERS),
    (COLUMN,),
    (*CONTROLS, *BEYOND),
    ABOUT,
    "tuned",
)
