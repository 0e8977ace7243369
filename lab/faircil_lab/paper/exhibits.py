"""Every table and figure by the name that ``faircil reproduce`` takes."""

from __future__ import annotations

from faircil_lab.paper import tables
from faircil_lab.paper.biographies import BIOGRAPHIES, TRAINED
from faircil_lab.paper.buffer_size import BufferSize
from faircil_lab.paper.chosen_settings import ChosenSettings
from faircil_lab.paper.cost import Cost
from faircil_lab.paper.epsilon_fair import EpsilonFair
from faircil_lab.paper.exhibit import Exhibit
from faircil_lab.paper.lp_time import LpTime
from faircil_lab.paper.methods import METHODS_TABLE
from faircil_lab.paper.sequential import Sequential
from faircil_lab.paper.taylor import Taylor
from faircil_lab.paper.toy import Toy
from faircil_lab.paper.tradeoff import Tradeoff
from faircil_lab.paper.tsne import Tsne
from faircil_lab.paper.weights import Weights

EXHIBITS: dict[str, Exhibit] = {
    "toy": Toy(),
    "table1": tables.TABLE1,
    "eer": tables.EER,
    "eo": tables.EO,
    "dp": tables.DP,
    "tradeoff": Tradeoff(),
    "sequential": Sequential(),
    "weights": Weights(),
    "ablation": tables.ABLATION,
    "non-targeted": tables.NON_TARGETED,
    "epsilon-fair": EpsilonFair(),
    "buffer-size": BufferSize(),
    "buffer-strategy": tables.BUFFER_STRATEGY,
    "hinge": tables.HINGE,
    "layers": tables.LAYERS,
    "solvers": tables.SOLVERS,
    "runtime": tables.RUNTIME,
    "lp-time": LpTime(),
    "taylor": Taylor(),
    "cost": Cost(),
    "tsne": Tsne(),
    # Pages without a counterpart in the paper.
    "methods": METHODS_TABLE,
    "chosen-settings": ChosenSettings(),
    "biographies": BIOGRAPHIES,
    "biographies-trained": TRAINED,
}
