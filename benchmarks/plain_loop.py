"""The policies of the paper, one pull at a time: a reference for speed, and an oracle for tests.

They are written from the pseudo-code (Algorithms 1 and 2, Sec. 5, App. DP-OD; OD-LinBAI from Yang
and Tan, NeurIPS 2022) and deliberately simple: each reward is drawn separately, Max-Det collections
are found by trying all subsets, and G-optimal designs by multiplicative updates. Nothing is
imported from `dpbai`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

import numpy as np

Pull = Callable[[int], float]


def uniform_rewards(means: Sequence[float], rng: np.random.Generator) -> Pull:
    """Return a function that draws one reward of an arm, uniform on [0, 2 mu] (Sec. 5)."""
    return lambda arm: rng.uniform(0, 2 * means[arm])


def bernoulli_rewards(means: Sequence[float], rng: np.random.Generator) -> Pull:
    """Return a function that draws one reward of an arm, 0 or 1."""
    return lambda arm: float(rng.random() < means[arm])


@dataclass
class Run:
    """One run: the arm it returned, and how often it pulled each arm, phase by phase."""

    arm: int = -1
    pulls: list[dict[int, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Pulls in all phases."""
        return sum(sum(phase.values()) for phase in self.pulls)

    def mean_of(self, arm: int, times: int, pull: Pull) -> float:
        """Pull an arm `times` times, one by one, and return the mean reward."""
        total = 0.0
        for _ in range(times):
            total += pull(arm)
            self.pulls[-1][arm] = self.pulls[-1].get(arm, 0) + 1
        return total / times


def sizes(arms: int, dimension: int) -> tuple[list[int], int]:
    """Return s_1, ..., s_{M+1} and M_1 of eqs. (lambda), (g), (h), (s-p), (param_of_init)."""
    target = math.ceil(dimension**2 / 4)
    g = [min(arms, target)]
    h = [max(arms - target, 0)]

    def reached(beta: float) -> bool:
        return beta ** math.log(dimension) >= arms - target - 1e-9

    # The infimum, by bisection; if no beta is large enough (d = 1, K > 2), it is infinite.
    if reached(2):
        lam = 2.0
    elif dimension == 1:
        lam = math.inf
    else:
        low, lam = 2.0, 4.0
        while not reached(lam):
            lam *= 2
        for _ in range(200):
            middle = (low + lam) / 2
            low, lam = (low, middle) if reached(middle) else (middle, lam)
    while len(g) < 2 or g[-1] != 1:
        g.append(math.ceil(g[-1] / 2))
    while len(h) < 2 or h[-1] != 0:
        h.append((1 if math.isinf(lam) else math.ceil((h[-1] + 1) / lam - 1e-9)) - 1)
    m1 = next(i for i in range(1, len(h)) if h[i] == 0)
    phases = m1 + next(i for i in range(1, len(g)) if g[i] == 1) - 1
    return [g[0] + h[p - 1] if p <= m1 else g[p - m1] for p in range(1, phases + 2)], m1


def cost_at_most(usable: int, s: Sequence[int], dimension: int, pull_all: bool) -> int:
    """Return the largest total cost of the phases over all ranks of their active arms."""
    phases = len(s) - 1
    worst = 0
    for size in s[:-1]:
        counts = [size]
        if not pull_all:
            ranks = range(1, min(size, dimension) + 1)
            counts = [r if r < math.sqrt(size) else size for r in ranks]
        worst += max(m * math.ceil(usable / (phases * m)) for m in counts)
    return worst


