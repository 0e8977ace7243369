"""Gradients of every parameter instead of those of the last layer only.

Two ways, of which the net decides: where all trained layers are linear, its gradients are kept as
factors (:mod:`.factored`); any other net is differentiated in forward mode (:mod:`.forward_mode`).
"""

from faircil.weighting.all_layers.statistics import AllLayerStatistics as AllLayerStatistics
from faircil.weighting.all_layers.statistics import all_layer_statistics as all_layer_statistics
