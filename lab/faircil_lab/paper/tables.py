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
from faircil_lab.paper.metrics import DATASET_NAMES, PEOPLE, TARGETS, Target
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
MOMENTS = Contender("moments", "moments", in_paper=False)
# Along with the methods of the paper. Its penalty is chosen from the moments, and lam is a
# preference of the user, so nothing is left to search.
APART = (TableRow(MOMENTS, settings="shipped", apart=True),)
CONTROLS = (
    Pair(FSW.name, REPLAY.name),
    Pair(FSW.name, RANDOM.name),
    Pair(FSW.name, BALANCED.name),
)
BEYOND = (
    Pair(BY_GROUP.name, REPLAY.name),
    Pair(DARK_BY_GROUP.name, DARK.name),
)
MOMENTS_PAIRS = (Pair(MOMENTS.name, FSW.name), Pair(MOMENTS.name, DARK_BY_GROUP.name))
EER_NOTE = "What the paper prints as EER disparity is `eer_task`, the mean over tasks."
EO_NOTE = "What the paper prints as EO disparity is `eo_gap`, twice `eo` for two groups."
DP_NOTE = (
    "What the paper prints as DP disparity is `dp_predicted`, over the classes that are predicted "
    "at least once; `dp`, over all seen classes as its formula says, is shown next to it."
)
NOTES = {"eer": EER_NOTE, "eo": EO_NOTE, "dp": DP_NOTE}


def columns(*measures: str) -> tuple[Column, ...]:
    """Return all datasets of some measures, with accuracy and the disparity that is printed."""
    return tuple(column_of(target) for target in TARGETS if target.measure in measures)


def column_of(target: Target) -> Column:
    """Return a target with accuracy, the disparity that the paper prints, and other metrics."""
    # Next to every disparity: the final model, and whether its worst group has been sacrificed.
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
    "Measures that FSW does not target",
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
    "Hinge loss instead of cross-entropy in the program",
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
    pairs = (*CONTROLS, *BEYOND, *MOMENTS_PAIRS)
    rows = (*ALL_METHODS, *VARIANTS, *APART)
    return ComparisonTable(title, topic, rows, columns(*measures), pairs, about, "tuned")


