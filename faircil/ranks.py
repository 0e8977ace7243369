"""Processes that compute together, called ranks as in ``torch.distributed``, and their messages.

Results must not depend on the number of processes. So the data is divided into *shards*, whose
number is part of the configuration. Each rank takes one or several shards, and contributions of
shards are added in the order of the shards, never in that of arrival. A single process with all
shards makes the same additions.

Numbers are sent as tensors, everything else as bytes without pickle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed

from faircil.errors import DataError, FaircilError, UsageError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

FRAME = 4096  # bytes of a message that are sent together with its length
LENGTH = 8  # bytes of these that hold the length
# From this many numbers on, sums are exchanged by segments: each rank adds up one segment of all
# parts. A rank then sends two vectors instead of one per peer, in two exchanges.
SEGMENTED = 1 << 16
HEADER = "header"
PLACE = re.compile(r"^\[[^]]*\] *")
MOST_LINES = 5  # ranks whose mistakes are reported


class RankError(FaircilError):
    """The connection between processes was lost."""


@dataclass(frozen=True)
class Ranks:
    """A process and its peers in a distributed computation; by default a single process.

    ``Ranks.of()`` is for processes of ``torch.distributed``.

    Parameters
    ----------
    rank : int
        Number of this process, starting at 0.
    size : int
        Number of processes.
    group : ProcessGroup or None
        The process group through which they communicate; None: a single process.
    """

    rank: int = 0
    size: int = 1
    group: ProcessGroup | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, group: ProcessGroup | None = None) -> Ranks:
        """Return this process as a member of a group; by default, of all started processes.

        Raises
        ------
        UsageError
            If ``torch.distributed`` is not initialised, or this process is not in the group.
        """
        if not (distributed.is_available() and distributed.is_initialized()):
            raise UsageError(
                "torch.distributed is not initialised, so this process knows of no others; call "
                "torch.distributed.init_process_group first, in a script that torchrun starts"
            )
        group = distributed.group.WORLD if group is None else group
        rank, size = distributed.get_rank(group), distributed.get_world_size(group)
        if rank < 0:
            raise UsageError("this process is not in the group; call it in those that are")
        return cls(rank, size, group if size > 1 else None)

    def gathered(self, part: Tensor) -> Tensor:
        """Return the parts of all ranks, (size, ...); all parts have the same shape."""
        if self.group is None:
            return part[None]
        sent = self._wired(part)
        found = sent.new_empty((self.size, *sent.shape))
        with self._talking():
            distributed.all_gather(list(found.unbind()), sent, self.group)
        return found.to(part.device)

    def rows(self, rows: Tensor) -> Tensor:
        """Return the rows of all ranks, (n, ...), those of the first rank first.

        Ranks may have different numbers of rows.
        """
        if self.group is None:
            return rows
        counts = self.gathered(torch.tensor([len(rows)])).flatten().tolist()
        padded = rows.new_zeros((max(counts), *rows.shape[1:]))
        padded[: len(rows)] = rows
        if not padded.numel():
            return rows.new_empty((sum(counts), *rows.shape[1:]))
        every = self.gathered(padded)
        return torch.cat([part[:count] for part, count in zip(every, counts, strict=True)])

    def summed(self, parts: Tensor) -> Tensor:
        """Add up vectors in the order of the ranks, and of the parts within a rank.

        Parameters
        ----------
        parts : Tensor, shape (k, numbers)
            Parts of this rank; all ranks have the same number of parts.

        Returns
        -------
        Tensor, shape (numbers,)
            The same on all ranks, bit for bit, and the same as if one rank had all parts.
        """
        if self.size < 3 or parts.shape[1] < SEGMENTED:
            return added(self.gathered(parts).flatten(0, 1))
        count, numbers = parts.shape
        width = -(-numbers // self.size)
        padded = parts.new_zeros(count, width * self.size)
        padded[:, :numbers] = parts
        sent = self._wired(padded.view(count, self.size, width).transpose(0, 1))
        found = torch.empty_like(sent)
        with self._talking():
            distributed.all_to_all_single(found, sent, group=self.group)
        segment = added(found.flatten(0, 1))
        return self.gathered(segment).flatten()[:numbers].to(parts.device)

    def copied(self, tensor: Tensor) -> None:
        """Overwrite a tensor by the first rank's tensor."""
        if self.group is not None:
            sent = self._wired(tensor.detach())
            with self._talking():
                distributed.broadcast(sent, self._first, self.group)
            tensor.detach().copy_(sent)

    def scattered(self, parts: Sequence[Tensor] | None) -> Tensor:
        """Return the first rank's part for this rank, (rows, ...); other ranks pass None.

        Parameters
        ----------
        parts : sequence of Tensor
            One per rank, with any number of rows each.
        """
        if self.group is None:
            assert parts is not None
            return parts[0]
        shapes = None if parts is None else [list(part.shape) for part in parts]
        kind = None if parts is None else str(parts[0].dtype).removeprefix("torch.")
        about = json.loads(self.told(json.dumps({"shapes": shapes, "kind": kind}).encode()))
        rows, others = about["shapes"][self.rank][0], about["shapes"][0][1:]
        most = max(shape[0] for shape in about["shapes"])
        found = self._wired(torch.empty((most, *others), dtype=getattr(torch, about["kind"])))
        sent = None
        if parts is not None:
            sent = [found.new_zeros(found.shape) for _ in parts]
            for place, part in zip(sent, parts, strict=True):
                place[: len(part)] = part
        if found.numel():
            with self._talking():
                distributed.scatter(found, sent, self._first, self.group)
        return found[:rows]

    def told(self, message: bytes | None = None) -> bytes:
        """Return the message of the first rank on all ranks; other ranks pass None."""
        if self.group is None:
            return message or b""
        frame, rest = _frame(message or b"")
        frame = self._wired(frame)
        with self._talking():
            distributed.broadcast(frame, self._first, self.group)
            size = _size(frame)
            rest = self._wired(rest) if self.rank == 0 else frame.new_empty(_beyond(size))
            if len(rest):
                distributed.broadcast(rest, self._first, self.group)
        return _message(frame, rest, size)

    def answers(self, message: bytes) -> list[bytes]:
        """Return the messages of all ranks in order on the first rank; elsewhere an empty list."""
        if self.group is None:
            return [message]
        frame, rest = _frame(message)
        frames = self.gathered(frame)
        sizes = [_size(each) for each in frames]
        longest = _beyond(max(sizes))
        rests = frames.new_empty(self.size, longest)
        if longest:
            padded = torch.zeros(longest, dtype=torch.uint8)
            padded[: len(rest)] = rest
            sent = self._wired(padded)
            rests = sent.new_empty(self.size, longest)
            with self._talking():
                places = list(rests.unbind()) if self.rank == 0 else None
                distributed.gather(sent, places, self._first, self.group)
        if self.rank:
            return []
        return [_message(*each) for each in zip(frames, rests, sizes, strict=True)]

    @contextmanager
    def alike(self) -> Iterator[None]:
        """Raise an error of one rank in the block on all ranks, which would otherwise hang."""
        problem: FaircilError | None = None
        try:
            yield
        except RankError:
            raise
        except FaircilError as error:
            problem = error
        if not self.gathered(torch.tensor([problem is not None])).any():
            return
        said = self.answers(b"" if problem is None else str(problem).encode())
        lines = [one.decode() for one in said]
        if len(set(lines)) > 1:
            lines = [f"process {rank}: {line}" for rank, line in enumerate(lines) if line]
        told = json.loads(self.told(json.dumps(lines[:MOST_LINES]).encode()))
        if problem is not None and str(problem) == told[0]:  # all ranks have the same mistake
            raise problem
        raise DataError(*told)

    @property
    def _first(self) -> int:
        """Global rank of this group's first rank."""
        assert self.group is not None
        return distributed.get_global_rank(self.group, 0)

    def _wired(self, tensor: Tensor) -> Tensor:
        """Return a tensor on a device that the group can send from, copied only if necessary."""
        # Gloo supports most exchanges on the CPU only; NCCL supports them on GPUs only.
        backends = distributed.get_backend_config(self.group)
        on_gpu = "cuda:nccl" in backends and (tensor.is_cuda or "cpu:" not in backends)
        return tensor.contiguous().to("cuda" if on_gpu else "cpu")

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Turn a broken connection into a readable error."""
        try:
            yield
        except (RuntimeError, ValueError) as error:
            # A backend's message begins with a code location and ends with advice.
            line = PLACE.sub("", str(error)).partition(". ")[0].partition("\n")[0]
            raise RankError(
                f"process {self.rank} of {self.size} has lost another, which has ended, hangs or "
                f"cannot be reached ({line:.100})"
            ) from error


ALONE = Ranks()


def added(parts: Tensor) -> Tensor:
    """Add up (k, ...) over k, one by one in order."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


