"""The lemmas of the proof of Theorem 4.2: how one arm, and then one phase, can go wrong.

If the best arm is dropped, a number of arms whose gap is at least Delta_(i) beat it, and Markov's
inequality gives a bound (`Elimination`), for any i. The paper's two elimination lemmas
choose i; where they fail, another i closes the gap: i = 2, a union bound over the suboptimal arms,
where ceil(d^2/4) = 1 (d <= 2) makes the paper's Delta_(1) = 0; and i about min(d^2, s_p)/4 in the
last phase of the first stage under `convention="printed"`, where the paper divides by g_1 - g_0 + 1
<= 0.
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
    """Bound the probability that an arm's noisy mean reaches that of the best arm in one phase.

    It is 2 exp(-Delta^2 count / 16) + 2 exp(-epsilon Delta count / 16), Lemma G.2, which the paper
    states for large T'. It holds for every T': while count <= 11 the first term exceeds 1, and
    beyond that the quadratic branch of the noise's tail is small enough or the second term exceeds
    1.

    Parameters
    ----------
    gap : float
        Delta_j, in (0, 1].
    epsilon : float
        Privacy parameter.
    count : int
        ceil(T' / (M min(d_Q^2, s_p))), d_Q the dimension that the active arms span.
    """
    gap, count = _check.positive(gap, "gap"), _check.whole(count, "count")
    return _two_tails(gap * gap * count, _check.epsilon(epsilon) * gap * count)


def suboptimal_arm_gauss(gap: float, *, sigma: float, count: int) -> float:
    """Bound the probability of `suboptimal_arm` for DP-BAI-Gauss, Lemma J.1.

    It is 2 exp(-Delta^2 count / 16) + 2 exp(-(Delta count / sigma)^2 / 16), where `sigma` is the
    deviation of the noise on a single reward: sqrt(2 log(1.25/delta)) / epsilon in the paper. (The
    paper bounds the noise of one arm by 32 d_Q, but its argument gives 64 d_Q. Both arms together,
    rewards and noise as one sub-Gaussian difference, give 32 d_Q after all.)
    """
    gap, count = _check.positive(gap, "gap"), _check.whole(count, "count")
    sigma = _check.non_negative(sigma, "sigma")
    ratio = gap * count / sigma if sigma else math.inf
    return _two_tails(gap * gap * count, ratio * ratio)


def _two_tails(rewards: float, noise: float) -> float:
    return 2 * exp_bound(-rewards / LEMMA_CONSTANT) + 2 * exp_bound(-noise / LEMMA_CONSTANT)


def first_stage_elimination(gap: float, *, epsilon: float, count: int, lam: float) -> float:
    """Bound the probability that a phase p <= M_1 drops the best arm, Lemma G.3.

    2 lambda (exp(-gap^2 count / 16) + exp(-epsilon gap count / 16)) with gap = Delta_(g_0). It says
    nothing when g_0 = 1, and `convention="printed"` breaks its proof at p = M_1.
    """
    return _check.non_negative(lam, "lam") * suboptimal_arm(gap, epsilon=epsilon, count=count)


def second_stage_elimination(gap: float, *, epsilon: float, count: int) -> float:
    """Bound the probability that a phase p > M_1 drops the best arm, Lemma G.4.

    6 (exp(-gap^2 count / 16) + exp(-epsilon gap count / 16)) with gap = Delta_(s_{p+2} + 1).
    """
    return 3 * suboptimal_arm(gap, epsilon=epsilon, count=count)


@dataclass(frozen=True)
class Elimination:
    """How a phase can drop the best arm, by Markov's inequality.

    Of the `size` active arms, at most i - 2 besides the best have a gap below Delta_(i). So if the
    best arm is dropped, at least `excess` of the `candidates` with larger gaps beat it.

    Attributes
    ----------
    phase : int
        p, counted from 1.
    size, keep : int
        s_p and s_{p+1}.
    index : int
        i, counted from 1 as in the paper, at least 2.
    divisor : int
        The largest min(d_Q^2, s_p): n pulls of each pulled arm are as good as T'/(M divisor) of
        each active arm.
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
        """How many of them must beat the best arm for it to be dropped, at least 1."""
        return self.keep - self.index + 2

    @property
    def factor(self) -> float:
        """The phase drops the best arm with probability at most factor * `suboptimal_arm`."""
        return self.candidates / self.excess

    @property
    def constant(self) -> float:
        """The c of exp(-T'/(c M H)) that this phase allows; the paper's is 64."""
        return LEMMA_CONSTANT * self.divisor / self.index


def eliminations(schedule: Schedule, *, rank: int) -> tuple[Elimination, ...]:
    """Return how each phase can drop the best arm, for features that span `rank` dimensions."""
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
