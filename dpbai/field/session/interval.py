"""The errors of estimates: bias, standard deviations, and an interval for the mean of the answer.

The recommended arm has the largest estimate, which is more likely too high than too low. The
interval therefore holds for all arms of the last phase simultaneously. Earlier phases determine
which arms these are and, if their releases are remembered, the weights of these releases in the
estimates. The error of each such release is therefore bounded for all of its coordinates
simultaneously, and for any weights.

Rewards are assumed to be independent, to lie in their range, and to have the mean of their arm. If
estimates use the features, means are assumed to be linear in them or, if a misfit is given, to
deviate from linearity by independent normal variables. The deviations of all arms are bounded
simultaneously, because the weights may depend on them too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import optimize, special

from dpbai._check import BoolArray, FloatArray
from dpbai.field.session.records import Label, SessionError
from dpbai.noise import Gaussian, Laplace, Noise
from dpbai.phase import Phase

if TYPE_CHECKING:
    from dpbai.field.session.live import Session

_ROUNDING, _LEAST = 1e-6, 1e-300


@dataclass(frozen=True)
class Interval:
    """A confidence interval for the mean of the recommended arm, in the units of rewards.

    Attributes
    ----------
    low, high : float
        The estimate minus and plus the sum of `noise`, `sampling` and `deviations`. They may lie
        outside the range of rewards.
    noise : float
        Bound on the error that is due to the noise of the releases.
    sampling : float
        Bound on the error that is due to the difference between the means of the observed rewards
        and the true means (Hoeffding's inequality). It includes the error of the values that
        replace missing rewards of a withdrawn arm.
    deviations : float
        Bound on the error that is due to deviations from linear means: 0 if they are assumed to be
        0, or if the estimate uses only the arm's own rewards.
    confidence : float
        The interval contains the mean with at least this probability, whichever arm is recommended.
    """

    low: float
    high: float
    noise: float
    sampling: float
    deviations: float
    confidence: float


def decoded(phases: Sequence[Phase]) -> list[tuple[Phase, FloatArray]]:
    """Return the phases that the last one decodes, oldest first, with their columns of its decoder.

    The columns of a phase have shape (active arms of the last phase, coordinates of the phase).
    """
    last = phases[-1]
    used = phases if last.remembered else [last]
    ends = np.cumsum([phase.coordinates for phase in used])[:-1]
    return list(zip(used, np.split(last.decoder, ends, axis=1), strict=True))


def standard_deviations(phases: Sequence[Phase], reward_deviation: float = 0.0) -> FloatArray:
    """Return the standard deviation of each estimate of the last phase of a run, by the plans.

    It is due to the noise and, if the standard deviation of a reward is given, to the rewards.
    """
    parts = [weights * phase.noise.standard_deviation for phase, weights in decoded(phases)]
    if reward_deviation:
        parts += [
            weights @ phase.release * (reward_deviation / np.sqrt(phase.pulls))
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
    """Return bounds on the errors of an estimate by noise, sampling and deviations, on [0, 1].

    The estimate is that of the active arm at index `place` in the last phase; `counts` are the
    numbers of observed rewards. SessionError if the releases do not determine the mean of this arm.
    """
    last, arm = phases[-1], phases[-1].active[place]
    used = [(phase, columns[place]) for phase, columns in decoded(phases)]
    parts = [weights @ phase.release for phase, weights in used]
    error_weights = np.zeros(len(features))  # of the true means in the error of the estimate
    error_weights[arm] = -1
    for (phase, _), part in zip(used, parts, strict=True):
        error_weights[list(phase.pulled)] += part
    own = len(used) == 1 and last.decoder_matrix is None and last.pulled == last.active
    close = np.abs(error_weights @ features) <= _ROUNDING * np.abs(features).max(axis=0)
    if not own and not close.all():
        raise SessionError(
            "this run released sums or differences of means, which do not determine the mean of "
            "an arm: use `estimates` and `deviations` to compare arms"
        )
    size = float(np.abs(error_weights).sum())
    deviate = misfit > 0 and size > _ROUNDING
    level = (1 - confidence) / (3 if deviate else 2)  # the error probability of each source
    noisy = len(last.active) + sum(phase.coordinates for phase, _ in used[:-1])
    noise = _quantile(last.noise, used[-1][1], level / noisy)
    noise += sum(
        float(np.abs(weights).sum()) * _quantile(phase.noise, np.ones(1), level / noisy)
        for phase, weights in used[:-1]
    )
    sampled = len(last.active) + sum(len(phase.pulled) for phase, _ in used[:-1])
    factor = math.sqrt(math.log(2 * sampled / level) / 2)
    sampling = 0.0
    for part, (phase, _), count in zip(parts, used, counts[-len(used) :], strict=True):
        pulls, observed = np.array(phase.pulls, dtype=np.float64), np.array(count)
        spread = np.abs(part) * np.sqrt(observed) / pulls
        sampling += factor * float(np.linalg.norm(spread, 2 if phase is last else 1))
        sampling += float((np.abs(part) * (1 - observed / pulls)).sum()) / 2
    largest = -float(special.ndtri(level / (2 * len(features))))  # of all deviations / misfit
    return noise, sampling, misfit * largest * size if deviate else 0.0


def _quantile(noise: Noise, weights: FloatArray, probability: float) -> float:
    """Return a bound that `abs(weights @ noise)` exceeds with at most this probability."""
    sizes = np.abs(weights[weights != 0])
    length = float(np.linalg.norm(sizes))
    if not noise.standard_deviation or not sizes.size:
        return 0.0
    if isinstance(noise, Gaussian):
        return -noise.sigma * length * float(special.ndtri(probability / 2))
    if not isinstance(noise, Laplace):
        return noise.standard_deviation * length / math.sqrt(probability)  # Chebyshev's inequality
    if sizes.size == 1:
        return -noise.scale * length * math.log(probability)
    shares = sizes / sizes.max()

    def bound(t: float) -> float:
        """Chernoff: log E exp(t X) = -sum log(1 - (t share)^2), in units of the largest scale."""
        return (math.log(2 / probability) - float(np.log1p(-((t * shares) ** 2)).sum())) / t

    least = optimize.minimize_scalar(bound, bounds=(1e-9, 1 - 1e-9), method="bounded")
    return noise.scale * float(sizes.max()) * float(least.fun)


def _bias(phase: Phase, features: FloatArray) -> FloatArray:
    """Return the bias of each estimate of a first phase if means are linear in the features.

    It is a linear function of theta, given by its coefficients, in units of the largest features.
    """
    expected = phase.decoder @ phase.release @ features[list(phase.pulled)]
    scale = np.maximum(np.abs(features).max(axis=0), _LEAST)
    return np.asarray((expected - features[list(phase.active)]) / scale)


def unbiased(phase: Phase, features: FloatArray) -> BoolArray:
    """Return which estimates of a first phase have no bias if means are linear in the features."""
    return np.asarray((np.abs(_bias(phase, features)) <= _ROUNDING).all(axis=1))


def comparable(session: Session) -> dict[Label, float]:
    """Return the estimates that can be compared with each other.

    DPDesign may release one number, the estimated difference of two arms that alone can be the
    best. It says nothing about arms whose features are not on the line through those two.
    """
    estimates = session.estimates
    if session.phases and (first := session.phases[0]).coordinates == 1:
        bias = _bias(first, session.policy.features)
        bias -= bias[first.decoder[:, 0].argmax()]  # of one of the two
        for arm, row in zip(first.active, np.abs(bias), strict=True):
            if row.max() > _ROUNDING:
                del estimates[session.labels[arm]]
    return estimates
