"""The linear program of optimal randomised predictions under demographic parity.

Sample i of group z has mass u_i within the group and is predicted as k with probability q_ik ≥ 0:

    maximise  Σ_i π_z u_i Σ_k q_ik p_ik,   Σ_k q_ik = 1
    rates     r_zk = Σ_{i in z} u_i q_ik,  |r_zk − Σ_z' π_z' r_z'k| ≤ ε

With the common rates c_k and the deviations s_zk of the groups, every q is in two rows:

    r_zk − c_k − s_zk = 0,   Σ_z π_z s_zk = 0,   |s_zk| ≤ ε

With prices λ_zk of the first rows and μ_k of the second the dual is

    minimise  Σ_i u_i max_k (π_z p_ik − λ_zk) + ε Σ_zk |λ_zk − π_z μ_k|,   Σ_z λ_zk = 0

so any such prices bound the value of all predictions, and the optimal rule predicts the class with
the largest p_ik − λ_zk/π_z. Few samples are close to a tie, and only these need variables.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from faircil.errors import SolverError
from faircil.postprocess.pool import Floats, Integers, Pool, largest_gap

WHOLE = 400  # number of samples up to which the full program is solved
PART = 4  # otherwise, initial prices are those of every fourth sample
NEAR = 2000  # number of alternative classes, closest to the best, with initial variables
GAP = 1e-10  # between bound and value that counts as optimal
TOLERANCES = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}


@dataclass(frozen=True)
class Optimum:
    """Optimal probabilities and prices for Z groups, N samples and K classes.

    Parameters
    ----------
    chances : ndarray, shape (N, K)
    prices : ndarray, shape (Z, K)
        λ.
    mean_prices : ndarray, shape (K,)
        μ.
    """

    chances: Floats
    prices: Floats
    mean_prices: Floats

    def bound(self, pool: Pool, epsilon: float) -> float:
        """Return the dual value of the prices, an upper bound of predictions within ε."""
        scores = pool.share[pool.group, None] * pool.probabilities - self.prices[pool.group]
        beyond = np.abs(self.prices - pool.share[:, None] * self.mean_prices).sum()
        return float(pool.mass @ scores.max(axis=1) + epsilon * beyond)


def solve(pool: Pool, epsilon: float, generator: np.random.Generator) -> Optimum:
    """Return an optimum; the generator draws the subset that initial prices come from.

    Samples with a variable for their best class only are merged, within their group and class, into
    one sample with variables for all classes. Predictions of the merged pool are feasible for
    the whole pool, and its prices bound the whole pool. If the optimal prices make another class
    the best of a sample, the sample gets a variable for it; if there is no such sample, value and
    bound agree (column generation).
    """
    part = _part(pool, generator)
    if len(pool.mass) <= max(WHOLE, 2 * len(part)):
        return _solve_with(pool, epsilon, np.ones(pool.probabilities.shape, dtype=bool))
    prices = solve(pool.take(part), epsilon, generator).prices
    behind = _behind(pool, prices)
    last = min(len(behind) + NEAR, behind.size - 1)
    width = np.partition(behind.ravel(), last)[last]
    allowed = behind <= width
    while True:
        merged, classes, into = _merged(pool, allowed)
        small = _solve_with(merged, epsilon, classes)
        found = Optimum(small.chances[into], small.prices, small.mean_prices)
        behind = _behind(pool, found.prices)
        exceeded = largest_gap(pool.rates(found.chances), pool.share) - epsilon
        missing = found.bound(pool, epsilon) - pool.value(found.chances)
        if allowed[behind == 0].all() or max(exceeded, missing) <= GAP:
            return found
        allowed |= behind <= width


def _part(pool: Pool, generator: np.random.Generator) -> Integers:
    """Draw a quarter of the samples of each group, at least one."""
    order = generator.permutation(len(pool.mass))
    members = [order[pool.group[order] == z] for z in range(len(pool.share))]
    return np.concatenate([rows[: -(-len(rows) // PART)] for rows in members])


def _behind(pool: Pool, prices: Floats) -> Floats:
    """Return the difference of each class's score to the best of its sample, (N, K)."""
    scores = pool.probabilities - (prices / pool.share[:, None])[pool.group]
    behind: Floats = scores.max(axis=1, keepdims=True) - scores
    return behind


def _merged(pool: Pool, allowed: NDArray[np.bool_]) -> tuple[Pool, NDArray[np.bool_], Integers]:
    """Return the merged pool, M samples, allowed classes (M, K), and each sample's new index."""
    n, k = allowed.shape
    single = allowed.sum(axis=1) == 1
    block = np.where(single, pool.group * k + allowed.argmax(axis=1), -1 - np.arange(n))
    _, first, into = np.unique(block, return_index=True, return_inverse=True)
    mass: Floats = np.bincount(into, pool.mass).astype(np.float64)
    summed = [np.bincount(into, pool.mass * column) for column in pool.probabilities.T]
    merged = Pool(np.stack(summed, axis=1) / mass[:, None], pool.group[first], mass, pool.share)
    return merged, allowed[first] | single[first, None], into


def _solve_with(pool: Pool, epsilon: float, allowed: NDArray[np.bool_]) -> Optimum:
    """Solve with variables only where ``allowed``, (N, K); exceeding ε is penalised."""
    (n, k), z = allowed.shape, len(pool.share)
    sample, label = np.nonzero(allowed)
    scale = 1 / np.median(pool.mass)  # units of samples: numbers near 1 suit the tolerances
    mass = pool.mass[sample] * scale
    gains = pool.share[pool.group[sample]] * mass * pool.probabilities[sample, label]
    # Limits wider by t gain at most K t/2: all s reduced by t are within the old limits, at half
    # the cost of the change. So the penalty K exceeds the price of any limit.
    costs = np.concatenate([-gains, np.zeros(k + z * k), np.full(2 * z * k, k)])
    limits = [(0, np.inf), (-np.inf, np.inf), (-epsilon * scale, epsilon * scale), (0, np.inf)]
    result = linprog(  # type: ignore[call-overload]
        costs,
        A_eq=_equations(pool, sample, label, mass),
        b_eq=np.repeat([0.0, 1.0], [z * k + k, n]),
        bounds=np.repeat(limits, [len(sample), k, z * k, 2 * z * k], axis=0),
        method="highs-ds",
        options=TOLERANCES,
    )
    if result.status != 0:
        raise SolverError(f"HiGHS could not solve the program of the pool: {result.message}")
    chances = np.zeros((n, k))
    chances[sample, label] = result.x[: len(sample)]
    prices, mean_prices = np.split(-result.eqlin.marginals[: z * k + k], [z * k])
    return Optimum(chances, prices.reshape(z, k), mean_prices)


def _equations(pool: Pool, sample: Integers, label: Integers, mass: Floats) -> sparse.csc_array:
    """Return the rows; columns: probabilities, c, s, and upper and lower excess of s."""
    (n, k), z, each = pool.probabilities.shape, len(pool.share), np.arange(len(sample))
    cell = pool.group[sample] * k + label
    in_cell = sparse.csr_array((mass, (cell, each)), shape=(z * k, len(each)))
    in_sample = sparse.csr_array((np.ones(len(each)), (sample, each)), shape=(n, len(each)))
    cells = sparse.eye_array(z * k)
    common = sparse.kron(np.ones((z, 1)), sparse.eye_array(k))
    shares = sparse.kron(pool.share[None], sparse.eye_array(k))
    return sparse.block_array(
        [
            [in_cell, -common, -cells, -cells, cells],
            [None, None, shares, shares, -shares],
            [in_sample, None, None, None, None],
        ],
        format="csc",
    )
