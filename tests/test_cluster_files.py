"""Files for Slurm, Kubernetes and Ray say what the command line and the library understand."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import faircil
from faircil.cli import parse
from faircil.runs.config import RunConfig, resolve

FILES = Path(__file__).parents[1] / "examples" / "cluster"


def test_the_job_of_slurm_is_a_command_of_ours() -> None:
    text = (FILES / "slurm.sbatch").read_text("utf-8").replace("\\\n", " ")
    (words,) = re.findall(r"-m faircil (.*)$", text, re.MULTILINE)
    arguments = parse(words.rstrip("'").replace('"', "").split())
    assert resolve(
        dataset=arguments.dataset, method=arguments.method, overrides=arguments.set
    ).settings.training.batch_size == int(arguments.set[1].split("=")[1])


def test_the_pods_of_kubernetes_run_one_command_of_ours() -> None:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((FILES / "pytorchjob.yaml").read_text("utf-8"))
    pods = [
        replica["template"]["spec"]["containers"][0]["command"]
        for replica in job["spec"]["pytorchReplicaSpecs"].values()
    ]
    assert pods[0] == pods[1]
    python, *words = pods[0]
    assert (python, *words[:2]) == ("python", "-m", "faircil")
    arguments = parse(words[2:])
    assert (arguments.data, arguments.label) == ("/data/people.parquet", "job")
    image = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    assert image["image"].endswith(f":{faircil.__version__}")


def test_workers_of_ray_call_the_library_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    made: list[inspect.BoundArguments] = []
    train = SimpleNamespace(report=told.append, RunConfig=dict, ScalingConfig=dict)
    torch = SimpleNamespace(TorchConfig=dict, TorchTrainer=dict)
    modules = {"ray": SimpleNamespace(train=train), "ray.train": train, "ray.train.torch": torch}
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(vars(content))
        monkeypatch.setitem(sys.modules, name, module)
    signature = inspect.signature(faircil.run)

    def run(*given: Any, **more: Any) -> Any:
        made.append(signature.bind(*given, **more))
        return SimpleNamespace(averages=lambda: {"accuracy": 1.0})

    monkeypatch.setattr(faircil, "run", run)
    monkeypatch.setattr(faircil.Ranks, "of", lambda: faircil.Ranks(1, 2))
    found = runpy.run_path(str(FILES / "ray_train.py"))
    text = (FILES / "ray_train.py").read_text("utf-8")
    (settings,) = re.findall(r"train_loop_config=(\{.*\})", text)
    assert settings == '{"shards": WORKERS, "epochs": 2, "hidden": 32}'
    found["train"]({"shards": found["WORKERS"], "epochs": 2, "hidden": 32})
    (call,) = made
    assert isinstance(call.arguments["config"], RunConfig)
    assert call.arguments["config"].settings.training.shards == 2
    assert told == [{"accuracy": 1.0}]
