"""The lemmas of the proof of Theorem 4.2: error bounds for one arm, and for one phase.

If a phase eliminates the best arm, one or more arms with a gap of at least Delta_(i) outrank it,
and Markov's inequality bounds the probability of this, for any i (`Elimination`). The paper's two
elimination lemmas choose an i, and fail in two cases, for which another i is used here. Where
ceil(d^2/4) = 1 (d <= 2), the paper's Delta_(1) is 0: i = 2 gives a union bound over the suboptimal
arms. In the last phase of the first stage under `convention="printed"`, the paper divides by g_1 -
g_0 + 1 <= 0: i is about min(d^2, s_p)/4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbai import _check
from dpbai.noise import exp_bound
from dpbai.schedule import Schedule, ceil_div

LEMMA_CONSTANT = 16
FINITE_CONSTANT = 64


def suboptimal_arm(gap: float, *, epsilon: float, count: int) -> float:
    """Bound the probability that an arm's estimate reaches that of the best arm in one phase.

    The bound is 2 exp(-Delta^2 count / 16) + 2 exp(-epsilon Delta count / 16), Lemma G.2. The paper
    states it for large T', but it holds for every T': for count <= 11 the first term exceeds 1, and
    otherwise the quadratic branch of the noise's tail is small enough or the second term exceeds 1.

    Parameters
    ----------
    gap : float
        Delta_j, in (0, 1].
    epsilon : float
        Privacy parameter.
    count : int
        ceil(T' / (M min(d_Q^2, s_p))), where the active arms span d_Q dimensions.
    """
    gap, count = _check.positive(gap, "gap"), _check.whole(count, "count")
    return _two_tails(gap * gap * count, _check.epsilon(epsilon) * gap * count)


def suboptimal_arm_gauss(gap: float, *, sigma: float, count: int) -> float:
    """Bound the probability of `suboptimal_arm` for DP-BAI-Gauss, Lemma J.1.

    The bound is 2 exp(-Delta^2 count / 16) + 2 exp(-(Delta count / sigma)^2 / 16), where `sigma` is
    the standard deviation of the noise on a single reward: sqrt(2 log(1.25/delta)) / epsilon in the
    paper. (The paper has 32 d_Q in the bound for the noise of one arm, but its argument gives 64
    d_Q. Bounding the difference of both arms at once, as one sub-Gaussian variable, gives 32 d_Q.)
    """
    gap, count = _check.positive(gap, "gap"), _check.whole(count, "count")
    sigma = _check.non_negative(sigma, "sigma")
    ratio = gap * count / sigma if sigma else math.inf
    return _two_tails(gap * gap * count, ratio * ratio)


def _two_tails(rewards: float, noise: float) -> float:
    return 2 * exp_bound(-rewards / LEMMA_CONSTANT) + 2 * exp_bound(-noise / LEMMA_CONSTANT)


def first_stage_elimination(gap: float, *, epsilon: float, count: int, lam: float) -> float:
    """Bound the probability that a phase p <= M_1 eliminates the best arm, Lemma G.3.

    2 lambda (exp(-gap^2 count / 16) + exp(-epsilon gap count / 16)) with gap = Delta_(g_0). It is
    trivial for g_0 = 1, and its proof fails at p = M_1 under `convention="printed"`.
    """
    return _check.non_negative(lam, "lam") * suboptimal_arm(gap, epsilon=epsilon, count=count)


def second_stage_elimination(gap: float, *, epsilon: float, count: int) -> float:
    """Bound the probability that a phase p > M_1 eliminates the best arm, Lemma G.4.

    6 (exp(-gap^2 count / 16) + exp(-epsilon gap count / 16)) with gap = Delta_(s_{p+2} + 1).
    """
    return 3 * suboptimal_arm(gap, epsilon=epsilon, count=count)


@dataclass(frozen=True)
class Elimination:
    """How a phase can eliminate the best arm, for a bound by Markov's inequality.

    Of the `size` active arms, at most i - 2 besides the best have a gap below Delta_(i). So if the
    best arm is eliminated, at least `excess` of the others, the `candidates`, outrank it.

    Attributes
    ----------
    phase : int
        p, counted from 1.
    size, keep : int
        s_p and s_{p+1}.
    index : int
        i, counted from 1 as in the paper, at least 2.
    divisor : int
        The largest min(d_Q^2, s_p): estimates are as precise as with T'/(M divisor) pulls of each
        active arm.
    reason : str
        "Lemma G.3", "Lemma G.4", "union bound" (for g_0 = 1) or "regrouped" (for p = M_1 under
        `convention="printed"`).
    """

    phase: int
    size: int
    keep: int
    index: int
    divisor: int
    reason: str

    @property
    def candidates(self) -> int:
        """How many active arms have a gap of at least Delta_(i)."""
        return self.size - self.index + 1

    @property
    def excess(self) -> int:
        """How many of them must outrank the best arm to eliminate it, at least 1."""
        return self.keep - self.index + 2

    @property
    def factor(self) -> float:
        """The phase eliminates the best arm with probability at most factor * `suboptimal_arm`."""
        return self.candidates / self.excess

    @property
    def constant(self) -> float:
        """The c in the bound exp(-T'/(c M H)) for this phase; 64 in the paper."""
        return LEMMA_CONSTANT * self.divisor / self.index


def eliminations(schedule: Schedule, *, rank: int) -> tuple[Elimination, ...]:
    """Return how each phase can eliminate the best arm, for features of the given rank."""
    sizes, target = _check.kind(schedule, "schedule", Schedule).sizes, schedule.g[0]
    rank = _check.whole(rank, "rank")
    steps = zip(sizes[:-1], sizes[1:], (*sizes[2:], 1), strict=True)
    found = []
    for phase, (size, keep, after) in enumerate(steps, start=1):
        divisor = min(rank**2, size)
        if phase > schedule.M1 or size == target:
            index, reason = after + 1, "Lemma G.4"
        elif target == 1:
            index, reason = 2, "union bound"
        elif keep >= target - 1:
            index, reason = target, "Lemma G.3"
        else:
            index = min(max(2, ceil_div(divisor, FINITE_CONSTANT // LEMMA_CONSTANT)), keep + 1)
            reason = "regrouped"
        found.append(Elimination(phase, size, keep, index, divisor, reason))
    return tuple(found)
