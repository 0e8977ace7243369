"""Methods by name: a row says what a learner is, and its class loads on first use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faircil.registry import Loaded, Registry, load_reference, summary_of

if TYPE_CHECKING:
    from torch import nn

    from faircil.compute import Generators
    from faircil.learners.base import Batch as Batch
    from faircil.learners.base import Learner as Learner
    from faircil.learners.base import Material as Material
    from faircil.options import Options as Options

_HERE = "faircil.learners"
_PUBLIC = {
    "Batch": f"{_HERE}.base",
    "Learner": f"{_HERE}.base",
    "Material": f"{_HERE}.base",
    "Options": "faircil.options",
}


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'faircil.learners' has no attribute '{name}'")
    return load_reference(f"{_PUBLIC[name]}:{name}")


@dataclass(frozen=True)
class Method:
    """A way to learn class after class.

    Parameters
    ----------
    learner : type of Learner
        Its class.
    summary : str
        One line for people.
    source : str
        Who proposed it.
    replays : bool
        Whether it keeps a replay buffer.
    uses_attribute : bool
        Whether a sensitive attribute, where there is one, changes how it trains.
    no_weighting : str or None
        Why its current samples cannot be weighted; None if they can.
    """

    learner: Loaded[type[Learner]] = Loaded()
    summary: str = ""
    source: str = "–"
    replays: bool = False
    uses_attribute: bool = False
    no_weighting: str | None = None

    @property
    def options(self) -> type[Options]:
        """The class of its settings."""
        return self.learner.options

    @property
    def graphable(self) -> bool:
        """Whether its step can be recorded as a CUDA graph."""
        return self.learner.graphable

    def __call__(self, net: nn.Module, settings: Options, generators: Generators) -> Learner:
        """Make the learner."""
        return self.learner(net, settings, generators)


def as_method(piece: Any) -> Method:
    """Make a row of a learner's class, from its class attributes and its docstring.

    What the class does not say it has from the method whose class it extends. It keeps a buffer if
    it overrides ``remember``.
    """
    if isinstance(piece, Method):
        return piece
    from faircil.learners.base import Learner

    if not (isinstance(piece, type) and issubclass(piece, Learner)):
        raise TypeError(f"expected a Method or a subclass of Learner, got {piece!r}")
    return Method(
        piece,
        summary=_stated(piece, "summary") or summary_of(piece),
        source=_stated(piece, "source") or "–",
        replays=_stated(piece, "replays") or piece.remember is not Learner.remember,
        uses_attribute=bool(_stated(piece, "uses_attribute", inherited=True)),
        no_weighting=_stated(piece, "no_weighting", inherited=True),
    )


def _stated(learner: type[Learner], name: str, *, inherited: bool = False) -> Any:
    """Return an attribute of the class or of those it extends; of a built-in one, that of its row.

    A summary and a source are of one method: those of a built-in class do not pass on.
    """
    rows = {row.learner: row for row in _BUILT_IN.values()} if inherited else {}
    for kind in learner.__mro__:
        if name in vars(kind):
            return vars(kind)[name]
        if kind in rows:
            return getattr(rows[kind], name)
    return None


_BUILT_IN = {
    "finetune": Method(
        f"{_HERE}.replay:FineTune",
        summary="the current task alone (lower bound)",
        source="–",
        no_weighting="it keeps no buffer, so the losses of old groups cannot be measured",
    ),
    "joint": Method(
        f"{_HERE}.replay:Joint",
        summary="all data of all tasks so far (upper bound)",
        source="–",
        no_weighting="it trains on all data at once, so there is no current task to weigh",
    ),
    "er": Method(
        f"{_HERE}.replay:Replay",
        summary="experience replay: current batch + tau · memory batch",
        source="Chaudhry et al. 2019",
        replays=True,
    ),
    "icarl": Method(
        f"{_HERE}.icarl:Icarl",
        summary="distillation by sigmoid outputs, herded exemplars, nearest mean of exemplars",
        source="Rebuffi et al. 2017",
        replays=True,
    ),
    "wa": Method(
        f"{_HERE}.wa:WeightAligning",
        summary="distillation + new rows of the last layer scaled to the length of the old",
        source="Zhao et al. 2020",
        replays=True,
    ),
    "bic": Method(
        f"{_HERE}.bic:BiasCorrection",
        summary="distillation + a scale and an offset for the new classes' logits",
        source="Wu et al. 2019",
        replays=True,
    ),
    "clad": Method(
        f"{_HERE}.clad:Clad",
        summary="er + cosine term that parts new features from the old classes they resemble",
        source="Xu et al. 2024, reconstructed",
        replays=True,
    ),
    "der++": Method(
        f"{_HERE}.derpp:DarkReplay",
        summary="dark experience replay: er + squared error to the buffer's earlier logits",
        source="Buzzega et al. 2020",
        replays=True,
    ),
    "er-ace": Method(
        f"{_HERE}.er_ace:AsymmetricReplay",
        summary="replay where current samples leave the logits of old classes alone",
        source="Caccia et al. 2022",
        replays=True,
    ),
    "gdumb": Method(
        f"{_HERE}.gdumb:Dumb",
        summary="a new net for each task, trained on the buffer alone (what replay must beat)",
        source="Prabhu et al. 2020",
        replays=True,
        no_weighting="it trains on the buffer alone, so there are no current samples to weigh",
    ),
    "fairl": Method(
        f"{_HERE}.fairl:Fairl",
        summary="features by rate reduction, against an adversary that looks for the attribute",
        source="Chowdhury and Chaturvedi 2023",
        replays=True,
        uses_attribute=True,
        no_weighting="its features are trained by the rates of whole batches, not by sample losses",
    ),
    "group-dro": Method(
        f"{_HERE}.group_dro:GroupDro",
        summary="group-DRO on replay: groups with a large loss get a large weight",
        source="Sagawa et al. 2020",
        replays=True,
        uses_attribute=True,
        no_weighting="it draws its samples itself, evenly over groups, and weighs the groups",
    ),
    "fairbatch": Method(
        f"{_HERE}.fairbatch:FairBatch",
        summary="FairBatch-style sampling: shares of groups in a batch follow their losses",
        source="Roh et al. 2021",
        replays=True,
        uses_attribute=True,
        no_weighting="it draws its samples itself, by the shares of their groups",
    ),
    "logit-adjustment": Method(
        f"{_HERE}.logit_adjustment:LogitAdjustment",
        summary="replay with log frequencies of the classes added to the logits in training",
        source="Menon et al. 2021",
        replays=True,
    ),
    "gss": Method(
        f"{_HERE}.gss:Gss",
        summary="replay of samples whose gradients point apart",
        source="Aljundi et al. 2019",
        replays=True,
    ),
    "ocs": Method(
        f"{_HERE}.ocs:Ocs",
        summary="replay, trained on the part of each batch that suits batch and buffer best",
        source="Yoon et al. 2022",
        replays=True,
    ),
    "agem": Method(
        f"{_HERE}.agem:AGem",
        summary="a step may not raise the loss of a memory batch: its gradient is projected",
        source="Chaudhry et al. 2019",
        replays=True,
    ),
}
LEARNERS: Registry[Method] = Registry("method", "faircil.learners", as_method, _BUILT_IN)
# Another name for a learner with a weighting switched on.
ALIASES: dict[str, tuple[str, str]] = {"fsw": ("er", "fsw")}
