"""A bound on the error of any policy, from its plans along every path of active sets.

It is not in the paper. Given the active sets so far, the error of an estimate is a sum of rewards
and noise with known weights, and `bernstein` bounds the chance that a rival is ahead of the best
arm. If the best arm is dropped, as many rivals are ahead as survive; without the j likeliest, all
but j of these, and Markov's inequality applies to them, for any j. A policy that remembers uses one
release on many paths, so that its bound is a sum over paths; one that does not has fresh rewards in
each phase, and its bound is that of the worst active set.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.instance import Instance, check_one_best
from dpbai.noise import Gaussian, Laplace, NoNoise
from dpbai.phase import Phase, Policy, remembers
from dpbai.plans import Stage
from dpbai.ranking import alike
from dpbai.tails import bernstein


def path_bound(policy: Policy, instance: Instance, *, limit: int = 4096) -> float:
    """Bound the error of any policy, along every path of active sets; it can exceed 1.

    Parameters
    ----------
    policy : Policy
        With Laplace or Gaussian noise, or none; ties to within rounding are not counted.
    instance : Instance
        With the policy's features, one best arm, and rewards in [0, 1]. Its means need not be
        linear: the bias of the estimates counts.
    limit : int
        The largest number of paths; a plan takes about a millisecond.

    Raises
    ------
    ValueError
        If there are more paths, or policy and instance do not match.
    """
    check_match(policy, instance)
    check_one_best(instance)
    return _lost(Stage.first(policy), instance, 1, _check.whole(limit, "limit"))


def check_match(policy: Policy, instance: Instance, *, linear: bool = False) -> None:
    """Raise an error unless features are the same, rewards lie in [0, 1], and means are linear."""
    _check.kind(policy, "policy", Policy)
    _check.kind(instance, "instance", Instance)
    if not np.array_equal(policy.features, instance.features):
        raise ValueError("policy and instance must have the same features")
    if instance.reward_bound > 1:
        raise ValueError(
            f"instance must have rewards in [0, 1] for these bounds, "
            f"but they reach {instance.reward_bound:.6g}"
        )
    if linear and instance.theta is None:
        raise ValueError("instance must have linear means: give it a theta")


def _lost(stage: Stage, instance: Instance, paths: int, limit: int) -> float:
    """Bound the chance that the best arm is dropped in a phase or later, on one of `paths`."""
    phase, active = stage.phase, stage.active
    best, rivals = instance.best, [arm for arm in active if arm != instance.best]
    bound = 0.0
    if phase.keep < len(active):
        ahead = np.sort(_ahead(instance, (*stage.remembered, phase)))[::-1]
        sums = np.cumsum(ahead[::-1])[::-1][: phase.keep]  # without the 0, 1, 2, ... likeliest
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
    """Bound, for each active rival, the chance that its last estimate reaches the best arm's."""
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
    # Arms with the decoder row of the best one always tie with it.
    tied = np.delete(alike(last.decoder, best), best)
    return np.where(tied, 1.0, bernstein(lead, variance, scale))
