"""How far estimates are off: their deviations, and an interval for the mean of the answer.

The recommended arm has the largest estimate, which is more likely too high than too low. So the
interval holds for all arms of the last phase at once. Earlier phases decide which arms these are
and, where releases are remembered, with which weights they count: so the error of each of those
releases is bounded for all of its coordinates at once, and for any weights.

Rewards are independent, lie in their range and have the mean of their arm. Means are linear in the
features where estimates use that, but for deviations of a normal law if a misfit is given: those of
all arms at once are bounded, so that the weights may depend on them too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from dpbai._check import FloatArray
from dpbai.field.session.records import SessionError
from dpbai.noise import Gaussian, Laplace, Noise
from dpbai.phase import Phase

_ROUNDING = 1e-6


@dataclass(frozen=True)
class Interval:
    """Where the mean of the recommended arm lies, in the units of rewards.

    Attributes
    ----------
    low, high : float
        The estimate minus and plus the sum of the next three; they may lie beyond the range of
        rewards.
    noise : float
        By how much the noise of the releases may move the estimate.
    sampling : float
        By how much the means of the observed rewards may differ from the true means (Hoeffding's
        inequality); where an arm was withdrawn, also the error of what replaces its rewards.
    deviations : float
        By how much deviations from linear means may move the estimate: 0 if none are allowed for,
        or if it uses the arm's own rewards only.
    confidence : float
        In at least this share of runs the mean lies within, whichever arm is recommended.
    """

    low: float
    high: float
    noise: float
    sampling: float
    deviations: float
    confidence: float


def decoded(phases: Sequence[Phase]) -> list[tuple[Phase, FloatArray]]:
    """Return the phases that the last one decodes, oldest first, with their columns of its decoder.

    Their shapes are (active arms of the last phase, coordinates of each).
    """
    last = phases[-1]
    used = phases if last.remembered else [last]
    ends = np.cumsum([phase.coordinates for phase in used])[:-1]
    return list(zip(used, np.split(last.decoder, ends, axis=1), strict=True))


def standard_deviations(phases: Sequence[Phase], of_a_reward: float = 0.0) -> FloatArray:
    """Return the standard deviation of each estimate of the last phase of a run, by the plans.

    That of the noise alone, unless the standard deviation of a reward is given.
    """
    parts = [weights * phase.noise.standard_deviation for phase, weights in decoded(phases)]
    if of_a_reward:
        parts += [
            weights @ phase.release * (of_a_reward / np.sqrt(phase.pulls))
            for phase, weights in decoded(phases)
        ]
    return np.asarray(np.linalg.norm(np.hstack(parts), axis=1))


def half_widths(
    phases: Sequence[Phase],
    counts: Sequence[Sequence[int]],
    features: FloatArray,
    place: int,
    confidence: float,
    misfit: float = 0.0,
) -> tuple[float, float, float]:
    """Return by how much noise, sampling and deviations may move an estimate, on [0, 1].

    It is that of the arm at `place` in the last of `phases`; `counts` are of the observed rewards.
    SessionError if these releases do not determine its mean.
    """
    last, arm = phases[-1], phases[-1].active[place]
    used = [(phase, columns[place]) for phase, columns in decoded(phases)]
    parts = [weights @ phase.release for phase, weights in used]
    on_means = np.zeros(len(features))  # the weights of the true means in the error
    on_means[arm] = -1
    for (phase, _), part in zip(used, parts, strict=True):
        on_means[list(phase.pulled)] += part
    own = len(used) == 1 and last.decoder_matrix is None and last.pulled == last.active
    close = np.abs(on_means @ features) <= _ROUNDING * np.abs(features).max(axis=0)
    if not own and not close.all():
        raise SessionError(
            "this run released sums or differences of means, which determine no mean"
        )
    size = float(np.abs(on_means).sum())
    deviate = misfit > 0 and size > _ROUNDING
    half = (1 - confidence) / (3 if deviate else 2)  # of the errors, for each source
    noisy = len(last.active) + sum(phase.coordinates for phase, _ in used[:-1])
    noise = _quantile(last.noise, used[-1][1], half / noisy)
    noise += sum(
        float(np.abs(weights).sum()) * _quantile(phase.noise, np.ones(1), half / noisy)
        for phase, weights in used[:-1]
    )
    sampled = len(last.active) + sum(len(phase.pulled) for phase, _ in used[:-1])
    factor = math.sqrt(math.log(2 * sampled / half) / 2)
    sampling = 0.0
    for part, (phase, _), count in zip(parts, used, counts[-len(used) :], strict=True):
        pulls, came = np.array(phase.pulls, dtype=np.float64), np.array(count)
        spread = np.abs(part) * np.sqrt(came) / pulls
        sampling += factor * float(np.linalg.norm(spread, 2 if phase is last else 1))
        sampling += float((np.abs(part) * (1 - came / pulls)).sum()) / 2
    largest = -float(special.ndtri(half / (2 * len(features))))  # of all deviations, in units of it
    return noise, sampling, misfit * largest * size if deviate else 0.0


def _quantile(noise: Noise, weights: FloatArray, chance: float) -> float:
    """Return a bound that `abs(weights @ noise)` exceeds with at most this probability."""
    sizes = np.abs(weights[weights != 0])
    length = float(np.linalg.norm(sizes))
    if not noise.standard_deviation or not sizes.size:
        return 0.0
    if isinstance(noise, Gaussian):
        return -noise.sigma * length * float(special.ndtri(chance / 2))
    if not isinstance(noise, Laplace):
        return noise.standard_deviation * length / math.sqrt(chance)  # Chebyshev's inequality
    if sizes.size == 1:
        return -noise.scale * length * math.log(chance)
    shares = sizes / sizes.max()

    def bound(t: float) -> float:
        """Chernoff's: log E exp(t X) = -sum log(1 - (t share)^2) in units of the largest scale."""
        return (math.log(2 / chance) - float(np.log1p(-((t * shares) ** 2)).sum())) / t

    least = optimize.minimize_scalar(bound, bounds=(1e-9, 1 - 1e-9), method="bounded")
    return noise.scale * float(sizes.max()) * float(least.fun)
