"""The probability that a linear form on a lattice, plus noise, is negative, at any number of pulls.

Weighted sums of two-valued rewards, all with the same step, differ from a constant by an integer D
of steps. With the noise N in steps, too, the form is negative if D + N is less than some c. The
probabilities of D are integrals of its moment generating function over one period, so that

    P(D + N < c) = 1/(2 pi) integral over (-pi, pi) of E exp(z D) sum_k e^(-z k) P(N < c - k) dt,

where z = s + it, and s < 0 makes the sum over all integers k converge. For Laplace noise the sum is
a geometric series. For Gaussian noise few terms suffice, of the sum itself if the noise is narrow,
and of its transform by Poisson's summation formula if it is wide. The integrand is negligible
beyond angles t of a few times 1/w, where w is the width of the law of D + N, and the trapezoidal
rule takes steps of about 1/w. So neither the cost nor the rounding error grows with the number of
pulls. Without noise, D = c is a tie, and a given share of its probability is added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy import optimize, special

from dpbai._check import FloatArray
from dpbai.exact.quadrature import RoughDensityError
from dpbai.exact.terms import ComplexArray, discrete_log_mgf, two_values
from dpbai.noise import Gaussian, Laplace, Noise, NoNoise
from dpbai.ranking import ROUNDING
from dpbai.rewards import RewardLaw

Part = tuple[float, RewardLaw, int]
"""Weight, law and number of the rewards of a mean."""

_SAME_STEP = 1e-14  # relative difference
_LARGEST_TILT = 600.0
_WIDE = 1.0  # standard deviation of Gaussian noise in steps, above which Poisson's formula is used
_PERIODS = np.arange(-4, 5)  # the terms of Poisson's formula
_TERMS = np.arange(-80, 40)  # those of the sum itself
_WIDEST = 1e100  # in steps; wider noise makes no difference in double precision
_FEWEST_POINTS = 100
_MOST_NODES = 2**22


def log_negative(
    parts: Sequence[Part], noise: Noise, noise_weights: FloatArray, rtol: float, tie: float = 0.5
) -> float | None:
    """Return the log probability that a sum of weighted means and noise is negative.

    The relative error is about `rtol`. Without noise, the share `tie` of the probability of 0 is
    added, by default as for two arms. Return None if some rewards have more than two values, if
    their steps differ, or if the noise is neither `NoNoise`, nor Gaussian, nor Laplace noise with
    one variate or two of the same scale. No weight of a noise may be 0.
    """
    sums, steps, offset = [], [], 0.0
    for weight, law, pulls in parts:
        values = two_values(law)
        if values is None:
            return None
        low, high, share = values
        offset += weight * low
        if low < high:
            steps.append(abs(weight) * (high - low) / pulls)
            sums.append((pulls, share, 1 if weight > 0 else -1))
    sizes = np.abs(noise_weights)
    summable = isinstance(noise, Laplace) and sizes.size <= 2 and not np.ptp(sizes)
    if not summable and not isinstance(noise, Gaussian | NoNoise):
        return None
    width = noise.standard_deviation * float(np.linalg.norm(sizes))
    step = max(steps, default=width)
    if not step or min(steps, default=step) < step * (1 - _SAME_STEP):
        return None
    level = -offset / step
    if not width and abs(level - round(level)) <= ROUNDING * sum(n for n, *_ in sums):
        level = round(level)
    whole, spread = math.floor(level), min(width / step, _WIDEST)
    mean = math.fsum(sign * n * p for n, p, sign in sums)
    deviation = math.sqrt(sum(n * p * (1 - p) for n, p, _ in sums))
    limit = _LARGEST_TILT
    if isinstance(noise, Laplace):
        limit = min(math.sqrt(2 * sizes.size) / spread, limit)
    elif 0 < spread <= _WIDE:
        limit = min(60 / spread**2, limit)  # so that the other terms are negligible

    def exponents(z: ComplexArray) -> ComplexArray:
        """Return log E exp(z (D - whole)) plus the logarithm of the sum over k."""
        total = z * (mean - whole)
        for pulls, share, sign in sums:
            deviations, shares = np.array([-share, 1 - share]), np.array([1 - share, share])
            total = total + pulls * discrete_log_mgf(sign * z, deviations, shares)
        return np.asarray(total + _log_noise(z, noise, sizes.size, spread, level - whole, tie))

    return _log_inverse(exponents, deviation + spread, limit, rtol)


def _log_inverse(
    exponents: Callable[[ComplexArray], ComplexArray], width: float, limit: float, rtol: float
) -> float:
    """Return the logarithm of the integral over one period, for the best s from -limit to 0."""
    least_tilt = 1e-3 / (width + 1)
    span = math.log(least_tilt), math.log(max(limit * (1 - 1e-9), 2 * least_tilt))

    def exponent(log_tilt: float) -> float:
        return float(exponents(-np.exp([log_tilt]).astype(complex))[0].real)

    best = optimize.minimize_scalar(exponent, bounds=span, method="bounded")
    tilt, least, digits = -math.exp(best.x), float(best.fun), 6 - math.log(rtol)
    # By Chernoff bounds, only the integers from low to high matter.
    others = -np.exp(np.linspace(*span, _points(span[1] - span[0])))
    gaps = others - tilt
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = (exponents(others.astype(complex)).real - least + digits) / gaps
    high = np.where(gaps > 0, ends, np.inf).min()
    low = np.where(gaps < 0, ends, -np.inf).max()
    if not math.isfinite(high - low):
        raise RoughDensityError("double precision is not enough for the probability of an event")
    count = 2 * math.ceil((high - low) / 2) + 1
    # The integrand matters at angles up to `most`.
    lowest = min(least_tilt, 1)
    angles = np.geomspace(lowest, math.pi, _points(math.log(math.pi / lowest)))
    sizes = exponents(np.asarray(tilt + 1j * angles)).real - least
    relevant = np.flatnonzero(sizes + np.log(angles / angles[0]) > -digits)
    most = angles[min(int(relevant.max(initial=-1)) + 1, angles.size - 1)]
    needed = min((count - 1) // 2, math.ceil(most / (2 * math.pi) * count)) + 1
    if needed > _MOST_NODES:
        raise RoughDensityError(f"an inversion would take {needed} nodes")
    nodes = np.arange(needed)
    terms = np.exp(exponents(tilt + 2j * math.pi / count * nodes) - least)
    terms[0] /= 2
    total = float(terms.real.sum())  # 0 or less by rounding if the event is impossible
    return least + math.log(2 * total / count) if total > 0 else -math.inf


def _points(log_ratio: float) -> int:
    """Return the size of a dense geometric grid, given the log ratio of its ends."""
    return max(_FEWEST_POINTS, math.ceil(4 * log_ratio))


def _log_noise(
    z: ComplexArray, noise: Noise, noises: int, spread: float, beyond: float, tie: float
) -> ComplexArray:
    """Return the logarithm of the sum over k of e^(z k) P(N < k + beyond)."""
    without_noise = -1 / np.expm1(z)
    if isinstance(noise, Laplace):
        rate, f = math.sqrt(2 * noises) / spread, beyond
        left, right = -np.expm1(-(z + rate)), -np.expm1(z - rate)
        below, above = np.exp(-z - rate * (1 - f)), np.exp(-rate * f)
        if noises == 1:
            below, above = below / (2 * left), above / (2 * right)
        else:
            below *= (2 - rate * f + rate / left) / (4 * left)
            above *= (2 + rate * f + rate * np.exp(z - rate) / right) / (4 * right)
        with np.errstate(divide="ignore"):  # they cancel far beyond the rate
            return np.asarray(np.log(below + without_noise - above))
    if not spread:
        return np.asarray(np.log(without_noise - (1 - tie if beyond == 0 else 0.0)))
    if spread > _WIDE:
        turned = z[:, None] + 2j * math.pi * _PERIODS
        exponents = (spread * turned) ** 2 / 2 - beyond * turned
        middle = exponents[:, _PERIODS.size // 2]
        series = (np.exp(exponents - middle[:, None]) / -turned).sum(axis=1)
        return np.asarray(middle + np.log(series))
    # From the last term on, the probability is 1, and the series is geometric.
    exponents = np.multiply.outer(z, _TERMS) + special.log_ndtr((_TERMS + beyond) / spread)
    exponents[:, -1] += np.log(without_noise)
    largest = exponents.real.max(axis=1)
    return np.asarray(largest + np.log(np.exp(exponents - largest[:, None]).sum(axis=1)))
