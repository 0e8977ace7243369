"""Messages and sums among processes, against the same in one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from faircil import ranks as module
from faircil.errors import UsageError
from faircil.ranks import ALONE, Ranks, added, packed, shards_of, unpacked
from together import in_ranks

SIZES = (1, 2, 3)


def parts(shards: int, numbers: int) -> torch.Tensor:
    """Vectors whose sum depends on the order of additions."""
    generator = torch.Generator().manual_seed(0)
    scale = 10.0 ** torch.arange(shards)[:, None].float()
    return torch.randn(shards, numbers, generator=generator) * scale


def summed(ranks: Ranks, shards: int, numbers: int) -> torch.Tensor:
    mine = shards_of(ranks.rank, ranks.size, shards)
    module.SEGMENTED = 50
    return ranks.summed(parts(shards, numbers)[mine.start : mine.stop])


@pytest.mark.parametrize("numbers", [7, 100])  # gathered whole, and by segments
def test_sums_are_made_in_the_order_of_shards_whoever_has_them(
    tmp_path: Path, numbers: int
) -> None:
    expected = added(parts(6, numbers))
    backwards = added(parts(6, numbers).flip(0))
    assert not torch.equal(expected, backwards)  # else the test could not fail
    for size in SIZES:
        for found in in_ranks(tmp_path, size, summed, 6, numbers):
            assert torch.equal(found, expected)


def exchanged(ranks: Ranks) -> tuple[list[int], list[float], bytes, list[bytes]]:
    rows = ranks.rows(torch.arange(ranks.rank).repeat_interleave(2)[:, None])
    net = torch.full((3,), float(ranks.rank))
    ranks.copied(net)
    long = b"x" * 10_000
    told = ranks.told(long if ranks.rank == 0 else None)
    answers = ranks.answers(bytes([ranks.rank]) * (1 + 5000 * ranks.rank))
    return rows.flatten().tolist(), net.tolist(), told, answers


def test_messages_of_any_length_arrive(tmp_path: Path) -> None:
    for size in SIZES:
        every = in_ranks(tmp_path, size, exchanged)
        for rank, (rows, net, told, answers) in enumerate(every):
            assert rows == [n for one in range(size) for n in range(one) for _ in (0, 1)]
            assert net == [0.0, 0.0, 0.0]
            assert told == b"x" * 10_000
            heard = [bytes([one]) * (1 + 5000 * one) for one in range(size)]
            assert answers == (heard if rank == 0 else [])


def test_a_document_is_packed_without_pickle() -> None:
    header = {"what": "run", "names": ["a", "ü"], "none": None}
    tensors = {"x": torch.randn(3, 2), "y": torch.arange(4), "empty": torch.empty(0, 5)}
    found, values = unpacked(packed(header, tensors))
    assert found == header
    assert {name: values[name].tolist() for name in values} == {
        name: each.tolist() for name, each in tensors.items()
    }


@pytest.mark.parametrize(("size", "shards"), [(1, 4), (2, 4), (3, 5), (4, 2)])
def test_every_shard_has_one_rank_and_ranks_follow_each_other(size: int, shards: int) -> None:
    every = [shard for rank in range(size) for shard in shards_of(rank, size, shards)]
    assert every == list(range(shards))
    for rank in range(size):
        assert all(shard * size // shards == rank for shard in shards_of(rank, size, shards))


def test_ranks_of_a_process_that_knows_no_others() -> None:
    with pytest.raises(UsageError, match="init_process_group"):
        Ranks.of()
    assert (ALONE.rank, ALONE.size) == (0, 1)
