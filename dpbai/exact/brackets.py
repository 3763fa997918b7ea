"""Bounds on error probabilities without sampling, for any number of released coordinates.

The best arm is not recommended if another arm has a larger estimate. The lead of the best arm over
arm k is a linear form of the release, and ``inversion`` computes the probability p_k that it is
negative. So max p_k <= P(error) <= sum p_k. The probabilities of pairs of arms, that both leads are
negative, sharpen both bounds (``pairs``).

With several phases, the upper bound is a sum over the ways to lose the best arm: it is lost in the
first phase; a set of arms survives that is not one of a few likely ones; or one of these survives,
and the best arm is lost later.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np

from dpbai._check import FloatArray, IntArray
from dpbai.exact.error import first_stage, not_smooth
from dpbai.exact.inversion import Variables
from dpbai.exact.pairs import bounds_of_union
from dpbai.exact.quadrature import SMALLEST_LOG, RoughDensityError
from dpbai.exact.terms import NotExactError, independent_terms
from dpbai.instance import Instance
from dpbai.phase import Phase, Policy, remembers
from dpbai.plans import Stage
from dpbai.ranking import alike

_SMALL_PART = 0.01
_BATCH = 16  # forms
_MOST_PAIRED = 64  # forms
_MOST_FORMS = 20_000
_MOST_SETS = 64


class ErrorBounds(NamedTuple):
    """The bounds `low` and `high` on an error probability, in [0, 1]."""

    low: float
    high: float


def error_bounds(policy: Policy, instance: Instance, *, rtol: float = 1e-4) -> ErrorBounds:
    """Return bounds on the probability that `policy` does not recommend the best arm.

    With several phases, and for probabilities below 1e-250, `low` is 0. `high` is at least 1e-250.

    Parameters
    ----------
    policy : Policy
        A policy with any number of released coordinates. With several phases, `high` is useful only
        if few sets of arms are likely to survive each phase.
    instance : Instance
        The source of the rewards; its features may differ from those of the policy.
    rtol : float, default 1e-4
        The relative error of the probabilities from which the bounds are computed, in [1e-10,
        1e-2]. The bounds are valid in spite of it.

    Raises
    ------
    NotExactError
        If there are no bounds; it is a `ValueError` that states why. The rewards have atoms and
        there is no noise, the noise is not one of ``dpbai.noise``, the rewards have another law
        than `Uniform`, `Bernoulli` or `Empirical`, or too many sets of arms may survive a phase.
    ValueError
        If `rtol` is out of range, or policy and instance differ in the number of arms.
    """
    first = first_stage(policy, instance, rtol, "[1e-10, 1e-2]")
    try:
        if first.phase.keep > 1:
            high = _error_from(first, instance, rtol)
            return ErrorBounds(0.0, max(high, math.exp(SMALLEST_LOG)))
        return _one_phase(first.phase, instance, rtol)
    except RoughDensityError as reason:
        raise not_smooth(rtol, reason) from reason


def _one_phase(phase: Phase, instance: Instance, rtol: float) -> ErrorBounds:
    rivals = ~alike(phase.decoder, instance.best)
    leads = (phase.decoder[instance.best] - phase.decoder)[rivals]
    if phase.coordinates == 1:  # leads of the same sign are negative together
        leads = leads[np.unique(leads > 0, return_index=True)[1]]
    forms = _forms((phase,), instance, leads, rtol)
    rows, chances, pruned = _chances(forms)
    low, high = 0.0, pruned
    if rows.size:
        order = np.argsort(-chances)
        likely = order[:_MOST_PAIRED]
        low, high = bounds_of_union(forms, rows[likely], chances[likely])
        high += math.fsum(chances[order[_MOST_PAIRED:]].tolist()) + pruned
    low, high = low * (1 - rtol), min(max(high * (1 + rtol), math.exp(SMALLEST_LOG)), 1.0)
    # The best arm always ties with the arms that are not rivals, and ties are broken evenly.
    tied = int(np.count_nonzero(~rivals))
    return ErrorBounds(float(low + (tied - 1)) / tied, float(high + (tied - 1)) / tied)


def _forms(
    phases: tuple[Phase, ...], instance: Instance, leads: FloatArray, rtol: float
) -> Variables:
    """Return leads, given as weights of the releases of some phases, as forms of their terms."""
    starts = np.cumsum([phase.coordinates for phase in phases])[:-1]
    terms, weights = [], []
    for phase, block in zip(phases, np.split(leads, starts, axis=1), strict=True):
        terms += independent_terms(phase, instance)
        weights += [block @ phase.release, block]
    return Variables(terms, np.hstack(weights), rtol / 4)


def _chances(forms: Variables) -> tuple[IntArray, FloatArray, float]:
    """Return the likeliest forms to be negative, their probabilities, and a bound on the rest."""
    order = np.argsort(-forms.log_bounds)
    # Chernoff's bounds suffice for forms that together are a small part.
    bounds = np.exp(forms.log_bounds[order])
    remaining = np.append(np.cumsum(bounds[::-1])[::-1], 0.0)
    if forms.log_bounds.max(initial=-math.inf) < SMALLEST_LOG:
        return order[:0], bounds[:0], float(remaining[0])
    chances = np.exp(forms.log_probabilities(order[:1]))
    while remaining[chances.size] > _SMALL_PART * chances.sum():
        more = order[chances.size : chances.size + _BATCH]
        chances = np.append(chances, np.exp(forms.log_probabilities(more)))
    return order[: chances.size], chances, float(remaining[chances.size])


def _error_from(stage: Stage, instance: Instance, rtol: float) -> float:
    """Return a bound on the probability that the best arm is lost in this phase or later.

    It is lost in this phase if at least `keep` arms have larger estimates. By Markov's inequality,
    the probability of that is at most the sum of those of all arms, divided by `keep`.
    """
    phase = stage.phase
    if phase.keep == len(phase.active) > 1:
        lost, sets, other = 0.0, [phase.active], 0.0
    else:
        decoder, best = phase.decoder, phase.active.index(instance.best)
        phases = (*stage.remembered, phase)
        rivals = np.flatnonzero(~alike(decoder, best))
        lost = float(len(decoder) - 1 - rivals.size)
        _, chances, pruned = _chances(
            _forms(phases, instance, decoder[best] - decoder[rivals], rtol)
        )
        lost = (lost + (math.fsum(chances.tolist()) + pruned) * (1 + rtol)) / phase.keep
        if phase.keep == 1:
            return min(lost, 1.0)
        sets, other = _survivors(phase, phases, instance, lost, rtol)
    later = [_error_from(stage.then(arms), instance, rtol) for arms in sets]
    # New releases are independent of the set that survives. Remembered ones are not, and then only
    # the sum over all sets is a bound.
    rest = math.fsum(later) if remembers(stage.policy) else max(later)
    return min(lost + other + rest, 1.0)


def _survivors(
    phase: Phase, phases: tuple[Phase, ...], instance: Instance, lost: float, rtol: float
) -> tuple[list[tuple[int, ...]], float]:
    """Return likely sets of survivors that include the best arm, and a bound on all other sets.

    An arm can survive only if its estimate exceeds, or ties with, one of those of `keep` others,
    for which the arms with the largest means are taken.
    """
    decoder, arms = phase.decoder, np.asarray(phase.active)
    order = np.argsort(-instance.means[arms], kind="stable")
    first, others = order[: phase.keep], order[phase.keep :]
    if first.size * others.size > _MOST_FORMS:
        raise NotExactError(f"too many of the {arms.size} arms may survive phase {phase.index}")
    tie = np.stack([alike(decoder, arm)[others] for arm in first.tolist()], axis=1)
    forms = _forms(phases, instance, (decoder[first] - decoder[others, None])[~tie], rtol)
    bounds = np.ones(tie.shape)
    bounds[~tie] = np.exp(forms.log_bounds)
    bounds = bounds.sum(axis=1)
    likely = np.argsort(-bounds)
    remaining = np.append(np.cumsum(bounds[likely][::-1])[::-1], 0.0)
    extra = int(np.flatnonzero(remaining <= _SMALL_PART * lost)[0])
    if math.comb(phase.keep - 1 + extra, phase.keep - 1) > _MOST_SETS:
        raise NotExactError(f"too many sets of arms may survive phase {phase.index}")
    rivals = np.append(first[1:], others[likely[:extra]])
    sets = [
        tuple(sorted([instance.best, *arms[list(rest)].tolist()]))
        for rest in combinations(rivals.tolist(), phase.keep - 1)
    ]
    return sets, float(remaining[extra])
