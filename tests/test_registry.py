"""Pieces by name: built in, added by a call, found in installed packages."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest

import faircil
from faircil import registry
from faircil.errors import FaircilError, UsageError
from faircil.learners import LEARNERS, Learner, Method
from faircil.learners.group_shares import FairBatch
from faircil.learners.replay import FineTune, Replay
from faircil.registry import KINDS, PluginError, Registry, implementation, registry_of
from faircil.weighting.groups import Floats, Groups
from faircil.weighting.measures import MEASURES, Measure, as_measure


def total(groups: Groups) -> Floats:
    """Add all losses up.

    More text.
    """
    return np.ones((1, len(groups)))


TOTAL = Measure(total, summary="all losses")
Installed = Callable[..., Registry[Measure]]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Return a registry with the measure ``eo`` and entry points of a package."""

    def with_points(**points: str) -> Registry[Measure]:
        found = {name: [EntryPoint(name, value, "g")] for name, value in points.items()}
        monkeypatch.setattr(registry, "_entry_points", lambda group: found if group == "g" else {})
        return Registry("measure", "g", as_measure, {"eo": MEASURES["eo"]})

    return with_points


def test_a_function_a_class_or_a_row_can_be_added() -> None:
    faircil.register("measure", "total", total)
    try:
        assert MEASURES["total"].matrix is total
        assert MEASURES["total"].summary == "Add all losses up"
        faircil.register("measure", "total", TOTAL)  # again: a cell of a notebook was changed
        assert MEASURES["total"] is TOTAL
    finally:
        MEASURES.remove("total")
    assert "total" not in MEASURES


def test_a_name_that_is_taken_is_refused_with_its_origin() -> None:
    with pytest.raises(UsageError, match="measure 'eo' exists already, defined by faircil itself"):
        faircil.register("measure", "eo", total)
    with pytest.raises(UsageError, match="exists already"):
        faircil.register("metric", "accuracy", total)


@pytest.mark.parametrize("name", ["", "two words", "a,b", "a=b"])
def test_a_name_that_no_setting_could_use_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not a name for a measure"):
        faircil.register("measure", name, total)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_piece_is_refused(kind: str) -> None:
    with pytest.raises(UsageError, match=r"'mine': expected a .* got 7"):
        faircil.register(kind, "mine", 7)
    assert "mine" not in registry_of(kind)


def test_an_unknown_kind_or_name_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="unknown kind of piece 'mesure': did you mean 'measure'"):
        faircil.register("mesure", "mine", total)
    with pytest.raises(UsageError, match="unknown measure 'eoo': did you mean 'eo'"):
        MEASURES.find("eoo")
    with pytest.raises(UsageError, match="no measure 'eo' was added"):
        MEASURES.remove("eo")


def test_every_row_leads_to_the_code_that_it_stands_for() -> None:
    for kind in KINDS:
        for row in registry_of(kind).values():
            assert implementation(row).__module__.startswith(("faircil.", "faircil_lab."))
    assert implementation(LEARNERS["er"]) is Replay
    assert implementation(TOTAL) is total


def test_entry_points_are_found_by_name_and_loaded_on_use(installed: Installed) -> None:
    table = installed(mine=f"{__name__}:TOTAL", broken="no_such_module:x")
    assert list(table) == ["eo", "mine", "broken"]
    assert len(table) == 3
    assert "broken" in table
    assert table["mine"].summary == "all losses"
    assert table["mine"] is table["mine"]


def test_a_package_that_fails_to_load_breaks_only_its_own_piece(
    installed: Installed, caplog: pytest.LogCaptureFixture
) -> None:
    table = installed(mine=f"{__name__}:TOTAL", broken="no_such_module:x", odd=f"{__name__}:KINDS")
    with caplog.at_level(logging.WARNING):
        assert list(table.items()) == list({"eo": MEASURES["eo"], "mine": TOTAL}.items())
        assert len(table.values()) == 2
    assert len(caplog.messages) == 2  # each is said once
    with pytest.raises(PluginError, match=r"'broken' cannot be loaded from .*no_such_module:x"):
        table["broken"]
    with pytest.raises(PluginError, match="'odd': expected a Measure or a function"):
        table["odd"]


def test_a_package_that_takes_a_built_in_name_is_an_error_that_names_both(
    installed: Installed,
) -> None:
    table = installed(eo=f"{__name__}:TOTAL")
    with pytest.raises(FaircilError, match=r"more than once: by faircil itself and by .*TOTAL"):
        table["eo"]
    assert dict(table.items()) == {}


def test_a_call_cannot_take_the_name_of_a_package(installed: Installed) -> None:
    table = installed(mine=f"{__name__}:TOTAL")
    with pytest.raises(UsageError, match="'mine' exists already, defined by package"):
        table.add("mine", total)


class Mine(FairBatch):
    """Sample batches in another way.

    More text.
    """


class Other(Learner):
    source = "someone"
    no_weighting = "it has none"
    summary = "another"


def test_a_row_is_made_of_a_class_and_of_what_it_extends() -> None:
    with LEARNERS.temporarily("mine", Mine) as row:
        assert row == Method(
            Mine,
            summary="Sample batches in another way",
            replays=True,
            uses_attribute=True,
            no_weighting=LEARNERS["fairbatch"].no_weighting,
        )
        assert row.options is FairBatch.options
    with LEARNERS.temporarily("other", Other) as row:
        assert row == Method(Other, summary="another", source="someone", no_weighting="it has none")


def test_settings_follow_a_name_that_is_registered_again() -> None:
    from faircil.runs.config import resolve

    with LEARNERS.temporarily("mine", Replay):
        resolve(dataset="toy", method="mine", overrides=["tau=3"])
        LEARNERS.add("mine", FineTune)
        with pytest.raises(UsageError, match="has no setting 'tau'"):
            resolve(dataset="toy", method="mine", overrides=["tau=3"])


PUBLIC = [
    "Audit",
    "EpsilonFair",
    "FairIncrementalClassifier",
    "FairSampleWeights",
    "FairSampler",
    "FaircilError",
    "Measure",
    "Ranks",
    "ReplayBuffer",
    "RunConfig",
    "Samples",
    "Task",
    "TaskStream",
    "WeightProgram",
    "WeightResult",
    "audit",
    "audit_dask",
    "diagnose",
    "evaluate",
    "forecast",
    "register",
    "run",
    "solve",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_resolve_and_say_what_they_are(name: str) -> None:
    assert getattr(faircil, name).__doc__
    assert name in dir(faircil)


def test_nothing_else_is_public() -> None:
    assert dir(faircil) == sorted([*PUBLIC, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = faircil.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "argv",
    [["--help"], *(["list", kind] for kind in
     ("methods", "measures", "datasets", "metrics", "solvers", "weightings"))],
    ids=" ".join,
)  # fmt: skip
def test_lists_and_help_need_no_torch(argv: list[str]) -> None:
    code = (
        "import sys\n"
        "from faircil.cli import main\n"
        "try:\n"
        f"    assert main({argv}) == 0\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=Path(faircil.__file__).parents[1],
        check=False,
    )
    assert done.returncode == 0, done.stderr
