"""The tables of the paper as data: rows, columns, and the pairs that are compared."""

from __future__ import annotations

from dataclasses import replace

from faircil_lab.paper import streams
from faircil_lab.paper.claims import Column, Pair
from faircil_lab.paper.contenders import (
    BALANCED,
    CONTENDERS,
    DARK,
    FSW,
    RANDOM,
    REPLAY,
    Contender,
)
from faircil_lab.paper.metrics import DATASET_NAMES, TARGETS, Target
from faircil_lab.paper.table import ComparisonTable, TableRow

BY_NAME = {contender.name: contender for contender in CONTENDERS}
BY_GROUP, DARK_BY_GROUP = BY_NAME["FSW by group"], BY_NAME["DER++ with FSW by group"]
ALL_METHODS = tuple(
    TableRow(contender, contender.method if contender.in_paper else None)
    for contender in CONTENDERS
)
# What the original of a method does, or what the published code measured; with the settings that
# were chosen for the method.
VARIANTS = tuple(
    TableRow(
        replace(base, name=f"{base.name}, {words}", fixed=fixed, in_paper=False, settings_of=base)
    )
    for base, words, fixed in (
        (BY_NAME["iCaRL"], "whole memory from the first task", ("quota=total",)),
        (
            BY_NAME["WA"],
            "before its alignment",
            ("evaluate_before_alignment=true", "clip_nonneg=false"),
        ),
    )
)
CONTROLS = (
    Pair(FSW.name, REPLAY.name),
    Pair(FSW.name, RANDOM.name),
    Pair(FSW.name, BALANCED.name),
)
BEYOND = (Pair(BY_GROUP.name, REPLAY.name), Pair(DARK_BY_GROUP.name, DARK.name))
EER_NOTE = "What the paper prints as EER disparity is `eer_task`, the mean over tasks."
EO_NOTE = "What the paper prints as EO disparity is `eo_gap`, twice `eo` for two groups."
DP_NOTE = (
    "What the paper prints as DP disparity is `dp_predicted`, over the classes that are predicted "
    "at least once; `dp`, over all seen classes as its formula says, stands beside it."
)
NOTES = {"eer": EER_NOTE, "eo": EO_NOTE, "dp": DP_NOTE}


def columns(*measures: str) -> tuple[Column, ...]:
    """Return all datasets of some measures, with accuracy and what the paper prints beside it."""
    return tuple(_column(target) for target in TARGETS if target.measure in measures)


def _column(target: Target) -> Column:
    # Beside every disparity: the final model, and whether its worst group has been sacrificed.
    besides = ("final_accuracy", "worst_group", *(("dp",) if target.measure == "dp" else ()))
    return Column(target, ("accuracy", target.metric), besides)


def _variant(name: str, published: str, *fixed: str) -> TableRow:
    return TableRow(Contender(name, FSW.method, fixed=fixed), published)


def _fsw_against(
    title: str,
    topic: str,
    variants: tuple[TableRow, ...],
    about: str = "",
    usual: str | None = "fsw",
) -> ComparisonTable:
    """Return a table of FSW and variants of it, on all datasets and measures."""
    return ComparisonTable(
        title,
        topic,
        (TableRow(FSW, usual), *variants),
        columns("eer", "eo", "dp"),
        tuple(Pair(row.contender.name, FSW.name) for row in variants),
        " ".join(filter(None, (about, *NOTES.values()))),
    )


ABLATION = ComparisonTable(
    "With FSW and without",
    "ablation",
    (
        TableRow(REPLAY, "er"),
        TableRow(FSW, "fsw"),
        TableRow(RANDOM),
        TableRow(BALANCED),
        TableRow(BY_GROUP),
    ),
    columns("eer", "eo", "dp"),
    CONTROLS,
    " ".join(NOTES.values()),
)
NON_TARGETED = ComparisonTable(
    "Measures that FSW was not made for",
    "non-targeted",
    (
        TableRow(REPLAY, "er"),
        TableRow(Contender("FSW for EO", "fsw"), "fsw eo", measure="eo"),
        TableRow(Contender("FSW for DP", "fsw"), "fsw dp", measure="dp"),
    ),
    tuple(
        Column(
            Target(dataset, "eo"), ("accuracy", "eo_gap", "dp_predicted", "eer_task"), key=dataset
        )
        for dataset in DATASET_NAMES
        if Target(dataset, "eo") in TARGETS
    ),
    (Pair("FSW for EO", REPLAY.name), Pair("FSW for DP", REPLAY.name)),
)
HINGE = _fsw_against(
    "Hinge loss in the place of cross-entropy in the program",
    "hinge",
    (_variant("FSW, hinge", "fsw hinge", "loss=hinge"),),
)
BUFFER_STRATEGY = _fsw_against(
    "What the buffer keeps: random samples, or those with large weights first",
    "buffer-strategy",
    (
        _variant(
            "FSW, large weights first", "fsw large-weight-first", "buffer_rule=large-weight-first"
        ),
    ),
)
SOLVERS = _fsw_against(
    "Solvers of the linear program",
    "solvers",
    (
        _variant("FSW, CPLEX", "fsw cplex", "solver=cplex"),
        _variant("FSW, HiGHS", "fsw highs", "solver=highs"),
    ),
    "`FSW` is with the solver of faircil, which is exact. CPLEX needs a licence for programs of "
    "this size.",
    usual=None,
)


