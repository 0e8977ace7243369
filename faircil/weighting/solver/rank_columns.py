"""Solve a program whose columns are distributed over ranks, without moving the columns.

A column is a sample. A pass over columns yields sums and the indices of a few columns, so every
rank makes it over its own columns. The first rank runs the solver and requests passes; all ranks
answer. They exchange prices and sums, whose size is the number of rows, R, and some columns: those
of the solver's sample and of its core, a few thousand or one in 64. All columns are gathered only
if the solver gives up, for example if many columns are equal.

Columns are divided into shards, whose contributions are added in their order. So the solution does
not depend on which rank has which shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from faircil.errors import FaircilError, SolverError
from faircil.ranks import RankError, Ranks, packed, shards_of, unpacked
from faircil.weighting.groups import Floats, Integers
from faircil.weighting.program import Dual, Solution, WeightProgram
from faircil.weighting.solver import DEFAULT, SolverFunction, find_solver
from faircil.weighting.solver.ascent import StuckError
from faircil.weighting.solver.columns import Band, Check, Columns, HostColumns, Part
from faircil.weighting.solver.exact import PERTURBATION, Core, find_core, proven, solve_columns

TOLD = ("objective", "bound", "status")
Array = NDArray[Any]
Arrays = dict[str, Array]
Values = TypeVar("Values", bound=Array)


@dataclass
class Shelf:
    """The columns of this rank's shards, and the operations that can be requested.

    Parameters
    ----------
    plain : list of Columns
        Columns of each shard of this rank, in order.
    first : int
        Index of the first of these shards among all shards.
    """

    plain: list[Columns]
    first: int

    def __post_init__(self) -> None:
        self.levels = [list(self.plain)]  # level k + 1 consists of the bands of level k
        self.bands: list[list[Band]] = []
        self.weights: list[Floats] = [np.zeros(0)] * len(self.plain)

    def answer(self, do: str, level: int, told: Arrays) -> list[Arrays]:
        """Perform an operation, shard by shard.

        Parameters
        ----------
        do : str
            Name of the operation in :data:`TASKS`.
        level : int
            0 for all columns, 1 for a band of them, and so on.
        told : dict
            Its arguments. If they contain ``counts``, one for each shard of all ranks, then
            ``index`` and ``values`` are sorted by shard, and each shard gets its own.
        """
        if do == "near":  # discard the bands of an abandoned attempt
            del self.levels[level + 1 :], self.bands[level:]
            self.levels.append([])
            self.bands.append([])
        counts = told.get("counts", np.zeros(0, dtype=np.int64))
        ends, found = np.cumsum(counts), []
        for place in range(len(self.plain)):
            own = dict(told)
            if len(counts):
                number = self.first + place
                rows = slice(ends[number] - counts[number], ends[number])
                own |= {name: told[name][rows] for name in ("index", "values") if name in told}
            found.append(TASKS[do](self, level, place, own))
        return found

    def size(self, level: int, place: int, _: Arrays) -> Arrays:
        """Return the number of columns."""
        return {"size": np.array([len(self.levels[level][place])])}

    def take(self, level: int, place: int, told: Arrays) -> Arrays:
        """Copy some columns."""
        part = self.levels[level][place].take(told["index"])
        return {"rows": part.rows, "cost": part.cost}

    def near(self, level: int, place: int, told: Arrays) -> Arrays:
        """Fix columns, and store the band of those that stay open in the next level."""
        band, fixed = self.levels[level][place].near(told["prices"], float(told["width"][0]))
        self.bands[level].append(band)
        self.levels[level + 1].append(band.columns)
        return {"size": np.array([len(band)]), "fixed": fixed}

    def origin(self, level: int, place: int, told: Arrays) -> Arrays:
        """Return the indices, in this level, of columns of its band."""
        return {"origin": self.bands[level][place].origin(told["index"])}

    def settle(self, level: int, place: int, _: Arrays) -> Arrays:
        """Transfer the states of the band to this level."""
        self.bands[level][place].settle()
        return {}

    def check(self, level: int, place: int, told: Arrays) -> Arrays:
        """Compare reduced costs with states."""
        found = self.levels[level][place].check(told["prices"])
        sums = np.array([found.loss, found.fixed_cost, found.negative])
        return {"wrong": found.wrong, "fixed": found.fixed, "sums": sums}

    def reopen(self, level: int, place: int, _: Arrays) -> Arrays:
        """Open all columns."""
        self.levels[level][place].reopen()
        return {}

    def put(self, level: int, place: int, told: Arrays) -> Arrays:
        """Set states."""
        self.levels[level][place].put(told["index"], told["values"])
        return {}

    def states(self, level: int, place: int, told: Arrays) -> Arrays:
        """Return states."""
        return {"states": self.levels[level][place].states(told["index"])}

    def weigh(self, level: int, place: int, told: Arrays) -> Arrays:
        """Store the weights: as fixed, and some as given."""
        columns = self.levels[level][place]
        self.weights[place] = columns.weights(told["index"], told["values"])
        return {}

    def assign(self, _level: int, place: int, told: Arrays) -> Arrays:
        """Store given weights."""
        self.weights[place] = told["values"]
        return {}

    def perturb(self, level: int, place: int, told: Arrays) -> Arrays:
        """Add noise to the costs, which breaks ties; return whether this is possible."""
        columns = self.plain[place]
        if not isinstance(columns, HostColumns):
            return {"done": np.array([False])}
        noise = np.random.default_rng([0, self.first + place]).uniform(0.5, 1.0, len(columns))
        costs = columns.cost + told["scale"][0] * noise
        self.levels[level][place] = HostColumns(columns.gap_rows, columns.floor_rows, costs)
        return {"done": np.array([True])}

    def restore(self, level: int, place: int, _: Arrays) -> Arrays:
        """Remove the noise; keep the states."""
        columns, every = self.plain[place], np.arange(len(self.plain[place]))
        columns.put(every, self.levels[level][place].states(every))
        self.levels[level][place] = columns
        return {}


# Operations that the first rank can request, by name.
TASKS = {
    task.__name__: task
    for task in (
        Shelf.size,
        Shelf.take,
        Shelf.near,
        Shelf.origin,
        Shelf.settle,
        Shelf.check,
        Shelf.reopen,
        Shelf.put,
        Shelf.states,
        Shelf.weigh,
        Shelf.assign,
        Shelf.perturb,
        Shelf.restore,
    )
}


@dataclass(frozen=True)
class Talk:
    """Sends requests from the first rank to all ranks, including itself."""

    ranks: Ranks
    shelf: Shelf

    def ask(self, do: str, level: int, told: Arrays) -> list[Arrays]:
        """Return the answers of all shards, in order."""
        if self.ranks.size == 1:
            return self.shelf.answer(do, level, told)
        self.ranks.told(packed({"do": do, "level": level}, _tensors(told)))
        mine = _written(self.shelf.answer(do, level, told))
        return [one for answer in self.ranks.answers(mine) for one in _read(answer)]

    def end(self, outcome: dict[str, Any]) -> None:
        """Send the outcome to all other ranks."""
        self.ranks.told(packed({"do": "end", **outcome}, {}))


def serve(ranks: Ranks, shelf: Shelf) -> dict[str, Any]:
    """Answer requests of the first rank until it ends; return the outcome."""
    while True:
        header, tensors = unpacked(ranks.told())
        if header["do"] == "end":
            return header
        told = {name: tensor.numpy() for name, tensor in tensors.items()}
        ranks.answers(_written(shelf.answer(header["do"], header["level"], told)))


def _tensors(arrays: Arrays, prefix: str = "") -> dict[str, torch.Tensor]:
    return {
        prefix + name: torch.from_numpy(np.ascontiguousarray(each)) for name, each in arrays.items()
    }


def _written(answers: Sequence[Arrays]) -> bytes:
    tensors: dict[str, torch.Tensor] = {}
    for place, answer in enumerate(answers):
        tensors |= _tensors(answer, f"{place}:")
    return packed({"shards": len(answers)}, tensors)


def _read(message: bytes) -> list[Arrays]:
    header, tensors = unpacked(message)
    answers: list[Arrays] = [{} for _ in range(header["shards"])]
    for key, tensor in tensors.items():
        place, _, name = key.partition(":")
        answers[int(place)][name] = tensor.numpy()
    return answers


class RankColumns:
    """Columns on several ranks, seen from the first rank; see :class:`Columns`.

    Columns are numbered shard by shard.

    Parameters
    ----------
    talk : Talk
    level : int
        0 for all columns; for a band, one more than the level of its parent.
    sizes : sequence of int
        Number of columns of each shard.
    """

    def __init__(self, talk: Talk, level: int, sizes: Sequence[int]) -> None:
        self.talk, self.level = talk, level
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def take(self, index: Integers) -> Part:
        """See :class:`Columns`."""
        order, told = self.by_shard(index)
        answers = self.ask("take", **told)
        rows = np.concatenate([each["rows"].T for each in answers])
        cost = np.concatenate([each["cost"] for each in answers])
        return Part(np.ascontiguousarray(_unsorted(rows, order).T), _unsorted(cost, order))

    def near(self, prices: Floats, width: float) -> tuple[Band, Floats]:
        """See :class:`Columns`."""
        answers = self.ask("near", prices=prices, width=np.array([width]))
        sizes = [int(each["size"][0]) for each in answers]
        band = RankBand(self, RankColumns(self.talk, self.level + 1, sizes))
        return band, _added(each["fixed"] for each in answers)

    def reopen(self) -> None:
        """See :class:`Columns`."""
        self.ask("reopen")

    def check(self, prices: Floats) -> Check:
        """See :class:`Columns`."""
        answers = self.ask("check", prices=prices)
        loss, fixed_cost, negative = _added(each["sums"] for each in answers).tolist()
        fixed = _added(each["fixed"] for each in answers)
        return Check(self.numbers(answers, "wrong"), loss, fixed, fixed_cost, negative)

    def put(self, index: Integers, states: NDArray[np.int8]) -> None:
        """See :class:`Columns`."""
        self.ask("put", **self.by_shard(index, states)[1])

    def states(self, index: Integers) -> NDArray[np.int8]:
        """See :class:`Columns`."""
        order, told = self.by_shard(index)
        answers = self.ask("states", **told)
        return _unsorted(np.concatenate([each["states"] for each in answers]), order)

    def weights(self, index: Integers, weights: Floats) -> Floats:
        """Store all weights with their columns; return an empty array."""
        self.ask("weigh", **self.by_shard(index, weights)[1])
        return weights[:0]

    def ask(self, do: str, **told: Array) -> list[Arrays]:
        """Request an operation on these columns; return the answers of all shards."""
        return self.talk.ask(do, self.level, told)

    def by_shard(self, index: Integers, values: Array | None = None) -> tuple[Integers, Arrays]:
        """Sort column indices, and their values, by shard; return the order and the arguments."""
        shard = np.searchsorted(self.starts, index, side="right") - 1
        order = np.argsort(shard, kind="stable")
        told: Arrays = {
            "index": (index - self.starts[shard])[order],
            "counts": np.bincount(shard, minlength=len(self.starts) - 1),
        }
        return order, told if values is None else {**told, "values": values[order]}

    def numbers(self, answers: Sequence[Arrays], name: str) -> Integers:
        """Convert indices within shards to indices among all columns."""
        starts = self.starts[:-1]
        found = [each[name] + start for each, start in zip(answers, starts, strict=True)]
        return np.concatenate(found)


@dataclass(frozen=True)
class RankBand:
    """Open columns, each on its rank; see :class:`Band`."""

    parent: RankColumns
    columns: RankColumns

    def __len__(self) -> int:
        return len(self.columns)

    def origin(self, index: Integers) -> Integers:
        """See :class:`Band`."""
        order, told = self.columns.by_shard(index)
        return _unsorted(self.parent.numbers(self.parent.ask("origin", **told), "origin"), order)

    def settle(self) -> None:
        """See :class:`Band`."""
        self.parent.ask("settle")


def _unsorted(values: Values, order: Integers) -> Values:
    """Return sorted values in their original order."""
    found = np.empty_like(values)
    found[order] = values
    return found


def _added(parts: Iterable[Floats]) -> Floats:
    """Add up arrays, one after another."""
    first, *others = parts
    total = first.copy()
    for part in others:
        total += part
    return total


@dataclass(frozen=True)
class RankSolution:
    """A solution with the weights of this rank's columns.

    Parameters
    ----------
    weights : list of ndarray
        Weights of the columns of each of its shards.
    objective, bound : float
    status : str
    dual : Dual
        Dual variables, which prove the bound.
    """

    weights: list[Floats]
    objective: float
    bound: float
    status: str
    dual: Dual


def solve_over_ranks(
    shards: Sequence[Columns],
    offsets: Floats,
    gaps: int,
    ranks: Ranks,
    solver: str | SolverFunction = "auto",
) -> RankSolution:
    """Solve a program whose columns are on several ranks; all ranks call this function.

    Parameters
    ----------
    shards : sequence of Columns
        Columns of this rank's shards; all ranks have the same number.
    offsets : ndarray, shape (R,)
        Offsets of the gaps, then of the floors negated.
    gaps : int
        Number of gap rows.
    ranks : Ranks
    solver : str or callable
        A solver other than the default gets the whole program, on the first rank.

    Raises
    ------
    SolverError
        On all ranks, if there is no solution.
    """
    count = len(shards) * ranks.size
    shelf = Shelf(list(shards), shards_of(ranks.rank, ranks.size, count).start)
    if ranks.rank:
        outcome = serve(ranks, shelf)
        if outcome["problem"] is not None:
            raise SolverError(outcome["problem"])
        dual = Dual(*(np.array(outcome[name], dtype=np.float64) for name in ("gap", "floor")))
        told = {name: outcome[name] for name in TOLD}
        return RankSolution(shelf.weights, dual=dual, **told)
    talk = Talk(ranks, shelf)
    try:
        found = _solved(talk, offsets, gaps, solver)
    except RankError:
        raise
    except FaircilError as error:
        talk.end({"problem": str(error)})
        raise
    told = {name: getattr(found, name) for name in TOLD}
    prices = {"gap": found.dual.gap.tolist(), "floor": found.dual.floor.tolist()}
    talk.end({"problem": None, **told, **prices})
    return RankSolution(shelf.weights, found.objective, found.bound, found.status, found.dual)


def _solved(talk: Talk, offsets: Floats, gaps: int, solver: str | SolverFunction) -> Solution:
    """Solve on the first rank; weights stay with their columns."""
    sizes = [int(each["size"][0]) for each in talk.ask("size", 0, {})]
    columns = RankColumns(talk, 0, sizes)
    if solver not in ("auto", DEFAULT):
        return _gathered(columns, offsets, gaps, find_solver(solver))
    try:
        return solve_columns(columns, offsets, gaps)
    except StuckError:
        pass
    try:
        return _perturbed(columns, offsets, gaps)
    except StuckError:
        return _gathered(columns, offsets, gaps, find_solver(DEFAULT))


def _perturbed(columns: RankColumns, offsets: Floats, gaps: int) -> Solution:
    """Solve with costs perturbed by less than the proof tolerance, which breaks ties."""
    answers = columns.ask("perturb", scale=np.array([PERTURBATION / len(columns)]))
    if not all(each["done"][0] for each in answers):
        raise StuckError("computed columns cannot be perturbed")
    try:
        rough = find_core(columns, offsets, gaps)
    finally:
        columns.ask("restore")
    index, prices = rough.core.index, rough.core.vertex.prices
    core = Core(index, columns.take(index), rough.core.offsets, rough.core.vertex)
    solved = replace(rough, core=core, check=columns.check(prices), passes=rough.passes + 2)
    solution = proven(columns, offsets, gaps, solved)
    return replace(solution, status=f"{solution.status}, ties broken")


def _gathered(columns: RankColumns, offsets: Floats, gaps: int, solver: SolverFunction) -> Solution:
    """Solve the whole program on the first rank, and send the weights to their columns."""
    part = columns.take(np.arange(len(columns)))
    floors, floor_offsets = -part.rows[gaps:], -offsets[gaps:]
    program = WeightProgram(part.rows[:gaps], offsets[:gaps], part.cost, floors, floor_offsets)
    solution = solver(program)
    columns.ask("assign", **columns.by_shard(np.arange(len(columns)), solution.weights)[1])
    return solution
