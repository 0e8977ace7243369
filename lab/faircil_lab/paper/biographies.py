"""Biographies: all methods on a small sample, with an encoder that is frozen, or trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from statistics import median
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from faircil.data.datasets import load_dataset
from faircil.data.stream import TaskStream
from faircil.errors import DataError, UsageError, raise_all, unknown_name
from faircil.metrics import TaskMetrics, evaluate
from faircil.report import format_value
from faircil.results.record import RunSummary, averages, spread
from faircil.runs.config import RunConfig, resolve
from faircil.runs.state import load_stream
from faircil.samples import Samples, concatenate
from faircil_lab.paper import comparison
from faircil_lab.paper.claims import BETTER, WORSE, Claim, Column, claims_of
from faircil_lab.paper.comparison import gap_by_chance
from faircil_lab.paper.contenders import CONTENDERS, FSW, REPLAY, Entry
from faircil_lab.paper.exhibit import Grid, Page, Results, Section
from faircil_lab.paper.metrics import Target
from faircil_lab.paper.store import Measurement, look_up, problem_of, values_of
from faircil_lab.paper.table import ComparisonTable, TableRow, table_page
from faircil_lab.paper.tables import BEYOND, CONTROLS

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

Integers = NDArray[np.int64]
MOST_STEPS = 1000  # of the optimiser, which needs about a hundred
MOST_WORDS = 50_000  # bounds the memory of the fit: a number per word and class, a few times over


@dataclass(frozen=True)
class Labelled:
    """Texts or embeddings with their classes and attribute values.

    Parameters
    ----------
    x : ndarray of str as objects, shape (n,), or of float32, shape (n, d)
    y : ndarray of int64, shape (n,)
        Classes.
    z : ndarray of int64, shape (n,), optional
        Attribute values.
    """

    x: NDArray[Any]
    y: Integers
    z: Integers | None = None

    def of(self, classes: Sequence[int]) -> Labelled:
        """Return the samples of these classes."""
        rows = np.isin(self.y, classes)
        return Labelled(self.x[rows], self.y[rows], None if self.z is None else self.z[rows])


def _tfidf() -> Pipeline:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    # Words and pairs of words; one that occurs in a single text says nothing about others.
    words = TfidfVectorizer(
        sublinear_tf=True,
        ngram_range=(1, 2),
        min_df=2,
        max_features=MOST_WORDS,
        dtype=np.float32,
    )
    return make_pipeline(words, _regression(3))


def _linear() -> Pipeline:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # Encoders differ in scale, and a penalty on weights means nothing without one.
    return make_pipeline(StandardScaler(), _regression(0.003))


def _regression(freedom: float) -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    # The accuracy of a run is a mean over classes, so large ones count no more here either.
    return LogisticRegression(C=freedom, class_weight="balanced", max_iter=MOST_STEPS)


MODELS: dict[str, Callable[[], Pipeline]] = {"tfidf": _tfidf, "linear": _linear}


def joint_reference(
    kind: str, train: Labelled, test: Labelled, tasks: Sequence[tuple[int, ...]]
) -> tuple[TaskMetrics, ...]:
    """Fit and measure a reference after each task, as a run measures a learner.

    Logistic regression over all classes seen so far, refitted after each task on all their training
    samples: nothing to forget and nothing to tune. On word counts it says what an encoder has to
    beat, on embeddings what a learner loses by seeing the classes one task after another.

    Parameters
    ----------
    kind : str
        ``tfidf`` for texts, ``linear`` for embeddings.
    train, test : Labelled
    tasks : sequence of tuple of int
        Classes of each task. Samples of other classes take no part.

    Returns
    -------
    tuple of TaskMetrics
        After task l: on the test samples of the tasks up to l, by a model of their classes.
        A first task of one class is predicted right: there is nothing else to predict.
    """
    if kind not in MODELS:
        raise UsageError(unknown_name("reference", kind, MODELS))
    _check(train, test, tasks)
    task_of = {c: number for number, classes in enumerate(tasks) for c in classes}
    results = []
    for number in range(len(tasks)):
        seen = [c for classes in tasks[: number + 1] for c in classes]
        known, asked = train.of(seen), test.of(seen)
        predicted = np.full(len(asked.y), seen[0])
        if len(seen) > 1:
            predicted = MODELS[kind]().fit(known.x, known.y).predict(asked.x)
        task = np.array([task_of[c] for c in asked.y.tolist()])
        results.append(evaluate(asked.y, predicted, task=task, sensitive=asked.z))
    return tuple(results)


def _check(train: Labelled, test: Labelled, tasks: Sequence[tuple[int, ...]]) -> None:
    raise_all(
        [
            f"class {c} has no {name} sample; leave it out of the tasks"
            for name, part in (("training", train), ("test", test))
            for c in sorted({c for classes in tasks for c in classes} - set(part.y.tolist()))
        ],
        DataError,
    )


ON_WORDS, ON_EMBEDDINGS = "tfidf", "linear"


@dataclass(frozen=True)
class ReferenceValues:
    """What a model reaches; None where a value does not apply.

    Parameters
    ----------
    accuracy : float or None
        Mean over tasks, as that of a run.
    accuracy_at_end : float or None
        After the last task.
    eo_gap : float or None
        Mean over tasks.
    share_at_end : float or None
        Share of all test samples that are predicted right after the last task: large classes
        count more.
    gap_by_chance : float or None
        The same for a model that treats all groups alike, see
        :func:`faircil_lab.paper.comparison.gap_by_chance`.
    """

    accuracy: float | None
    accuracy_at_end: float | None
    eo_gap: float | None
    share_at_end: float | None = None
    gap_by_chance: float | None = None


@dataclass(frozen=True)
class TextReference(Measurement[ReferenceValues]):
    """A reference, see :func:`joint_reference`, on the stream that a run of this seed sees."""

    name: ClassVar[str] = "text-reference"
    values: ClassVar[type[ReferenceValues]] = ReferenceValues
    sources: ClassVar[tuple[ModuleType, ...]] = (comparison,)

    kind: str
    dataset: str
    seed: int
    encoder: str = "minilm"

    def identity(self) -> dict[str, Any]:
        """Return the parameters; an encoder counts by its content, and not for word counts."""
        digest = self._config.encoder_sha256 if self.kind == ON_EMBEDDINGS else None
        return asdict(self) | {"encoder": digest}

    def compute(self) -> ReferenceValues:
        """Fit and measure after each task."""
        if self.kind == ON_EMBEDDINGS:
            stream = load_stream(self._config, self.seed)
        else:
            stream = load_dataset(self.dataset, self.seed)
        train, test = (
            _labelled(stream, [getattr(task, part) for task in stream.tasks])
            for part in ("train", "test")
        )
        # One thread: the sums of several differ in the last bits, from machine to machine.
        with threadpool_limits(1):
            after = joint_reference(self.kind, train, test, [task.classes for task in stream.tasks])
        generator = np.random.default_rng(self.seed)
        chance = [gap_by_chance(metrics.groups, generator) for metrics in after if metrics.groups]
        values = averages(after)
        return ReferenceValues(
            values["accuracy"],
            after[-1].accuracy,
            values["eo_gap"],
            _share_right(after[-1]),
            float(np.mean(chance)) if chance else None,
        )

    @property
    def _config(self) -> RunConfig:
        return resolve(
            dataset=self.dataset,
            method="joint",
            overrides=[f"encoder={self.encoder}", "finetune=false"],
        )


def _labelled(stream: TaskStream, parts: Sequence[Samples]) -> Labelled:
    samples = concatenate(parts)
    x = samples.x.numpy()
    if stream.texts is not None:
        x = np.array(stream.texts, dtype=object)[x]
    return Labelled(x, samples.y.numpy(), None if samples.z is None else samples.z.numpy())


def _share_right(metrics: TaskMetrics) -> float:
    classes = metrics.classes
    return sum(c.n * c.accuracy for c in classes) / sum(c.n for c in classes)


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
    "2,951 biographies of Bias in Bios, collected from public samples of it, so not a random "
    "sample. 736 rows whose profession is a classifier's guess are left out, and 220 rows of "
    "professions with few. The other 1,995 are of six professions, in three tasks of two, with "
    "gender as the attribute. All 1,008 accountants come from one source, which has 10 of each of "
    "the others: a model can recognise the source instead of the profession, so accuracy on them "
    "is too high. The last task has 148 training samples.\n\nThe encoder is a frozen MiniLM; a net "
    "with two hidden layers learns from its embeddings. `seconds total` is the time of one run "
    "with embeddings computed beforehand, from the first task to the last evaluation, without "
    "reading the data; a sweep makes several side by side."
)
ABOUT_REFERENCES = (
    "Logistic regression, refitted after each task on all training samples of the classes so "
    "far: joint, with nothing to forget. Accuracy is a mean over classes; over all test samples "
    "it is higher, since half are accountants. By chance: what `eo_gap` would be if the correctly "
    "predicted samples were spread over the genders of their class at random. Groups of ten test "
    "samples show that much between groups that are treated alike; less accurate models show more."
)


@dataclass(frozen=True)
class BiographiesTable(ComparisonTable):
    """A table that the paper does not have, with references next to it."""

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs and from what was measured."""
        entries = self.entries(COLUMN, results)
        page = table_page(self, {COLUMN: entries})
        found = {
            name: [look_up(TextReference(kind, SAMPLE.dataset, s), results) for s in self.seeds]
            for kind, name in REFERENCES.items()
        }
        models = {name: values_of(some) for name, some in found.items()}
        joint = next(entry.runs for entry in entries if entry.contender == JOINT)
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
        answer = [*_accuracies(models), *significant(claims_of(COLUMN, entries, self.pairs))]
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
    return [f"Accuracy with all classes so far together: {', '.join(parts)}."] if parts else []