def _all_methods(title: str, topic: str, *measures: str) -> ComparisonTable:
    about = " ".join(NOTES[measure] for measure in measures)
    pairs = (*CONTROLS, *BEYOND)
    rows = (*ALL_METHODS, *VARIANTS)
    return ComparisonTable(title, topic, rows, columns(*measures), pairs, about, "tuned")


EER = _all_methods("Accuracy and EER disparity of all methods", "eer", "eer")
EO = _all_methods("Accuracy and EO disparity of all methods", "eo", "eo")
DP = _all_methods("Accuracy and DP disparity of all methods", "dp", "dp")
TABLE1 = replace(
    _all_methods("Accuracy and disparity of all methods: the main table", "table1", "eer", "eo"),
    rows=ALL_METHODS,
)


SPLIT = ("seconds gradient", "seconds lp", "seconds train")
ABOUT = (
    "Published times are of an Intel Xeon Silver 4114 with an NVIDIA RTX A6000. Ours are of the "
    "machines named below, and of runs side by side where the sweep made several at a time."
)
BIASED_EO = Target("biased-mnist", "eo")
ALL_LAYERS = Contender("FSW, all layers", "fsw", fixed=("gradient=all",))
LAYERS = ComparisonTable(
    "Gradients of the last layer, and of all layers",
    "layers",
    (TableRow(FSW, "fsw"), TableRow(ALL_LAYERS, "fsw all layers")),
    (Column(BIASED_EO, ("accuracy", "eo_gap", *SPLIT, "samples kept")),),
    (Pair(ALL_LAYERS.name, FSW.name),),
    f"{ABOUT} Samples kept are those with a weight above 0, per optimisation.",
)
TIMES = ("seconds total", *SPLIT)
RUNTIME = ComparisonTable(
    "Seconds of whole runs, and where those of FSW go",
    "runtime",
    (
        *(row for row in ALL_METHODS if row.published not in (None, "joint", "finetune")),
        TableRow(REPLAY),
    ),
    (
        Column(BIASED_EO, TIMES),
        Column(Target("biased-mnist", "dp"), TIMES, only=(FSW.name, REPLAY.name)),
        Column(Target("mnist", "eer"), TIMES, only=(FSW.name, REPLAY.name)),
    ),
    about=ABOUT,
)


def _moments(name: str, *fixed: str) -> Contender:
    return Contender(name, "moments", fixed=fixed, in_paper=False)


# All with the same features of the raw inputs; the weights of groups are what differs.
WIDTH = "width=4000"
MOMENTS = _moments("moments", WIDTH)
FIXED_WEIGHTS = (
    _moments("equal groups", WIDTH, "group_weights=group"),
    _moments("equal classes", WIDTH, "group_weights=class"),
    _moments("equal samples", WIDTH, "group_weights=samples"),
)
# As others have it: the largest ridge score wins.
RIDGE = (
    _moments("ridge, equal classes", WIDTH, "group_weights=class", "classifier=ridge"),
    _moments("ridge, equal samples", WIDTH, "group_weights=samples", "classifier=ridge"),
)
BY_MEANS = (
    _moments("nearest class mean", WIDTH, "classifier=nearest-mean"),
    _moments("LDA", WIDTH, "classifier=lda"),
)
# Replay against spurious correlations, with and without knowing the attribute.
RIVALS = (
    Contender("BGS", "bgs", in_paper=False),
    Contender("LwS", "lws", in_paper=False),
)
MORE_EVEN = _moments("moments, lam=.5", WIDTH, "lam=0.5")
LESS_EVEN = _moments("moments, lam=2", WIDTH, "lam=2")
ON_TRAINING = _moments("moments, training losses", WIDTH, "evened=training")
PATCHES = _moments("moments, patches", "features=patches", "width=9601")
PATCHES_EQUAL = replace(
    PATCHES, name="equal classes, patches", fixed=(*PATCHES.fixed, "group_weights=class")
)
OF_IMAGES = (PATCHES, PATCHES_EQUAL)
MOMENT_ROWS = (
    *(BY_NAME["joint training"], REPLAY, *RIVALS, FSW, DARK, DARK_BY_GROUP, *BY_MEANS),
    *(*RIDGE, *FIXED_WEIGHTS, MOMENTS, MORE_EVEN, LESS_EVEN, ON_TRAINING, *OF_IMAGES),
)
OF_TABLES = tuple(one.name for one in MOMENT_ROWS if one not in OF_IMAGES)
PEOPLE = ("census-occupation", "census-occupation-race", "nls-jobs", "obesity")
MOMENT_COLUMNS = (
    *(column for column in columns("eer", "eo", "dp") if column.target.dataset != "biasbios"),
    *(_column(Target(dataset, "eo")) for dataset in PEOPLE),
)
MOMENTS_TABLE = ComparisonTable(
    "Learning from moments, beside replay and ridge regression with fixed weights",
    "moments",
    tuple(TableRow(one) for one in MOMENT_ROWS),
    tuple(
        replace(column, besides=(*column.besides, "seconds total"), only=only)
        for column in MOMENT_COLUMNS
        for only in (OF_TABLES if column.target.dataset in ("drug", *PEOPLE) else None,)
    ),
    (
        *(
            Pair(MOMENTS.name, other.name)
            for other in (REPLAY, *RIVALS, DARK_BY_GROUP, *BY_MEANS, *RIDGE, *FIXED_WEIGHTS)
        ),
        Pair(MOMENTS.name, ON_TRAINING.name),
        Pair(PATCHES.name, PATCHES_EQUAL.name),
    ),
    "[Fair learning from moments](../moments.md) explains the method. Rows named `equal` differ"
    " from it in one thing: the weights of the groups are fixed, equal for all groups of a "
    "class, for all classes, or for all samples. What `moments` gives up in accuracy against "
    "`equal classes` is what fairness costs. In rows named `ridge` the largest ridge score wins"
    " besides, with equal samples as in RanPAC and ACIL, or equal classes as in AIR. `nearest "
    "class mean` and `LDA` are made of the same sums, with equal classes. `BGS` and `LwS` are "
    "replay against spurious correlations, not in the paper: the first trains the last layer "
    "again on a buffer balanced over classes and attribute values, the second finds clusters "
    "and does without the attribute. "
    "4,000 random ReLU features of the raw inputs, where all methods know the same; patches "
    "know that the inputs are images, which an MLP does not. Settings are the shipped ones; λ "
    "is chosen from the moments themselves. " + " ".join(NOTES.values()),
)


