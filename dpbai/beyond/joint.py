"""Theorem 4.2 with 17 in place of 65, by bounding rewards and noise jointly.

The paper bounds the errors of rewards and of noise separately, each at half of the gap. Chernoff's
bound on their sum is smaller. The rest is as in the paper: if the best arm is dropped, many rivals
are ahead of it (`Elimination`), each with a probability of at most `overtaken`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import optimize

from dpbai import _check
from dpbai.hardness import Hardness
from dpbai.instance import Instance
from dpbai.lemmas import Elimination, eliminations
from dpbai.noise import exp_bound
from dpbai.policies import DPBAI
from dpbai.scaling import rank
from dpbai.upper import checked_hardness, collections_of, whole_budget

_CONSTANT = 16  # in the exponent of the sum of bounds; 17 also absorbs its prefactor
_NO_NOISE = 2.0**20  # times the optimal t without noise; larger epsilons change no digit


@dataclass(frozen=True)
class JointBound:
    """A bound on the error probability of DP-BAI, under either convention of sizes.

    Attributes
    ----------
    value : float
        The bound, which holds for every T'. It is a sum over phases of `overtaken` times the
        `factor` of an `Elimination`, each the smallest over several ranks i.
    valid_from : float
        The T' from which on exp(-T'/(17 M H)) bounds the error probability.
    """

    value: float
    valid_from: float


def joint_bound(policy: DPBAI, instance: Instance) -> JointBound:
    """Bound the error probability of DP-BAI, with rewards and noise bounded jointly.

    Parameters
    ----------
    policy : DPBAI
        DP-BAI itself.
    instance : Instance
        With the policy's features, linear means and rewards in [0, 1].

    Raises
    ------
    TypeError
        If `policy` is not a `DPBAI`, or is of a subclass, such as DP-BAI-Gauss.
    ValueError
        If policy and instance do not match, the rewards leave [0, 1], or d = 1 (see `hardness`).
    """
    if type(policy) is not DPBAI:  # a subclass may have other noise
        raise TypeError(
            "policy must be DPBAI itself, with Laplace noise, not a subclass, got "
            f"{type(policy).__name__}"
        )
    hard, schedule = checked_hardness(policy, instance), policy.schedule
    phases = eliminations(schedule, rank=rank(policy.features))
    value = sum(_together(phase, policy, hard) for phase in phases)
    # From there on, 17 in place of 16 absorbs the prefactor M K ((d^2 + 8)/8)^d.
    d = schedule.dimension
    prefactor = math.log(schedule.M * schedule.arms) + d * math.log1p(d * d / 8)
    constant = _CONSTANT * (_CONSTANT + 1) * schedule.M
    return JointBound(value, whole_budget(constant * hard.total * prefactor))


def overtaken(gap: float, *, epsilon: float, pulls: int, arms: int, weight: float) -> float:
    """Bound the probability that a rival's estimate reaches that of the best arm in one phase.

    Chernoff's bound on the errors of rewards and noise together: the least value over 0 <= t <
    epsilon / w of exp(-n (t Delta - t^2 m w^2 / 8)) (1 - (t w / epsilon)^2)^-m, for n pulls of each
    of m arms and the weight w.

    Parameters
    ----------
    gap : float
        Delta, positive.
    epsilon : float
        Privacy parameter; infinity means no noise.
    pulls, arms : int
        n and m.
    weight : float
        The largest difference of the coordinates of the rival and of the best arm: 2 for a Max-Det
        collection of as many arms as they span dimensions; 1, with `arms` = 2, if all are pulled.
    """
    gap, weight = _check.positive(gap, "gap"), _check.positive(weight, "weight")
    pulls, arms = _check.whole(pulls, "pulls"), _check.whole(arms, "arms")
    # The optimal t without noise.
    free = max(4 * gap / (arms * weight**2), math.ulp(0.0))
    most = _check.epsilon(epsilon) / weight
    if math.isinf(most):
        return exp_bound(-pulls * gap * free / 2)
    # This is still an upper bound, since less noise does not help a rival, and x cannot underflow.
    most = min(most, _NO_NOISE * free)

    def slope(x: float) -> float:
        """Return 1 - x^2 times the slope of the exponent at t = x most; it changes sign once."""
        rewards = pulls * most * gap * (x * most / free - 1)
        return rewards * (1 - x * x) + 2 * arms * x

    x = optimize.brentq(slope, 0, 1)
    exponent = pulls * x * most * gap * (1 - x * most / free / 2)
    return exp_bound(-exponent - arms * math.log1p(-x * x))


def _together(phase: Elimination, policy: DPBAI, hard: Hardness) -> float:
    """Return the smallest of the bounds over several i, each for the worst rank."""
    schedule, size = policy.schedule, phase.size
    pulled = collections_of(phase, rank(policy.features))
    # The number of arms pulled, the number that enter the bound, and their weight.
    plans = [(m, m, 2.0) if m < size else (m, 2, 1.0) for m in pulled]
    bounds = []
    for index in {2, phase.index, min(schedule.g[1], phase.keep) + 1, phase.keep + 1}:
        of = {"gap": hard.gap(index), "epsilon": policy.epsilon}
        chances = [
            overtaken(**of, pulls=schedule.pulls(schedule.usable_budget, m), arms=arms, weight=w)
            for m, arms, w in plans
        ]
        bounds.append(max(chances) * (size - index + 1) / (phase.keep - index + 2))
    return min(bounds)
