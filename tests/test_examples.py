"""The examples of own training loops run, and weigh before they draw."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from faircil import FairSampler, FairSampleWeights, sampler
from faircil.weighting import WeightResult

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
LONGEST = {"plain_loop": 25}
PACKAGES = {
    "skorch_callback": "skorch",
    "lightning_callback": "pytorch_lightning",
    "trainer_callback": "accelerate",
}


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What happens in training, in order: a weighing, an epoch's draws."""
    monkeypatch.chdir(tmp_path)  # files that a trainer writes
    found: list[str] = []
    weigh, draw = FairSampleWeights.__call__, sampler.draw_rows

    def weighed(*arguments: Any, **options: Any) -> WeightResult:
        found.append("weigh")
        return weigh(*arguments, **options)

    def drawn(*arguments: Any) -> Any:
        found.append("draw")
        return draw(*arguments)

    monkeypatch.setattr(FairSampleWeights, "__call__", weighed)
    monkeypatch.setattr(sampler, "draw_rows", drawn)
    return found


def run(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")


def test_the_plain_loop_is_the_one_of_the_documentation(events: list[str]) -> None:
    text = (EXAMPLES / "plain_loop.py").read_text("utf-8")
    assert len(text.splitlines()) <= 25
    assert text.partition('"""\n\n')[2] in (ROOT / "docs/own-loop.md").read_text("utf-8")
    found = run("plain_loop")
    assert events == ["weigh"] * 3  # the epochs of the second task
    assert found["net"](found["task"].x).argmax(dim=1).eq(found["task"].y).float().mean() > 0.6


@pytest.mark.filterwarnings(
    # Of Lightning itself: it uses what torch deprecates, advises workers for tiny data, and srun on
    # machines that have it.
    "ignore:.*LeafSpec.*:FutureWarning",
    "ignore:.*does not have many workers:UserWarning",
    "ignore:The `srun` command is available",
)
@pytest.mark.parametrize("name", PACKAGES)
def test_a_callback_weighs_before_each_epoch_is_drawn(name: str, events: list[str]) -> None:
    package = PACKAGES[name]
    pytest.importorskip(package, reason=f"{package} is not installed; `make setup` installs it")
    found = run(name)
    assert events == ["weigh", "draw"] * 2
    assert isinstance(found["sampler"], FairSampler)