# On small data, where a run takes seconds. Decay acts where rows of a class come in several tasks.
NARROW = "width=400"
NARROW_MOMENTS = _moments("moments", NARROW)
FADING = (
    _moments("moments, decay=.5", NARROW, "decay=0.5"),
    _moments("moments, decay=.1", NARROW, "decay=0.1"),
)
AGAINST_NOISE = (
    _moments("moments, ridge=.1", NARROW, "ridge=0.1"),
    _moments("moments, ridge=10", NARROW, "ridge=10"),
    _moments("moments, certainty=3", NARROW, "certainty=3"),
    _moments("LDA", NARROW, "classifier=lda"),
)
REPLAYING = (REPLAY, DARK, Contender("GDumb", "gdumb", in_paper=False))
STREAM_ROWS = (*REPLAYING, NARROW_MOMENTS, *FADING, *AGAINST_NOISE)


def _stream_columns(base: str, measure: str) -> list[Column]:
    """Return a dataset and its variants, each with the rows that it is meant for."""

    def column(dataset: str, *further: Contender) -> Column:
        shown = (*REPLAYING, NARROW_MOMENTS, *further)
        return replace(
            _column(Target(dataset, measure)), only=tuple(contender.name for contender in shown)
        )

    further = {"drift": FADING, "blurry": FADING, "no": FADING, "noise": AGAINST_NOISE}
    return [
        column(base, *AGAINST_NOISE),
        *(
            column(streams.name_of(base, variant), *further.get(variant.partition("-")[0], ()))
            for variant in streams.VARIANTS
        ),
    ]


STREAMS_TABLE = ComparisonTable(
    "Streams that are not clean: drift, blur, single classes, wrong labels, no borders",
    "streams",
    tuple(TableRow(one) for one in STREAM_ROWS),
    (*_stream_columns("biased-digits", "eo"), *_stream_columns("digits", "eer")),
    (
        *(Pair(NARROW_MOMENTS.name, other.name) for other in REPLAYING),
        *(Pair(one.name, NARROW_MOMENTS.name) for one in (*FADING, *AGAINST_NOISE)),
    ),
    "Each dataset first as it is, two classes per task and right labels, then changed in one "
    "thing. *Drift*: half of the training data comes as ever, in five tasks; then every class "
    "comes back in five more, upside down, and is tested on that from then on. `decay` is what "
    "earlier rows of a group (class and attribute value) count once a task brings new rows of it. "
    "*Other tasks*: so many samples of each class come in any of the other tasks; a class is "
    "tested from its own task on, and may be predicted earlier. *Wrong labels*: any other class is"
    " as likely; a sample comes in the task of its label and keeps its attribute value, and test "
    "labels are right. *Chunks without borders*: classes fade in and out one after the other, two "
    "at a time, and a learner is given 25 equal chunks, each of them as if it were a task; a class"
    " is tested from the chunk with its first sample on. `accuracy` and disparity are means over "
    "the evaluations after each task or chunk, `final_accuracy` and `worst_group` are of the final"
    " model. Distorted copies of a digit come in the same task with the same label. Replay keeps "
    "32 samples of each group, a random draw from all that it saw of the group. All settings are "
    "the shipped ones of the dataset, with 400 features. " + " ".join((EER_NOTE, EO_NOTE)),
)
