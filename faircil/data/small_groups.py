"""Groups with few training samples, named for the user."""

from __future__ import annotations

from faircil.data.stream import TaskStream
from faircil.errors import shortened
from faircil.samples import group_counts

MOST_NAMED = 12  # small groups


def small_groups(stream: TaskStream, quota: int) -> list[str]:
    """Say which groups have no training sample, or fewer than the buffer's quota (0: no buffer)."""
    absent, small = [], []
    for number, task in enumerate(stream.tasks, start=1):
        counts = group_counts(task.train)
        for c in task.classes:
            for z in range(max(1, len(stream.attribute_values))):
                name = f"class '{stream.class_names[c]}'"
                if stream.attribute is None:
                    count = counts.get((c,), 0)
                else:
                    name += f" with {stream.attribute} '{stream.attribute_values[z]}'"
                    count = counts.get((c, z), 0)
                if count == 0:
                    absent.append(f"{name} (task {number})")
                elif count < quota:
                    small.append(f"{name} ({count}, task {number})")
    notes = []
    if absent:
        notes.append(
            f"without a training sample, so they take no part: {shortened(absent, MOST_NAMED)}"
        )
    if small:
        notes.append(
            f"with fewer training samples than the {quota} that the buffer keeps per group, so all "
            f"of them are kept: {shortened(small, MOST_NAMED)}"
        )
    return notes
