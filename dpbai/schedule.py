"""How many arms survive each phase of DP-BAI, and how much of the budget is usable (Sec. 3.1).

The active set first shrinks by a factor of about lambda per phase, towards ceil(d^2/4) arms, then
halves until one arm is left. The paper defines the sizes in two different ways: by eqs. (4) to (8)
with N = {1, 2, ...}, and by the sequence of its worked example and the proof of Theorem 4.2. T' of
eq. (8) reserves too few pulls for rounding up in phases that pull every active arm, so the policy
as printed can pull more than T.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from dpbai import _check

CONVENTIONS = ("printed", "proof")
BUDGET_RULES = ("strict", "printed")


def ceil_div(numerator: int, denominator: int) -> int:
    """Return ceil(numerator / denominator) in exact integer arithmetic."""
    return -(-numerator // denominator)


def check_budget(budget: int, least: int, arms: int, dimension: int) -> None:
    """Raise ValueError if a budget is below the least one."""
    if budget < least:
        raise ValueError(
            f"budget must be at least {least} to pull each planned arm once "
            f"(arms={arms}, dimension={dimension}), got {budget}"
        )


def pulls_max_det(rank: int, size: int) -> bool:
    """Return whether a phase pulls a Max-Det collection: d_p < sqrt(s_p), Algorithm 1 line 6."""
    return _check.whole(rank, "rank", least=0) ** 2 < _check.whole(size, "size")


def dp_bai_collections(size: int, dimension: int) -> set[int]:
    """Return how many arms a DP-BAI phase may pull, over all ranks that `size` arms can have."""
    size, dimension = _check.whole(size, "size"), _check.whole(dimension, "dimension")
    ranks = range(1, min(size, dimension) + 1)
    return {rank if pulls_max_det(rank, size) else size for rank in ranks}


def baseline_collections(size: int, dimension: int) -> set[int]:
    """Return how many arms a Baseline phase pulls: always every active arm (Sec. 5)."""
    _check.whole(dimension, "dimension")
    return {_check.whole(size, "size")}


@dataclass(frozen=True)
class Schedule:
    """Sizes of the active sets and the usable budget of DP-BAI and its relatives.

    Parameters
    ----------
    arms, dimension : int
        K, at least 2, and d, at least 1.
    budget : int
        T, enough for one pull of each planned arm.
    convention : {"printed", "proof"}
        The sequence of sizes of Sec. 3, or that of the proof.
    budget_rule : {"strict", "printed"}
        "strict" lowers T' until no run can pull more than T; "printed" does not.
    collections : callable
        `collections(size, dimension)` gives the numbers of arms that a phase with `size` active
        arms may pull.
    """

    arms: int
    dimension: int
    budget: int
    convention: str = "printed"
    budget_rule: str = "strict"
    collections: Callable[[int, int], Iterable[int]] = dp_bai_collections

    def __post_init__(self) -> None:
        for name, least in (("arms", 2), ("dimension", 1), ("budget", 1)):
            value = _check.whole(getattr(self, name), name, least=least)
            object.__setattr__(self, name, value)
        _check.one_of(self.convention, "convention", CONVENTIONS)
        _check.one_of(self.budget_rule, "budget_rule", BUDGET_RULES)
        check_budget(self.budget, self.least_budget, self.arms, self.dimension)

    @property
    def target(self) -> int:
        """ceil(d^2/4), the target size of the first stage of elimination."""
        return ceil_div(self.dimension**2, 4)

    @cached_property
    def lam(self) -> float:
        """The least beta >= 2 with beta^log(d) >= K - ceil(d^2/4); infinite if there is none."""
        excess = self.arms - self.target
        if excess <= 1:
            return 2.0
        if self.dimension == 1:
            return math.inf
        return max(2.0, float(excess ** (1 / math.log(self.dimension))))

    @cached_property
    def g(self) -> tuple[int, ...]:
        """g_0, g_1, ... to the first term that is 1 (and at least to g_1), eq. (5)."""
        terms = [min(self.arms, self.target)]
        while terms[-1] > 1 or len(terms) < 2:
            terms.append(ceil_div(terms[-1], 2))
        return tuple(terms)

    @cached_property
    def h(self) -> tuple[int, ...]:
        """h_0, h_1, ... to the first term that is 0 (and at least to h_1), eq. (6)."""
        terms = [max(self.arms - self.target, 0)]
        while terms[-1] > 0 or len(terms) < 2:
            # For lambda = inf the quotient counts as an infinitely small positive number.
            terms.append(max(1, math.ceil((terms[-1] + 1) / self.lam)) - 1)
        return tuple(terms)

    @property
    def _least_index(self) -> int:
        """The first element of N."""
        return 0 if self.convention == "proof" else 1

    @cached_property
    def M1(self) -> int:  # noqa: N802
        """Number of phases of the first stage, eq. (8)."""
        return self.h.index(0, self._least_index)

    @cached_property
    def M(self) -> int:  # noqa: N802
        """Number of phases, eq. (8)."""
        return self.M1 + self.g.index(1, self._least_index) - self._least_index

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """s_1, ..., s_{M+1}: the number of active arms in each phase, then 1, eq. (7)."""
        first = tuple(self.g[0] + excess for excess in self.h[: self.M1])
        return first + self.g[self._least_index :][: self.M + 1 - self.M1]

    @property
    def reserve(self) -> int:
        """M_1 d + (M - M_1) ceil(d^2/4), the pulls that T' reserves for rounding up."""
        return self.M1 * self.dimension + (self.M - self.M1) * self.target

    @property
    def printed_budget(self) -> int:
        """T' as printed in eq. (8)."""
        return self.budget - self.reserve

    def pulls(self, usable: int, pulled: int) -> int:
        """Return ceil(T' / (M m)), the pulls of each of `pulled` arms when T' is `usable`."""
        return ceil_div(usable, self.M * pulled)

    def dearest(self, usable: int) -> int:
        """Return the largest number of pulls of a run when T' is `usable`, over all active sets."""
        return sum(
            max(m * self.pulls(usable, m) for m in collections) for collections in self._collections
        )

    @cached_property
    def _collections(self) -> list[tuple[int, ...]]:
        return [tuple(self.collections(size, self.dimension)) for size in self.sizes[:-1]]

    @cached_property
    def least_budget(self) -> int:
        """The least budget with which every planned arm is pulled at least once."""
        least = self.reserve + 1
        return least if self.budget_rule == "printed" else max(least, self.dearest(1))

    @cached_property
    def usable_budget(self) -> int:
        """T' under the budget rule."""
        if self.budget_rule == "printed":
            return self.printed_budget
        # The largest number of pulls does not decrease in T'. The module `bisect` would stop at
        # 2^31 on platforms where no list is longer.
        low, high = 0, self.printed_budget
        while low < high:
            middle = (low + high + 1) // 2
            if self.dearest(middle) <= self.budget:
                low = middle
            else:
                high = middle - 1
        return low

    @property
    def shrinkage(self) -> tuple[float, ...]:
        """(s_p - g_0) / (s_{p+1} - g_0) in the first stage, close to lambda (App. Example)."""
        first = [size - self.g[0] for size in self.sizes if size > self.g[0]]
        return tuple(a / b for a, b in pairwise(first))
