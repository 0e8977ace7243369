"""Every table and figure by the name that ``faircil reproduce`` takes; all but two of the paper."""

from __future__ import annotations

from faircil.reproduction.exhibit import Exhibit
from faircil.reproduction.exhibits import tables, times
from faircil.reproduction.exhibits.biographies import BIOGRAPHIES
from faircil.reproduction.exhibits.biographies_trained import TRAINED
from faircil.reproduction.exhibits.buffer_size import BufferSize
from faircil.reproduction.exhibits.cost import Cost
from faircil.reproduction.exhibits.epsilon_fair import EpsilonFair
from faircil.reproduction.exhibits.lp_time import LpTime
from faircil.reproduction.exhibits.sequential import Sequential
from faircil.reproduction.exhibits.taylor import Taylor
from faircil.reproduction.exhibits.toy import Toy
from faircil.reproduction.exhibits.tradeoff import Tradeoff
from faircil.reproduction.exhibits.tsne import Tsne
from faircil.reproduction.exhibits.weights import Weights

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
    "layers": times.LAYERS,
    "solvers": tables.SOLVERS,
    "runtime": times.RUNTIME,
    "lp-time": LpTime(),
    "taylor": Taylor(),
    "cost": Cost(),
    "tsne": Tsne(),
    "biographies": BIOGRAPHIES,
    "biographies-trained": TRAINED,
}