EER = _all_methods("Accuracy and EER disparity of all methods", "eer", "eer")
EO = _all_methods("Accuracy and EO disparity of all methods", "eo", "eo")
DP = _all_methods("Accuracy and DP disparity of all methods", "dp", "dp")
TABLE1 = replace(
    _all_methods("Accuracy and disparity of all methods: the main table", "table1", "eer", "eo"),
    rows=(*ALL_METHODS, *APART),
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
    "Time of whole runs, and where FSW spends it",
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


def _variant_of(contender: Contender, words: str, *fixed: str) -> Contender:
    """Return a replay method with one thing changed, and its settings otherwise."""
    return replace(
        contender,
        name=f"{contender.name}, {words}",
        fixed=(*contender.fixed, *fixed),
        in_paper=False,
        settings_of=contender,
    )


# What auto has as "replay with fair draws", here with settings that are searched.
DRAWS = Contender(
    "DER++ with fair draws",
    "der++",
    "fsw",
    (*DARK_BY_GROUP.fixed, "keep=draw", "average_last=0.2", "memory_batch_size=256"),
    in_paper=False,
    note=DARK.note,
)
# The same, with the settings that are shipped, which were chosen by a larger search.
SHIPPED_DRAWS = replace(DRAWS, name="DER++ with fair draws, shipped settings")
GDUMB = Contender("GDumb", "gdumb", in_paper=False)
# Replay against spurious correlations, with and without knowing the attribute.
RIVALS = (Contender("BGS", "bgs", in_paper=False), Contender("LwS", "lws", in_paper=False))
REPLAYS = (
    BY_NAME["joint training"],
    *(REPLAY, DARK, GDUMB, *RIVALS, FSW, DARK_BY_GROUP, DRAWS),
)
IN_CONV = tuple(_variant_of(one, "conv net", "net=conv") for one in (REPLAY, DARK, DRAWS))
WITH_HEAD = tuple(
    _variant_of(one, "head of moments", "predictor=moments", "lam=1") for one in (REPLAY, DARK)
)
BY_MEANS = (
    _moments("nearest class mean", "classifier=nearest-mean"),
    _moments("LDA", "classifier=lda"),
)
# As others have it: the largest ridge score wins.
RIDGE = (
    _moments("ridge, equal samples", "group_weights=samples", "classifier=ridge"),
    _moments("ridge, equal classes", "group_weights=class", "classifier=ridge"),
)
EQUAL_CLASSES = _moments("equal classes", "group_weights=class")
FIXED_WEIGHTS = (
    _moments("equal samples", "group_weights=samples"),
    EQUAL_CLASSES,
    _moments("equal groups", "group_weights=group"),
)
TRADED = (_moments("moments, lam=.5", "lam=0.5"), _moments("moments, lam=2", "lam=2"))
ON_TRAINING = _moments("moments, training losses", "evened=training")
LARGE = "width=4000"
LARGER = (
    _moments("moments, 4,000 features", LARGE),
    _moments("moments, 4,000 features, lam=.5", LARGE, "lam=0.5"),
    _moments("moments, 4,000 features, lam=1.5", LARGE, "lam=1.5"),
)
PATCHES = _moments("moments, patches", "features=patches")
MANY_PATCHES = _moments("moments, 9,601 patches", "features=patches", "width=9601")
EVEN_PATCHES = _moments("moments, 9,601 patches, lam=.5", *MANY_PATCHES.fixed, "lam=0.5")
PATCHES_EQUAL = _moments("equal classes, 9,601 patches", *MANY_PATCHES.fixed, "group_weights=class")
TRAINED = _moments("moments, trained features", "features=trained")
TRAINED_CONV = _moments("moments, trained features of a conv net", "features=trained", "net=conv")
OF_LARGE_IMAGES = (*IN_CONV, *LARGER, TRAINED_CONV, MANY_PATCHES, EVEN_PATCHES, PATCHES_EQUAL)
NETS_TOGETHER = (*WITH_HEAD, TRAINED)  # where a net's features may be worth it
OF_IMAGES = (PATCHES,)
FROM_MOMENTS = (*BY_MEANS, *RIDGE, *FIXED_WEIGHTS, MOMENTS, *TRADED, ON_TRAINING, *LARGER)
MOMENT_ROWS = (
    *(TableRow(one) for one in REPLAYS),
    TableRow(SHIPPED_DRAWS, settings="shipped"),
    *(TableRow(one) for one in (*WITH_HEAD, *IN_CONV)),
    # As APART: nothing is left to search.
    *(
        TableRow(one, settings="shipped")
        for one in (
            *(*FROM_MOMENTS, TRAINED, TRAINED_CONV),
            *(PATCHES, MANY_PATCHES, EVEN_PATCHES, PATCHES_EQUAL),
        )
    ),
)
LARGE_IMAGES = ("mnist", "fashion-mnist", "biased-mnist")
IMAGES = (*LARGE_IMAGES, "digits", "biased-digits")
TEXTS = "biasbios-sample"
MOMENT_TARGETS = (
    *(column.target for column in columns("eer", "eo", "dp") if column.target.dataset in IMAGES),
    Target("digits", "eer"),
    *(Target(dataset, "eo") for dataset in ("biased-digits", "drug", *PEOPLE, TEXTS)),
)


def moment_column(target: Target) -> Column:
    """Return a target with the rows that suit its data, and their times."""
    apart = () if target.dataset in LARGE_IMAGES else OF_LARGE_IMAGES
    apart += () if target.dataset in IMAGES else OF_IMAGES
    apart += () if target.dataset in (*LARGE_IMAGES, TEXTS) else NETS_TOGETHER
    names = tuple(row.contender.name for row in MOMENT_ROWS if row.contender not in apart)
    usual = column_of(target)
    return replace(usual, besides=(*usual.besides, "seconds total"), only=names)


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
REPLAYING = (REPLAY, DARK, GDUMB)
STREAM_ROWS = (*REPLAYING, NARROW_MOMENTS, *FADING, *AGAINST_NOISE)


def _stream_columns(base: str, measure: str) -> list[Column]:
    """Return a dataset and its variants, each with the rows that it is meant for."""

    def column(dataset: str, *further: Contender) -> Column:
        shown = (*REPLAYING, NARROW_MOMENTS, *further)
        return replace(
            column_of(Target(dataset, measure)), only=tuple(contender.name for contender in shown)
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
    "Each dataset first unchanged, with two classes per task and correct labels, then with one "
    "change. *Drift*: half of the training data comes as usual, in five tasks; then every class "
    "comes back in five more, upside down, and is tested on that from then on. `decay` is the "
    "weight of earlier rows of a group (class and attribute value) once a task brings as many new "
    "rows of it. *Other tasks*: this share of each class comes in any of the other tasks; a class "
    "is tested from its own task on, and may be predicted earlier. *Wrong labels*: every other "
    "class is equally likely; a sample comes in the task of its label and keeps its attribute "
    "value, and test labels are correct. *Chunks without borders*: classes fade in and out one "
    "after the other, two at a time, and a learner gets 25 equal chunks, each like a task; a class "
    "is tested from the chunk with its first sample on. `accuracy` and disparity are means over "
    "the evaluations after each task or chunk, `final_accuracy` and `worst_group` are of the final "
    "model. Distorted copies of a digit come in the same task with the same label. Replay keeps 32 "
    "samples of each group, a random draw from all that it has seen of the group. All settings are "
    "the shipped ones of the dataset, with 400 features. " + " ".join((EER_NOTE, EO_NOTE)),
)
