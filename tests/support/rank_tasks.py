"""Work of torch.distributed ranks in tests (importable by processes)."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import distributed

from engine_tasks import TASKS, break_down, in_order, refuse, square
from faircil.data import parts as parts_module
from faircil.data.part_files import parted_table
from faircil.engines import Here, engine_for
from faircil.errors import FaircilError
from faircil.model.choosing import Wish
from faircil.model.in_parts import fit_parts
from tables_in_parts import roles
from tensors import digest_of

SMALL = 150  # rows of a part
WISH = Wish("moments", overrides=("width=40",))


def be_a_rank(rank: int, ranks: int, folder: str) -> None:
    """Compute with the other ranks, and write the results to files."""
    torch.set_num_threads(1)
    parts_module.PART_ROWS = SMALL
    place = Path(folder)
    distributed.init_process_group(
        "gloo", init_method=f"file://{place}/meeting", rank=rank, world_size=ranks
    )
    found: dict[str, object] = {}
    try:
        with engine_for() as engine:
            found["workers"] = engine.workers
            found["squares"] = in_order(engine, square)
            for name, work in (("refused", refuse), ("broken", break_down)):
                try:
                    in_order(engine, work)
                except FaircilError as error:
                    found[name] = [type(error).__name__, *error.args]
            found["again"] = in_order(engine, square, TASKS[:1])
            table = parted_table(place / "people")
            assert table is not None
            for own in (engine, Here()):
                model = fit_parts(table, roles(place / "people"), WISH, engine=own)
                found[f"model {type(own).__name__}"] = digest_of(model)
    finally:
        distributed.destroy_process_group()
    (place / f"rank-{rank}.json").write_text(json.dumps(found))