def significant(claims: Sequence[Claim]) -> list[str]:
    """Say which comparisons are significant, also if none is."""
    if not claims:
        return []
    found = [
        f"{claim.pair.left} is {claim.reading} than {claim.pair.right} in {claim.metric}"
        for claim in claims
        if claim.reading in (BETTER, WORSE)
    ]
    count = f"Of {len(claims)} comparisons of FSW with replay, its controls and DER++"
    return [f"{count}, {len(found)} are significant{': ' * bool(found)}{'; '.join(found)}."]


BIOGRAPHIES = BiographiesTable(
    "Biographies, a small sample",
    "biographies",
    tuple(TableRow(contender) for contender in CONTENDERS),
    (COLUMN,),
    (*CONTROLS, *BEYOND),
    ABOUT,
    "tuned",
)


ABOUT_TRAINED = (
    "The biographies of [the page with the frozen encoder](biographies.md), which says what is "
    "unusual about them, and how large an `eo_gap` chance alone gives. Here MiniLM is trained "
    "along with a linear head, ten epochs per task, as the paper trains BERT: FSW's weights come "
    "from the gradients of the head, and GSS and OCS compare the same ones. `seconds total` is the "
    "time of one run; a sweep makes several side by side on the GPU."
)
IN_ANSWER = (JOINT.name, FSW.name, REPLAY.name)
COLLAPSE = 0.5  # of the median accuracy of a method's seeds after a task


