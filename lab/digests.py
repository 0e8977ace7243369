"""Digests of small runs of every learner, weighting and setting of FSW: the same bits or not.

    python lab/digests.py before.json              write them, with the code as it is
    python lab/digests.py after.json before.json   the same later, and name those that differ

Bits depend on the machine, so compare files of one machine only.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from faircil import RunConfig, run
from faircil.learners import LEARNERS
from faircil.runs.state import RunState
from faircil.testing.learners import small_config, small_stream
from faircil.weighting.selection import WEIGHTINGS

SEEDS = (0, 1)
MORE_EPOCHS = {"gdumb": 16}  # it takes few steps in an epoch
VARIANTS: tuple[dict[str, object], ...] = (
    *({"granularity": name} for name in ("group", "cluster", "cluster-weights")),
    *({"solver": name} for name in ("highs", "first-order")),
    {"gradient": "all"},
    {"loss": "hinge"},
    {"floor": "false"},
    {"keep": "all"},
    {"round": "true"},
    {"lam": 0},
    {"memory_batch_size": 5},
    {"buffer_size": 3},
)


def cases() -> Iterator[tuple[str, RunConfig, bool]]:
    """Yield name, configuration and whether there is an attribute."""
    for method, row in LEARNERS.items():
        for weighting in WEIGHTINGS if row.no_weighting is None else ("none",):
            for attribute in (False, True):
                epochs = MORE_EPOCHS.get(method, 2)
                config = small_config(method, weighting, attribute=attribute, epochs=epochs)
                yield f"{method} {weighting} {attribute}", config, attribute
    for variant in VARIANTS:
        for measure in ("eer", "eo", "dp"):
            for method in ("er", "der++"):
                config = small_config(method, "fsw", attribute=True, measure=measure, **variant)
                yield f"{method} fsw {measure} {variant}", config, True


def digest(config: RunConfig, seed: int, attribute: bool) -> str:
    """Return a hash of the net, the buffer, the predictions and the weights of a run."""
    states: list[RunState] = []
    stream = small_stream(attribute=attribute)
    result = run(config, seed, stream=stream, checkpoint=states.append)
    found = hashlib.sha256()
    for value in states[-1].learner.net.state_dict().values():
        found.update(value.detach().cpu().numpy().tobytes())
    if (kept := states[-1].buffer.samples) is not None:
        found.update(kept.x.numpy().tobytes() + kept.y.numpy().tobytes())
    for predictions in result.predictions:
        found.update(predictions.y_pred.astype("int64").tobytes())
    for epoch in result.epochs:
        weights = epoch.weights
        values = None if weights is None else (weights.objective, weights.kept, weights.groups)
        found.update(repr((epoch.task, epoch.epoch, epoch.trained, epoch.steps, values)).encode())
    return found.hexdigest()[:16]


def main(written: Path, before: Path | None = None) -> None:
    """Write the digests, and compare them with those of another file."""
    digests = {
        f"{name} seed {seed}": digest(config, seed, attribute)
        for name, config, attribute in cases()
        for seed in SEEDS
    }
    written.write_text(json.dumps(digests, indent=0) + "\n", encoding="utf-8")
    print(f"{len(digests)} runs")  # noqa: T201
    if before is not None:
        old = json.loads(before.read_text(encoding="utf-8"))
        differing = [name for name in {**old, **digests} if old.get(name) != digests.get(name)]
        print("\n".join(differing) or "the same bits")  # noqa: T201


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
