"""The same sample of biographies: all methods on an encoder that is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median

from faircil.report import format_value
from faircil.reproduction.claims import claims_of
from faircil.reproduction.contenders import CONTENDERS, FSW, REPLAY
from faircil.reproduction.exhibit import Results
from faircil.reproduction.exhibits.biographies import COLUMN, JOINT, told_apart
from faircil.reproduction.exhibits.tables import BEYOND, CONTROLS
from faircil.reproduction.layout import Line, Row
from faircil.reproduction.page import Page
from faircil.reproduction.table_page import ComparisonTable, table_page
from faircil.results.summary import spread

ABOUT = (
    "The biographies of [the page with the frozen encoder](biographies.md), which says what is odd "
    "about them, and how large an `eo_gap` chance alone gives. Here MiniLM is trained along with a "
    "linear head, ten epochs per task, as the paper trains BERT: FSW's weights come from the "
    "gradients of the head, and GSS and OCS compare the same ones. `seconds total` is the time of "
    "one run; a sweep makes several side by side on the GPU."
)
IN_ANSWER = (JOINT.name, FSW.name, REPLAY.name)
COLLAPSE = 0.5  # of the median accuracy of a method's seeds after a task


@dataclass(frozen=True)
class Trained(ComparisonTable):
    """A table that says which runs fell far behind the other seeds of their method."""

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        lines = self.lines(COLUMN, results)
        page = table_page(self, {COLUMN: lines})
        told = told_apart(claims_of(COLUMN, lines, self.pairs))
        answer = " ".join([*_accuracies(lines), *told, *_setbacks(lines)])
        return replace(page, answer=answer or page.answer)


def _accuracies(lines: Sequence[Line]) -> list[str]:
    found = {
        line.row.contender.name: spread([run.metrics["accuracy"] for run in line.runs])
        for line in lines
        if line.runs and line.row.contender.name in IN_ANSWER
    }
    parts = [f"{name} {format_value(*values)}" for name, values in found.items()]
    return [f"Accuracy: {', '.join(parts)}."] if parts else []


def _setbacks(lines: Sequence[Line]) -> list[str]:
    lost = [*_collapses(lines)]
    if not lost:
        return []
    return [
        f"{len(lost)} of {sum(len(line.runs) for line in lines)} runs fell below half of their "
        f"method's usual accuracy after a task: {'; '.join(lost)}."
    ]


def _collapses(lines: Sequence[Line]) -> Iterator[str]:
    """Name the method, the seed and the first such task of each run that fell behind."""
    for line in lines:
        tasks = list(zip(*(run.per_task for run in line.runs), strict=True))
        usual = [median(metrics["accuracy"] for metrics in task) for task in tasks]
        for run in line.runs:
            for task, (metrics, common) in enumerate(zip(run.per_task, usual, strict=True), 1):
                if metrics["accuracy"] < COLLAPSE * common:
                    yield f"{line.row.contender.name}, seed {run.seed}, task {task}"
                    break


TRAINED = Trained(
    "Biographies, with an encoder that is trained",
    "biographies-trained",
    tuple(Row(replace(one, fixed=(*one.fixed, "finetune=true"))) for one in CONTENDERS),
    (COLUMN,),
    (*CONTROLS, *BEYOND),
    ABOUT,
    "tuned",
)
