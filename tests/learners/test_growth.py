"""Classes that nobody knew of: the net grows, and what was learned stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from faircil.learners import LEARNERS
from faircil.packing import pack, unpack
from faircil.runs.config import resolve
from faircil.runs.experiment import run
from faircil.runs.state import load_stream

SMALL = ("epochs=1", "hidden=8")


@pytest.mark.parametrize("method", LEARNERS)
def test_known_classes_keep_their_scores_when_others_come(method: str) -> None:
    own = ("width=40",) if method == "moments" else SMALL
    config = resolve(dataset="toy", method=method, overrides=own)
    whole = load_stream(config, 0)
    short = replace(whole, tasks=whole.tasks[:1], class_names=whole.class_names[:2])
    states = []
    run(config, 0, stream=short, checkpoint=states.append)
    learner = states[-1].learner
    x = whole.tasks[0].test.x
    before = learner.scores(x)
    learner.grow(whole.n_classes)
    after = learner.scores(x)
    torch.testing.assert_close(after[:, :2], before[:, :2], rtol=0, atol=0)
    # It learns the new classes, and can be kept and read in between.
    state = unpack(pack(states[-1]))
    found = run(config, 0, stream=whole, state=state)
    assert len(found.per_task) == len(whole.tasks)
    assert set(found.predictions[-1].y_pred.tolist()) <= set(range(whole.n_classes))
