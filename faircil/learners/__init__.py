"""The registry of methods; a learner's class is imported on first use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faircil.registry import (
    Loaded,
    Registry,
    implementation,
    load_reference,
    name_of,
    summary_of,
)

if TYPE_CHECKING:
    from torch import nn

    from faircil.compute import Generators
    from faircil.learners.base import Batch as Batch, Learner as Learner, Material as Material
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
    """A class-incremental learning method and its properties.

    Parameters
    ----------
    learner : type of Learner
        The class that implements it.
    summary : str
        One-line description.
    source : str
        Authors and year.
    replays : bool
        Whether it keeps a replay buffer.
    uses_attribute : bool
        Whether training depends on the sensitive attribute.
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
        """The class of the method's settings."""
        return self.learner.options

    @property
    def graphable(self) -> bool:
        """Whether its step can be recorded as a CUDA graph."""
        return self.learner.graphable

    @property
    def divisible(self) -> bool:
        """Whether its step can be divided among processes.

        The class itself declares this: a subclass with its own loss does not inherit it.
        """
        return bool(vars(self.learner).get("divisible", False))

    @property
    def one_pass(self) -> bool:
        """Whether it learns a task in one pass, without training steps."""
        return self.learner.one_pass

    def __call__(self, net: nn.Module, settings: Options, generators: Generators) -> Learner:
        """Create the learner."""
        return self.learner(net, settings, generators)


def as_method(piece: Any) -> Method:
    """Build a registry row from a learner's class, its class attributes and its docstring.

    Attributes that the class does not define are inherited from the method whose class it extends.
    The method replays a buffer if the class overrides ``remember``.
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
    """Return an attribute of the class or its bases; for a built-in class, that of its row.

    Summary and source describe a single method, so those of a built-in class are not inherited.
    """
    rows = {row.learner: row for row in _BUILT_IN.values()} if inherited else {}
    for kind in learner.__mro__:
        if name in vars(kind):
            return vars(kind)[name]
        if kind in rows:
            return getattr(rows[kind], name)
    return None


_BUILT_IN = {
    "moments": Method(
        f"{_HERE}.moments:Moments",
        summary="fair ridge regression on fixed features, from sums over all groups ever seen",
        source="–",
        uses_attribute=True,
        no_weighting="it weights all groups itself, from their moments",
    ),
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
        no_weighting="it trains on all data at once, so there is no current task to weight",
    ),
    "er": Method(
        f"{_HERE}.replay:Replay",
        summary="experience replay: current batch + tau · memory batch",
        source="Chaudhry et al. 2019",
        replays=True,
    ),
    "icarl": Method(
        f"{_HERE}.icarl:Icarl",
        summary="distillation with sigmoid outputs, herding, nearest-mean-of-exemplars classifier",
        source="Rebuffi et al. 2017",
        replays=True,
    ),
    "wa": Method(
        f"{_HERE}.new_class_bias:WeightAligning",
        summary="distillation + weights of new classes rescaled to the norm of the old",
        source="Zhao et al. 2020",
        replays=True,
    ),
    "bic": Method(
        f"{_HERE}.new_class_bias:BiasCorrection",
        summary="distillation + a learned scale and offset for the new classes' logits",
        source="Wu et al. 2019",
        replays=True,
    ),
    "clad": Method(
        f"{_HERE}.clad:Clad",
        summary="er + cosine term that separates new features from similar old classes",
        source="Xu et al. 2024, reconstructed",
        replays=True,
    ),
    "der++": Method(
        f"{_HERE}.derpp:DarkReplay",
        summary="dark experience replay: er + squared error to earlier logits of the buffer",
        source="Buzzega et al. 2020",
        replays=True,
    ),
    "er-ace": Method(
        f"{_HERE}.adjusted_logits:AsymmetricReplay",
        summary="replay whose current samples do not change the logits of old classes",
        source="Caccia et al. 2022",
        replays=True,
    ),
    "gdumb": Method(
        f"{_HERE}.balanced_buffer:Dumb",
        summary="a new net for each task, trained on the buffer alone (baseline for replay)",
        source="Prabhu et al. 2020",
        replays=True,
        no_weighting="it trains on the buffer alone, so there are no current samples to weight",
    ),
    "fairl": Method(
        f"{_HERE}.fairl:Fairl",
        summary="features trained by rate reduction against an adversary for the attribute",
        source="Chowdhury and Chaturvedi 2023",
        replays=True,
        uses_attribute=True,
        no_weighting="its features are trained by the rates of whole batches, not by sample losses",
    ),
    "group-dro": Method(
        f"{_HERE}.group_shares:GroupDro",
        summary="group-DRO with replay: groups with a large loss get a large weight",
        source="Sagawa et al. 2020",
        replays=True,
        uses_attribute=True,
        no_weighting="it draws its samples itself, evenly over groups, and weights the groups",
    ),
    "fairbatch": Method(
        f"{_HERE}.group_shares:FairBatch",
        summary="FairBatch-style sampling: group shares in a batch follow the losses",
        source="Roh et al. 2021",
        replays=True,
        uses_attribute=True,
        no_weighting="it draws its samples itself, by the shares of their groups",
    ),
    "logit-adjustment": Method(
        f"{_HERE}.adjusted_logits:LogitAdjustment",
        summary="replay with log class frequencies added to the logits in training",
        source="Menon et al. 2021",
        replays=True,
    ),
    "gss": Method(
        f"{_HERE}.gss:Gss",
        summary="replay of samples with diverse gradients",
        source="Aljundi et al. 2019",
        replays=True,
    ),
    "ocs": Method(
        f"{_HERE}.ocs:Ocs",
        summary="replay, trained on a coreset of each batch",
        source="Yoon et al. 2022",
        replays=True,
    ),
    "bgs": Method(
        f"{_HERE}.balanced_buffer:BalancedReplay",
        summary="replay + last layer trained again on a buffer balanced over classes and groups",
        source="Lee et al. 2024",
        replays=True,
        uses_attribute=True,
    ),
    "lws": Method(
        f"{_HERE}.lws:ClusterReplay",
        summary="replay with weights of clusters by their losses and a buffer spread over losses",
        source="Capitani et al. 2025",
        replays=True,
        no_weighting="it weights its current samples itself, by the losses of their clusters",
    ),
    "agem": Method(
        f"{_HERE}.replay:AGem",
        summary="gradients projected so that the loss of a memory batch does not increase",
        source="Chaudhry et al. 2019",
        replays=True,
    ),
}
LEARNERS: Registry[Method] = Registry("method", "faircil.learners", as_method, _BUILT_IN)
# Aliases: short names for a learner with a weighting.
ALIASES: dict[str, tuple[str, str]] = {"fsw": ("er", "fsw")}


def learner_named(name: str) -> type | None:
    """Return the class of a learner or of its settings, by full name; None if unknown.

    Used to read files that refer to classes by name.
    """
    kinds = (kind for row in LEARNERS.values() for kind in (implementation(row), row.options))
    return next((kind for kind in kinds if name_of(kind) == name), None)
