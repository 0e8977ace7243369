"""A buffer rule: herding, as iCaRL chooses its exemplars."""

from torch import Tensor
from torch.nn.functional import normalize

from faircil.buffer import Candidates
from faircil.learners.icarl import herd


def herding(group: Candidates) -> Tensor:
    """Keep samples whose mean feature stays close to that of their group."""
    return herd(normalize(group.features()), group.quota)