@dataclass
class DPBAILoop:
    """DP-BAI (Algorithm 1); DP-BAI-Gauss if `sigma` is given; Baseline if `pull_all`.

    `strict` lowers T' one by one until no run can spend more than the budget.
    """

    features: np.ndarray
    budget: int
    epsilon: float
    pull_all: bool = False
    sigma: float | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        arms, dimension = self.features.shape
        self.sizes, m1 = sizes(arms, dimension)
        self.phases = len(self.sizes) - 1
        self.usable = (
            self.budget - m1 * dimension - (self.phases - m1) * math.ceil(dimension**2 / 4)
        )
        while self.strict and self.budget < cost_at_most(
            self.usable, self.sizes, dimension, self.pull_all
        ):
            self.usable -= 1
        self.plan = lru_cache(maxsize=None)(self._plan)

    def _plan(self, active: tuple[int, ...]) -> tuple[tuple[int, ...], np.ndarray]:
        """Return the arms to pull, and coordinates of the active arms in them."""
        vectors = self.features[list(active)]
        rank = int(np.linalg.matrix_rank(vectors))
        if self.pull_all or rank >= math.sqrt(len(active)):
            return active, np.eye(len(active))
        reduced = vectors @ np.linalg.svd(vectors)[2][:rank].T
        subsets = [list(subset) for subset in combinations(range(len(active)), rank)]
        best = max(subsets, key=lambda subset: abs(np.linalg.det(reduced[subset])))
        coordinates = reduced @ np.linalg.inv(reduced[best])
        return tuple(active[i] for i in best), coordinates

    def run(self, pull: Pull, rng: np.random.Generator) -> Run:
        """Run the policy once."""
        run = Run()
        active = tuple(range(len(self.features)))
        for keep in self.sizes[1:]:
            pulled, coordinates = self.plan(active)
            times = math.ceil(self.usable / (self.phases * len(pulled)))
            run.pulls.append({})
            private = []
            for arm in pulled:
                noise = 0.0
                if self.sigma is not None:
                    noise = rng.normal(0, self.sigma / times)
                elif math.isfinite(self.epsilon):
                    noise = rng.laplace(0, 1 / (self.epsilon * times))
                private.append(run.mean_of(arm, times, pull) + noise)
            active = _largest(active, coordinates @ np.array(private), keep)
        (run.arm,) = active
        return run


@dataclass
class ODLoop:
    """OD-LinBAI; DP-OD if `epsilon` is finite, with L in the norm of order `norm`."""

    features: np.ndarray
    budget: int
    epsilon: float = math.inf
    norm: int = 2

    def __post_init__(self) -> None:
        arms, dimension = self.features.shape
        rounds = max(1, math.ceil(math.log2(dimension)))
        halved = [min(arms, math.ceil(dimension / 2**r)) for r in range(1, rounds)]
        self.sizes = [arms, *halved, 1]
        spare = min(arms, dimension * (dimension + 1) // 2)
        spare += sum(math.ceil(dimension / 2**r) for r in range(1, rounds))
        self.per_phase = (self.budget - spare) / rounds
        self.plan = lru_cache(maxsize=None)(self._plan)

    def _plan(self, active: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return the active vectors in coordinates of their span, and the pulls of each."""
        vectors = self.features[list(active)]
        rank = int(np.linalg.matrix_rank(vectors))
        if rank < vectors.shape[1]:
            vectors = vectors @ np.linalg.svd(vectors)[2][:rank].T
        weights = np.full(len(active), 1 / len(active))
        for _ in range(20_000):
            information = vectors.T @ (weights[:, None] * vectors)
            variances = np.sum(vectors @ np.linalg.inv(information) * vectors, axis=1)
            if variances.max() <= rank * (1 + 1e-6):
                break
            weights *= variances / rank
        weights[weights < 1e-4] = 0
        # Reduced slightly, so that 20 times (1/2 plus a rounding error) is not rounded up to 11.
        return vectors, np.ceil(weights / weights.sum() * self.per_phase - 1e-6).astype(int)

    def run(self, pull: Pull, rng: np.random.Generator) -> Run:
        """Run the policy once."""
        run = Run()
        active = tuple(range(len(self.features)))
        for keep in self.sizes[1:]:
            vectors, times = self.plan(active)
            run.pulls.append({})
            gram = vectors.T @ (times[:, None] * vectors)
            moments = np.zeros(vectors.shape[1])
            for arm, vector, n in zip(active, vectors, times.tolist(), strict=True):
                if n:
                    moments += n * vector * run.mean_of(arm, n, pull)
            if math.isfinite(self.epsilon):
                lengths = np.linalg.norm(
                    vectors if self.norm == 1 else self.features, ord=self.norm, axis=1
                )
                moments += rng.laplace(0, lengths.max() / self.epsilon, size=moments.size)
            active = _largest(active, vectors @ np.linalg.solve(gram, moments), keep)
        (run.arm,) = active
        return run


def _largest(active: Sequence[int], estimates: np.ndarray, keep: int) -> tuple[int, ...]:
    """Return the arms with the largest estimates, in increasing order."""
    ranked = sorted(range(len(active)), key=lambda i: -estimates[i])
    return tuple(sorted(active[i] for i in ranked[:keep]))
