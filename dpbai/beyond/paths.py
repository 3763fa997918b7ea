"""A bound on the error of any policy, from its plans along every path of active sets.

Given the active sets so far, the error of an estimate is a sum of rewards and noise with known
weights, and `bernstein` bounds the probability that a rival is ahead of the best arm. If the best
arm is dropped by a phase that keeps k arms, at least k rivals are ahead. For any j < k, at least
k - j of them are not among the j rivals that are most likely to be ahead, and Markov's inequality
bounds the probability of that. A policy that remembers uses a release on many paths, so that its
bound is a sum over paths. A policy that does not remember uses new rewards in each phase, and its
bound is that of the worst active set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.instance import Instance, check_one_best
from dpbai.noise import Gaussian, Laplace, NoNoise
from dpbai.phase import Phase, Policy, remembers
from dpbai.plans import Stage
from dpbai.policies import DPBAI
from dpbai.ranking import alike
from dpbai.upper import check_match, theorem_bound


def upper_bound(policy: Policy, instance: Instance) -> float:
    """Return an upper bound on a policy's error probability, from its plans and the instance.

    Parameters
    ----------
    policy : Policy
        For `DPBAI` the bound is that of Theorem 4.2, exp(-T' / (65 M H)), which is proved only for
        sufficiently large T; `explicit_upper_bound` gives bounds for every T. For a policy with a
        method `error_bound(instance)`, such as `DPHalving`, the result of that method is returned.
        For others, such as `DPDesign`, the bound is `path_bound`, which holds for every T.
    instance : Instance
        With the policy's features and rewards in [0, 1]; for DP-BAI and DP-Halving also with linear
        means.

    Raises
    ------
    TypeError
        For `DPBAIGauss`, which has `gauss_upper_bound`, and other subclasses of `DPBAI` without an
        `error_bound`, such as `Baseline`: the theorem does not cover them, but `path_bound` does.
    ValueError
        If policy and instance do not match, or `path_bound` would follow too many paths.
    """
    if hasattr(policy, "error_bound"):
        return float(policy.error_bound(instance))
    if isinstance(policy, DPBAI):
        return theorem_bound(policy, instance)
    return path_bound(policy, instance)


def path_bound(policy: Policy, instance: Instance, *, limit: int = 4096) -> float:
    """Bound a policy's error probability along every path of active sets; it can exceed 1.

    Parameters
    ----------
    policy : Policy
        With Laplace or Gaussian noise, or none. Ties up to rounding do not count as errors.
    instance : Instance
        With the policy's features, one best arm, and rewards in [0, 1]. The means need not be
        linear: the bound includes the bias of the estimates.
    limit : int
        The largest number of paths to follow. A plan takes about a millisecond.

    Raises
    ------
    ValueError
        If there are more paths, or policy and instance do not match.
    """
    check_match(policy, instance)
    check_one_best(instance)
    return _lost(Stage.first(policy), instance, 1, _check.whole(limit, "limit"))


def _lost(stage: Stage, instance: Instance, paths: int, limit: int) -> float:
    """Bound the probability that the best arm is dropped in this phase or later.

    The number of `paths` to this phase counts towards `limit`.
    """
    phase, active = stage.phase, stage.active
    best, rivals = instance.best, [arm for arm in active if arm != instance.best]
    bound = 0.0
    if phase.keep < len(active):
        ahead = np.sort(_ahead(instance, (*stage.remembered, phase)))[::-1]
        sums = np.cumsum(ahead[::-1])[::-1][: phase.keep]  # without the 0, 1, 2, ... most likely
        bound = float((sums / np.arange(phase.keep, 0, -1)).min())
    if phase.keep == 1:
        return bound
    paths *= math.comb(len(rivals), phase.keep - 1)
    if paths > limit:
        raise ValueError(
            f"limit must be at least {paths} to follow all paths to phase {phase.index + 1}, got "
            f"{limit}; a policy with fewer phases has fewer paths"
        )
    later = [
        _lost(stage.then(tuple(sorted((best, *others)))), instance, paths, limit)
        for others in combinations(rivals, phase.keep - 1)
    ]
    return bound + (sum(later) if remembers(stage.policy) else max(later))


def _ahead(instance: Instance, phases: Sequence[Phase]) -> FloatArray:
    """Bound the probability that each active rival's last estimate reaches the best arm's."""
    last = phases[-1]
    best = last.active.index(instance.best)
    contrasts = last.decoder[best] - np.delete(last.decoder, best, axis=0)
    lead, variance, scale = np.zeros((3, len(contrasts)))
    start = 0
    for phase in phases:
        part = contrasts[:, start : start + phase.coordinates]
        start += phase.coordinates
        weights = part @ phase.release  # of the empirical means
        lead += weights @ instance.means[list(phase.pulled)]
        variance += weights**2 @ (1 / (4 * np.array(phase.pulls, dtype=np.float64)))
        if not isinstance(phase.noise, Laplace | Gaussian | NoNoise):
            raise TypeError(
                f"policy must have Laplace or Gaussian noise, or none, got {phase.noise}"
            )
        with np.errstate(over="ignore"):
            noise = np.abs(phase.noise.standard_deviation * part)
            variance += (noise**2).sum(axis=1)
        if isinstance(phase.noise, Laplace):
            scale = np.maximum(scale, noise.max(axis=1, initial=0.0) / math.sqrt(2))
    # Arms with the same decoder row as the best arm always tie with it.
    tied = np.delete(alike(last.decoder, best), best)
    ahead = np.where(tied, 1.0, bernstein(lead, variance, scale))
    if last.keep == 1 == last.decoder.shape[1]:  # of one number, only the ends can win
        rows = np.delete(last.decoder, best)
        ahead[(last.decoder.min() < rows) & (rows < last.decoder.max())] = 0
    return ahead


def bernstein(deviation: ArrayLike, variance: ArrayLike, scale: ArrayLike) -> FloatArray:
    """Bound P(S - E S >= x) by exp(-x^2 / (2 (v + b x))), Bernstein's inequality; 1 where x <= 0.

    It holds if log E exp(t (S - E S)) <= t^2 v / (2 (1 - t b)) for 0 <= t < 1/b. This condition is
    met by a sum of independent variables, rewards in [0, 1] with weights u_k and Laplace variables
    of scales s_j with weights w_j, where v = sum u_k^2 / 4 + 2 sum (w_j s_j)^2 and b is the largest
    abs(w_j) s_j.

    Parameters
    ----------
    deviation, variance, scale : array_like
        x, v and b, of shapes that broadcast; v and b at least 0.
    """
    x = np.maximum(_check.reals(deviation, "deviation", least=-math.inf), 0)
    v, b = _check.reals(variance, "variance", least=0), _check.reals(scale, "scale", least=0)
    spread = 2 * (v + b * x)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound = np.exp(-np.where(x > 0, x**2 / spread, 0.0))
    # As in `exp_bound`, only impossible events have the bound 0.
    return np.where((x < np.inf) & (spread > 0), np.maximum(bound, math.ulp(0.0)), bound)
