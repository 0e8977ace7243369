"""Replay training by the workers of Ray Train: ``python examples/cluster/ray_train.py``.

Ray starts the workers and connects them by torch.distributed. Each of them calls ``faircil.run``
with the same configuration, reads the data itself, keeps its shards of it, and gets the result.
"""

import ray.train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

WORKERS, GPUS = 2, False


def train(settings: dict[str, object]) -> None:
    import faircil
    from faircil.runs.config import resolve

    config = resolve(
        dataset="biased-digits",
        method="fsw",
        overrides=[f"{name}={value}" for name, value in settings.items()],
    )
    ranks = faircil.Ranks.of()
    device = "cuda" if GPUS else "cpu"
    result = faircil.run(config, seed=0, device=device, ranks=ranks)
    if ranks.rank == 0:
        print(result.averages())  # noqa: T201
    ray.train.report(result.averages())


if __name__ == "__main__":
    trainer = TorchTrainer(
        train,
        train_loop_config={"shards": WORKERS, "epochs": 2, "hidden": 32},
        scaling_config=ScalingConfig(num_workers=WORKERS, use_gpu=GPUS),
        # With GPUs, gloo is for what is in main memory.
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if GPUS else "gloo"),
        run_config=RunConfig(name="faircil"),
    )
    trainer.fit()
