"""A metric: how far the best class is above the worst."""

from faircil.counts import Counts
from faircil.metrics import Metric


def class_gap(counts: Counts) -> float:
    """Return the accuracy of the best class minus that of the worst."""
    accuracies = counts.class_accuracies[counts.seen]
    return float(accuracies.max() - accuracies.min())


CLASS_GAP = Metric(
    class_gap,
    title="gap between classes",
    summary="Accuracy of the best class minus that of the worst",
    compares="class",
)