@dataclass(frozen=True)
class TrainedTable(ComparisonTable):
    """A table that says which runs fell far behind the other seeds of their method."""

    def page(self, results: Results) -> Page:
        """Put the page together from finished runs."""
        entries = self.entries(COLUMN, results)
        page = table_page(self, {COLUMN: entries})
        found = significant(claims_of(COLUMN, entries, self.pairs))
        answer = " ".join([*_trained_accuracies(entries), *found, *_setbacks(entries)])
        return replace(page, answer=answer or page.answer)


def _trained_accuracies(entries: Sequence[Entry]) -> list[str]:
    found = {
        entry.name: spread([run.metrics["accuracy"] for run in entry.runs])
        for entry in entries
        if entry.runs and entry.name in IN_ANSWER
    }
    parts = [f"{name} {format_value(*values)}" for name, values in found.items()]
    return [f"Accuracy: {', '.join(parts)}."] if parts else []


def _setbacks(entries: Sequence[Entry]) -> list[str]:
    lost = [*_collapses(entries)]
    if not lost:
        return []
    return [
        f"{len(lost)} of {sum(len(entry.runs) for entry in entries)} runs fell below half of their "
        f"method's usual accuracy after a task: {'; '.join(lost)}."
    ]


def _collapses(entries: Sequence[Entry]) -> Iterator[str]:
    """Name the method, the seed and the first such task of each run that fell behind."""
    for entry in entries:
        tasks = list(zip(*(run.per_task for run in entry.runs), strict=True))
        usual = [median(metrics["accuracy"] for metrics in task) for task in tasks]
        for run in entry.runs:
            for task, (metrics, common) in enumerate(zip(run.per_task, usual, strict=True), 1):
                if metrics["accuracy"] < COLLAPSE * common:
                    yield f"{entry.name}, seed {run.seed}, task {task}"
                    break


TRAINED = TrainedTable(
    "Biographies, with a trained encoder",
    "biographies-trained",
    tuple(TableRow(one.with_fixed("finetune=true")) for one in CONTENDERS),
    (COLUMN,),
    (*CONTROLS, *BEYOND),
    ABOUT_TRAINED,
    "tuned",
)
