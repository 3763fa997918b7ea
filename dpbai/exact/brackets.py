r"""Bounds of error probabilities in any dimension, without sampling.

The best arm is not recommended if a rival's estimate is larger, and each rival's lead is a linear
form of what is released, whose probability ``half_spaces`` knows. So with p_k the probability that
rival k beats the best arm, max p_k <= P(error) <= sum p_k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpbai import _check
from dpbai._check import FloatArray
from dpbai._transforms import InaccurateError
from dpbai.exact.half_spaces import HalfSpaces, independent_terms
from dpbai.exact.pairs import bounds_of_union
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError
from dpbai.exact.transforms import NotExactError
from dpbai.instance import Instance
from dpbai.policies import Phase, Policy
from dpbai.policies.phase import arms_of, planned
from dpbai.policies.ranking import alike

_SMALL_PART = 0.01
_BATCH = 16
_MOST_PAIRED = 64


class ErrorBounds(NamedTuple):
    """An interval in which an error probability lies.

    Attributes
    ----------
    low, high : float
        In [0, 1].
    """

    low: float
    high: float


def error_bounds(policy: Policy, instance: Instance, *, rtol: float = 1e-4) -> ErrorBounds:
    """Return bounds of the probability that `policy` does not recommend the best arm.

    Parameters
    ----------
    policy : Policy
        With one phase, and any number of released coordinates.
    instance : Instance
        Where rewards come from; its features may differ from those of the policy.
    rtol : float, default 1e-4
        Relative error of the probabilities that the bounds are made of, in [1e-10, 1e-2]. The
        bounds allow for it.

    Returns
    -------
    ErrorBounds
        (low, high); below 1e-250, 0 stands for low.

    Raises
    ------
    NotExactError
        A `ValueError` that says what is not known: several phases, rewards with atoms and no noise,
        noise of another kind than those of ``dpbai.noise``.
    ValueError
        If `rtol` is out of range, or policy and instance differ in the number of arms.
    """
    if not 1e-10 <= _check.number(rtol, "rtol") <= 1e-2:
        raise ValueError(f"rtol must lie in [1e-10, 1e-2], got {rtol}")
    arms = arms_of(policy)
    if arms != _check.kind(instance, "instance", Instance).arms:
        raise ValueError(f"policy and instance must have as many arms, got {arms}, {instance.arms}")
    if len(instance.ties) > 1:
        raise NotExactError(f"arms {list(instance.ties)} tie for the best")
    phase = planned(policy, 1, range(arms))
    if phase.keep > 1:
        raise NotExactError(f"phase 1 keeps {phase.keep} arms, so there is more than one phase")
    try:
        return _one_phase(phase, instance, rtol)
    except (InaccurateError, RoughDensityError) as reason:
        raise NotExactError(str(reason)) from reason


def _one_phase(phase: Phase, instance: Instance, rtol: float) -> ErrorBounds:
    rivals = ~alike(phase.decoder, instance.best)
    low, high = _beaten(
        phase, instance, (phase.decoder[instance.best] - phase.decoder)[rivals], rtol
    )
    # The other arms always tie, and ties are broken evenly.
    tied = int(np.count_nonzero(~rivals))
    return ErrorBounds(float(low + (tied - 1)) / tied, float(high + (tied - 1)) / tied)


def _beaten(
    phase: Phase, instance: Instance, leads: FloatArray, rtol: float
) -> tuple[float, float]:
    """Return bounds of the probability that one of the leads is negative."""
    if not len(leads):
        return 0.0, 0.0
    forms = HalfSpaces(
        independent_terms(phase, instance), np.hstack([leads @ phase.release, leads]), rtol / 4
    )
    order = np.argsort(-forms.log_bounds)
    if forms.log_bounds[order[0]] < SMALLEST_LOG:
        return 0.0, math.fsum(np.exp(forms.log_bounds).tolist())
    # Chernoff bounds stand for rivals that together are a small part.
    bounds = np.exp(forms.log_bounds[order])
    remaining = np.append(np.cumsum(bounds[::-1])[::-1], 0.0)
    chances = np.exp(forms.log_probabilities(order[:1]))
    while remaining[chances.size] > _SMALL_PART * chances.sum():
        more = order[chances.size : chances.size + _BATCH]
        chances = np.append(chances, np.exp(forms.log_probabilities(more)))
    pruned, rows = float(remaining[chances.size]), order[: chances.size]
    order = np.argsort(-chances)
    rows, chances = rows[order], chances[order]
    paired = min(rows.size, _MOST_PAIRED)
    low, high = bounds_of_union(forms, rows[:paired], chances[:paired])
    high += math.fsum(chances[paired:].tolist()) + pruned
    return low * (1 - rtol), min(high * (1 + rtol), 1.0)
