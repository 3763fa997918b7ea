"""The exact law of the survivors of one or several phases, given the empirical means.

The survivors are the arms with the largest estimates `decoder @ (statistic + noise)`, and ties are
broken evenly. For two independent estimates, the law has a closed form. Otherwise it consists of
one-dimensional integrals: over the least surviving estimate if the estimates are independent, and
over sectors of the plane if two coordinates are released. The integrands are smooth between known
kinks, so that Gauss-Legendre rules are exact to rounding. They are computed as logarithms, so that
ratios of the probabilities of rare events are accurate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpbai import _check
from dpbai._check import FloatArray
from dpbai.noise import Gaussian, Laplace, NoNoise
from dpbai.phase import Phase
from dpbai.ranking import sorted_rows

Survivors = tuple[int, ...]
Law = dict[Survivors, FloatArray]
"""The log probability of each set of survivors, for each of many vectors of means."""

_NODES, _WEIGHTS = special.roots_legendre(24)
_NARROW = 1e-5  # in standard deviations of the noise
BLOCK = 1000  # vectors of means in one array operation


def log_survival(phase: Phase, means: FloatArray) -> Law:
    """Return the log probability of each set that can survive, for each of n vectors of means.

    Parameters
    ----------
    phase : Phase
        A phase with `NoNoise`, `Laplace` or `Gaussian` noise. The estimates must be the released
        coordinates themselves, or be decoded from at most two of them, and not from earlier
        releases.
    means : ndarray of shape (n, m)
        Empirical means of the m pulled arms.
    """
    _check.kind(phase, "phase", Phase)
    if phase.remembered:
        raise ValueError(
            f"phase {phase.index} remembers earlier releases, on which its survivors depend. Use "
            "exact_audit for the joint law of all phases, or monte_carlo_audit"
        )
    means = _check.shaped(means, "means", (None, len(phase.pulled)))
    return log_joint_survival([phase], [], [means])


def log_joint_survival(
    phases: Sequence[Phase], before: Sequence[Survivors], means: Sequence[FloatArray]
) -> Law:
    """Return the joint log probabilities of the survivors of some phases.

    They are a single phase, or one with all phases that it remembers, which keep the sets in
    `before`. With noise, phases that are remembered release at most two coordinates in all.
    """
    phase = phases[-1]
    statistic = np.hstack([p.statistic(x) for p, x in zip(phases, means, strict=True)])
    order, begins = sorted_rows(statistic)
    statistic = statistic[order[begins]]
    noises = [p.noise for p in phases if p.coordinates] or [NoNoise()]
    noise, kinds = noises[0], set(map(type, noises))
    alone = len(phases) == 1
    independent = alone and phase.decoder_matrix is None
    law: Callable[[FloatArray], Law]
    if kinds == {NoNoise} or (alone and phase.keep == len(phase.active)):
        law = partial(_along, phases, before)
    elif not independent and (statistic.shape[1] > 2 or len(kinds) > 1):
        raise ValueError(
            "an exact law requires noise of one kind, and estimates decoded from at most 2 "
            f"coordinates, but phase {phase.index} decodes {statistic.shape[1]}, with "
            f"{' and '.join(sorted(kind.__name__ for kind in kinds))} noise. Use monte_carlo_audit"
        )
    elif not isinstance(noise, Laplace | Gaussian):
        raise TypeError(f"no exact law for {type(noise).__name__} noise. Use monte_carlo_audit")
    elif independent:
        law = partial(_independent, phase, noise)
    else:
        law = partial(_sectors, phases, before, noise)
    found: Law = {}
    for start in range(0, len(statistic), BLOCK):
        for kept, values in law(statistic[start : start + BLOCK]).items():
            if kept not in found:
                found[kept] = np.full(len(statistic), -np.inf)
            found[kept][start : start + BLOCK] = values
    ranks = np.cumsum(begins)[np.argsort(order)] - 1
    return {kept: values[ranks] for kept, values in found.items()}


def _certain(phase: Phase, released: FloatArray) -> Law:
    """Return the law of the survivors given n releases: only the breaking of ties is random."""
    sure, tied = phase.tied(released)
    patterns, which = np.unique(sure + 2 * tied, axis=0, return_inverse=True)
    law: Law = {}
    for number, pattern in enumerate(patterns):
        above, equal = np.flatnonzero(pattern == 1), np.flatnonzero(pattern == 2)
        ways = list(combinations(equal.tolist(), phase.keep - above.size))
        for chosen in ways:
            kept = tuple(phase.active[i] for i in sorted((*above.tolist(), *chosen)))
            chances = law.setdefault(kept, np.full(len(released), -np.inf))
            chances[which.ravel() == number] = -math.log(len(ways))
    return law


def _along(phases: Sequence[Phase], before: Sequence[Survivors], released: FloatArray) -> Law:
    """Return the joint law of the survivors of some phases given the releases."""
    reached, never = np.zeros(len(released)), np.full(len(released), -np.inf)
    for phase, kept in zip(phases[:-1], before, strict=True):
        first = released[:, : phase.remembered + phase.coordinates]
        reached = reached + _certain(phase, first).get(kept, never)
    return {kept: reached + values for kept, values in _certain(phases[-1], released).items()}


def _independent(phase: Phase, noise: Laplace | Gaussian, statistic: FloatArray) -> Law:
    """Integrate over x, the least surviving estimate; those of the other survivors exceed x."""
    if len(phase.active) == 2:
        lead = statistic[:, 0] - statistic[:, 1]
        chances = noise.log_cdf_of_difference(lead), noise.log_cdf_of_difference(-lead)
        return dict(zip(combinations(phase.active, 1), chances, strict=True))
    reach, step = reach_and_step(noise, len(phase.active))
    ends = statistic.min(axis=1) - reach, statistic.max(axis=1) + reach
    x, log_weights = rule(*ends, statistic, step)
    offsets = x[:, None, :] - statistic[:, :, None]
    density, below, above = noise.log_density(offsets), *map(noise.log_cdf, (offsets, -offsets))
    law = {}
    positions = range(len(phase.active))
    for kept in combinations(positions, phase.keep):
        dropped = [j for j in positions if j not in kept]
        outside = below[:, dropped].sum(axis=1) + log_weights
        inside = above[:, list(kept)].sum(axis=1)
        terms = [outside + inside - above[:, i] + density[:, i] for i in kept]
        arms = tuple(phase.active[i] for i in kept)
        law[arms] = special.logsumexp(np.stack(terms), axis=(0, 2))
    return law


def _sectors(
    phases: Sequence[Phase],
    before: Sequence[Survivors],
    noise: Laplace | Gaussian,
    statistic: FloatArray,
) -> Law:
    """Integrate over the sectors of the plane of two coordinates in which the survivors are fixed.

    The order of the estimates depends only on the direction of the released vector, and changes at
    the directions in which two estimates are equal. The vector is represented by a complex number,
    in units of the noise. Since quarter turns do not change the law of the noise, each sector is
    rotated to within 45 degrees of the positive real axis.
    """
    scales = np.array([p.noise.standard_deviation for p in phases for _ in range(p.coordinates)])
    noise = Laplace(math.sqrt(0.5)) if isinstance(noise, Laplace) else Gaussian(1.0)
    axes = np.array([1, 1j])[: scales.size]
    rows = [p.decoder @ (scales * axes)[: p.decoder.shape[1]] for p in phases]
    gaps = np.array([a - b for each in rows for a, b in combinations(each, 2) if a != b])
    diagonals = math.pi / 4 + math.pi / 2 * np.arange(4)
    angles = np.concatenate([np.angle(1j * gaps), np.angle(-1j * gaps), diagonals]) % (2 * math.pi)
    angles = np.unique(angles)
    # Far out, only arms tie whose rows of the decoder are equal to within rounding.
    far = 1 + max(float(phase.reach.max(initial=0.0)) for phase in phases)
    law: Law = {}
    for start, stop in zip(angles, [*angles[1:], angles[0] + 2 * math.pi], strict=True):
        middle = (start + stop) / 2
        towards = np.array([math.cos(middle), math.sin(middle)])[: scales.size] * scales
        turns = round(middle / (math.pi / 2))
        slopes = [math.tan(end - turns * math.pi / 2) for end in (start, stop)]
        reached = _sector(noise, statistic / scales @ axes * (1, -1j, -1, 1j)[turns % 4], *slopes)
        release = far / np.abs(towards).max() * towards[None]
        for kept, log_chance in _along(phases, before, release).items():
            law[kept] = np.logaddexp(law.get(kept, -np.inf), reached + log_chance)
    return law


def _sector(
    noise: Laplace | Gaussian, statistic: NDArray[np.complex128], low: float, high: float
) -> FloatArray:
    """Return log P(low w_1 < w_2 < high w_1, w_1 > 0) for w = statistic + noise.

    The slopes `low` and `high` are in [-1, 1]. The integral over w_1 ends at `stop`. For Laplace
    noise, the integrand decays with half the rate of the density, or faster, beyond the first
    statistic and twice the second; kinks further out belong to slopes below 1/2. For Gaussian
    noise, the point of the sector nearest to the statistic is no farther from 0 than the statistic.
    """
    first, second = statistic.real, statistic.imag
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = np.column_stack([first, second / low, second / high])
    reach, step = reach_and_step(noise, 2)
    stop = np.maximum(0, first) + 2 * np.abs(second) + 2 * reach
    x, log_weights = rule(np.zeros_like(stop), stop, np.nan_to_num(kinks), step)
    upper, lower = high * x - second[:, None], low * x - second[:, None]
    # P(lower < Z < upper), computed in the tail that contains the interval to avoid cancellation.
    mirrored = upper + lower > 0
    upper, lower = np.where(mirrored, -lower, upper), np.where(mirrored, -upper, lower)
    log_upper = noise.log_cdf(upper)
    width = (high - low) * x
    with np.errstate(divide="ignore", invalid="ignore"):
        between = log_upper + np.log(-np.expm1(noise.log_cdf(lower) - log_upper))
        # In a very narrow interval digits would still cancel, but the density is constant.
        constant = noise.log_density((upper + lower) / 2) + np.log(width)
    between = np.where(width < _NARROW * noise.standard_deviation, constant, between)
    density = noise.log_density(x - first[:, None])
    return np.asarray(special.logsumexp(density + between + log_weights, axis=1))


def reach_and_step(noise: Laplace | Gaussian, factors: int) -> tuple[float, float]:
    """Return the distance at which a density falls by e^-45, and the length of one panel.

    A product of Laplace factors changes by at most e^12 on each half of a panel.
    """
    if isinstance(noise, Laplace):
        return 45 * noise.scale, 24 * noise.scale / factors
    return math.sqrt(90) * noise.sigma, math.sqrt(2) * noise.sigma


def rule(
    start: FloatArray, stop: FloatArray, kinks: FloatArray, step: float
) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log weights, shape (n, nodes), of integrals from `start` to `stop`."""
    pieces = math.ceil(float((stop - start).max()) / step)
    inner = np.clip(kinks, start[:, None], stop[:, None])
    edges = np.sort(np.concatenate([np.linspace(start, stop, pieces + 1, axis=1), inner], axis=1))
    half = np.diff(edges, axis=1)[:, :, None] / 2
    middle = (edges[:, 1:] + edges[:, :-1])[:, :, None] / 2
    with np.errstate(divide="ignore"):
        log_weights = np.log(half * _WEIGHTS)
    rows = len(start)
    return (middle + half * _NODES).reshape(rows, -1), log_weights.reshape(rows, -1)


def survival_work(phase: Phase, reward_bound: float, before: Sequence[Phase] = ()) -> float:
    """Return about how many numbers are computed for the law of survivors, per vector of means."""
    noise, arms, keep = phase.noise, len(phase.active), phase.keep
    sets = math.comb(arms, keep)
    if not isinstance(noise, Laplace | Gaussian) or (keep == arms and not before):
        return sets
    decoded = phase.decoder_matrix is not None
    if arms == 2 and not decoded:
        return 1
    width = reward_bound * float(phase.reach.max(initial=0.0))
    reach, step = reach_and_step(noise, 2 if decoded else arms)
    if not decoded:
        return (3 * arms + sets * keep) * len(_NODES) * ((width + 2 * reach) / step + arms)
    gaps = sum(len(p.active) * (len(p.active) - 1) for p in (*before, phase))
    return sets + (gaps + 4) * len(_NODES) * ((3 * width + 2 * reach) / step + 3)
