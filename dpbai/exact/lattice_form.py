r"""The probability that a form on a lattice, plus noise, is negative: at any number of pulls.

A difference D of two-valued sums with a common spacing is an integer, so that the inversion of its
transform is an integral over one period,

    P(D + N < c) = 1/(2 pi) integral over (-pi, pi) of E exp(z D) sum_k e^(-z k) P(N < c - k) dt,

z = s + it, s < 0. The sum over k is a geometric series for Laplace noise, and for Gaussian noise
either a few terms or, by Poisson's formula, a few others. Nothing is periodic but D itself, and
nothing has to be resolved but its width: the cost does not grow with the number of pulls, nor does
the rounding error. Without noise D can be c, which is a tie: a share of its chance counts.
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

_SAME_STEP = 1e-14
_MOST_TILT = 600.0
_SPREAD_OUT = 1.0  # deviation of Gaussian noise in steps, from which Poisson's formula is short
_PERIODS = np.arange(-4, 5)
_TERMS = np.arange(-80, 40)
_LADDER = 100
_WIDEST = 1e100  # in steps; wider noise makes no difference in doubles
_MOST_NODES = 2**22


def log_negative(
    parts: Sequence[Part], noise: Noise, noise_weights: FloatArray, rtol: float, tie: float = 0.5
) -> float | None:
    """Return the log probability that a sum of weighted means and noise is negative.

    It is known to a relative error of `rtol`; without noise a share of a tie counts: half of it
    between two arms. None unless the sum is on a lattice: if rewards have more than two values,
    their lattices different spacings, or the noise is neither Gaussian, nor one Laplace variate or
    two of the same scale, nor none. No weight of a noise is 0.
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
    even = isinstance(noise, Laplace) and sizes.size <= 2 and not np.ptp(sizes)
    if not even and not isinstance(noise, Gaussian | NoNoise):
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
    limit = _MOST_TILT
    if isinstance(noise, Laplace):
        limit = min(math.sqrt(2 * sizes.size) / spread, limit)
    elif 0 < spread <= _SPREAD_OUT:
        limit = min(60 / spread**2, limit)  # within the terms of `_log_noise`

    def exponents(z: ComplexArray) -> ComplexArray:
        """Return log E exp(z (D - whole)), and what `_log_noise` adds."""
        total = z * (mean - whole)
        for pulls, share, sign in sums:
            deviations, shares = np.array([-share, 1 - share]), np.array([1 - share, share])
            total = total + pulls * discrete_log_mgf(sign * z, deviations, shares)
        return np.asarray(total + _log_noise(z, noise, sizes.size, spread, level - whole, tie))

    return _inverted(exponents, deviation + spread, limit, rtol)


def _inverted(
    exponents: Callable[[ComplexArray], ComplexArray], width: float, limit: float, rtol: float
) -> float:
    """Return the logarithm of the integral over one period, along the best line of -limit..0."""
    least_tilt = 1e-3 / (width + 1)
    span = math.log(least_tilt), math.log(max(limit * (1 - 1e-9), 2 * least_tilt))

    def exponent(log_tilt: float) -> float:
        return float(exponents(-np.exp([log_tilt]).astype(complex))[0].real)

    best = optimize.minimize_scalar(exponent, bounds=span, method="bounded")
    tilt, least, digits = -math.exp(best.x), float(best.fun), 6 - math.log(rtol)
    # Chernoff bounds say how many integers matter, and the integrand at which angles.
    others = -np.exp(np.linspace(*span, _rungs(span[1] - span[0])))
    gaps = others - tilt
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ends = (exponents(others.astype(complex)).real - least + digits) / gaps
    high = np.where(gaps > 0, ends, np.inf).min()
    low = np.where(gaps < 0, ends, -np.inf).max()
    if not math.isfinite(high - low):
        raise RoughDensityError("an event lies beyond the reach of double precision")
    count = 2 * math.ceil((high - low) / 2) + 1
    lowest = min(least_tilt, 1)
    angles = np.geomspace(lowest, math.pi, _rungs(math.log(math.pi / lowest)))
    sizes = exponents(np.asarray(tilt + 1j * angles)).real - least
    relevant = np.flatnonzero(sizes + np.log(angles / angles[0]) > -digits)
    most = angles[min(int(relevant.max(initial=-1)) + 1, angles.size - 1)]
    needed = min((count - 1) // 2, math.ceil(most / (2 * math.pi) * count)) + 1
    if needed > _MOST_NODES:
        raise RoughDensityError(f"it would take {needed} nodes")
    nodes = np.arange(needed)
    terms = np.exp(exponents(tilt + 2j * math.pi / count * nodes) - least)
    terms[0] /= 2
    total = float(terms.real.sum())  # 0 or less by rounding if the event is impossible
    return least + math.log(2 * total / count) if total > 0 else -math.inf


def _rungs(width: float) -> int:
    """Return how many points of a ladder lie close together, given the logarithm of its width."""
    return max(_LADDER, math.ceil(4 * width))


def _log_noise(
    z: ComplexArray, noise: Noise, noises: int, spread: float, beyond: float, tie: float
) -> ComplexArray:
    """Return the logarithm of the sum over k of e^(z k) P(N < k + beyond)."""
    sure = -1 / np.expm1(z)
    if isinstance(noise, Laplace):
        rate, f = math.sqrt(2 * noises) / spread, beyond
        left, right = -np.expm1(-(z + rate)), -np.expm1(z - rate)
        below, above = np.exp(-z - rate * (1 - f)), np.exp(-rate * f)
        if noises == 1:
            below, above = below / (2 * left), above / (2 * right)
        else:
            below *= (2 - rate * f + rate / left) / (4 * left)
            above *= (2 + rate * f + rate * np.exp(z - rate) / right) / (4 * right)
        with np.errstate(divide="ignore"):  # far beyond the rate they cancel
            return np.asarray(np.log(below + sure - above))
    if not spread:
        return np.asarray(np.log(sure - (1 - tie if beyond == 0 else 0.0)))
    if spread > _SPREAD_OUT:
        turned = z[:, None] + 2j * math.pi * _PERIODS
        exponents = (spread * turned) ** 2 / 2 - beyond * turned
        middle = exponents[:, _PERIODS.size // 2]
        series = (np.exp(exponents - middle[:, None]) / -turned).sum(axis=1)
        return np.asarray(middle + np.log(series))
    # The terms and, from the last one on, the geometric series.
    exponents = np.multiply.outer(z, _TERMS) + special.log_ndtr((_TERMS + beyond) / spread)
    exponents[:, -1] += np.log(sure)
    largest = exponents.real.max(axis=1)
    return np.asarray(largest + np.log(np.exp(exponents - largest[:, None]).sum(axis=1)))