def shards_of(rank: int, size: int, shards: int) -> range:
    """Return the shards of a rank: consecutive, so that their order is that of the ranks.

    Examples
    --------
    >>> [list(shards_of(rank, 2, 5)) for rank in range(2)]
    [[0, 1, 2], [3, 4]]
    """
    return range(-(-rank * shards // size), -(-(rank + 1) * shards // size))


def packed(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise a JSON document and tensors to bytes; :func:`unpacked` runs no code."""
    from safetensors.torch import save

    held = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    return save(held, {HEADER: json.dumps(header)})


def unpacked(message: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Deserialise what :func:`packed` returned."""
    from safetensors.torch import load

    # A safetensors file begins with the length of its JSON header, which contains the metadata.
    length = int.from_bytes(message[:LENGTH], "little")
    document = json.loads(message[LENGTH : LENGTH + length])
    header: dict[str, Any] = json.loads(document["__metadata__"][HEADER])
    return header, load(message)


def _frame(message: bytes) -> tuple[Tensor, Tensor]:
    """Return the length with the beginning of a message, (FRAME,), and the rest."""
    room = FRAME - LENGTH
    first = len(message).to_bytes(LENGTH, "little") + message[:room].ljust(room, b"\0")
    return _as_tensor(first), _as_tensor(message[room:])


def _as_tensor(message: bytes) -> Tensor:
    # A bytearray: torch warns of bytes, which it must not write to.
    if not message:
        return torch.zeros(0, dtype=torch.uint8)
    return torch.frombuffer(bytearray(message), dtype=torch.uint8)


def _size(frame: Tensor) -> int:
    return int.from_bytes(bytes(frame[:LENGTH].tolist()), "little")


def _beyond(size: int) -> int:
    """Return the number of bytes of a message beyond its frame."""
    return max(size - (FRAME - LENGTH), 0)


def _message(frame: Tensor, rest: Tensor, size: int) -> bytes:
    whole = torch.cat([frame[LENGTH:].cpu(), rest.cpu()])[:size]
    found: bytes = whole.numpy().tobytes()
    return found
