r"""How much Gaussian noise gives (epsilon, delta)-differential privacy.

Noise N(0, sigma^2) on a number that one reward changes by at most 1 is (epsilon, delta)-private for

    delta = Phi(u - v) - e^epsilon Phi(-u - v),   u = 1/(2 sigma),   v = epsilon sigma,

and for no smaller delta (Balle and Wang, 2018, Theorem 8). The derivative with respect to v, at
fixed u, is -2u e^(2uv) Phi(-u - v). With Mills' ratio R = (1 - Phi)/phi and phi(v + u) e^(2uv) =
phi(v - u), this gives

    delta = 2u integral of phi(v - u + s) R(v + u + s) over s >= 0,

whose integrand is positive and smooth: there is no cancellation, and no overflow or underflow if
phi(v - u) is kept as a logarithm. For u > v + 1, delta is near 1, and 1 - delta is computed
instead. Since log delta decreases in sigma and in epsilon, each of these is found as the zero of a
decreasing function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from dpbai import _check
from dpbai._check import FloatArray

CALIBRATIONS = ("classic", "analytic")
_LARGEST_ARGUMENT = 1e150  # of phi, so that its square is finite
_LEAST_SIGMA, _LARGEST_SIGMA = 1e-155, 2.0**1022  # outside, epsilon or delta does not fit a double
_NODES, _WEIGHTS = special.roots_legendre(40)
_DECAY = 40.0  # the integral is truncated where the integrand has decreased by e^-40
_TOLERANCE = 1e-7  # of log delta
_LEAST_EXCESS = -1e9  # replaces -inf in the search for a zero
_LEAST_LOG, _LARGEST_LOG = -700.0, 709.0  # exp of these fits a double


def gaussian_log_delta(epsilon: float, sigma: float) -> float:
    """Return the log of the least delta of Gaussian noise, for a shift of length 1.

    This delta is Phi(u - v) - e^epsilon Phi(-u - v), with u = 1/(2 sigma) and v = epsilon sigma
    (Balle and Wang, 2018, Theorem 8).

    Parameters
    ----------
    epsilon : float
        At least 0.
    sigma : float
        Standard deviation divided by the L2 sensitivity, at least 0.
    """
    epsilon = _check.non_negative(epsilon, "epsilon")
    sigma = _check.non_negative(sigma, "sigma")
    if epsilon == math.inf or sigma < _LEAST_SIGMA:
        return -math.inf if epsilon == math.inf else 0.0
    sigma = min(sigma, _LARGEST_SIGMA)  # an upper bound, as delta decreases in sigma
    u, v = 1 / (2 * sigma), epsilon * sigma
    if v - u > _LARGEST_ARGUMENT:
        return -math.inf
    if u - v > _LARGEST_ARGUMENT:
        return 0.0
    a = v - u
    log_density = -0.5 * a**2 - 0.5 * math.log(2 * math.pi)
    if a < -1:
        missing = special.ndtr(a) + math.exp(log_density) * float(_mills(u + v))
        return math.log1p(-missing) if missing < 1 else -math.inf
    half = _DECAY / (a + math.sqrt(a**2 + 2 * _DECAY))  # half the s at which a s + s^2/2 = 40
    s = half * (1 + _NODES)
    integral = half * float(_WEIGHTS @ (np.exp(-(a + s / 2) * s) * _mills(u + v + s)))
    return log_density + math.log(2 * u) + math.log(integral)


def _mills(x: ArrayLike) -> FloatArray:
    return np.asarray(math.sqrt(math.pi / 2) * special.erfcx(np.asarray(x) / math.sqrt(2)))


@lru_cache(maxsize=1024)
def gaussian_epsilon(sigma: float, delta: float) -> float:
    """Return the least epsilon of Gaussian noise at `delta`, for a shift of length 1."""
    if delta == 0 or sigma < _LEAST_SIGMA:
        return math.inf
    sigma, target = min(sigma, _LARGEST_SIGMA), math.log(delta)
    if gaussian_log_delta(0.0, sigma) <= target:
        return 0.0
    return _zero(lambda log: gaussian_log_delta(math.exp(log), sigma) - target, -math.log(sigma))


def gaussian_sigma(epsilon: float, delta: float, calibration: str) -> float:
    """Return the standard deviation of (epsilon, delta)-private noise, for a shift of length 1.

    Parameters
    ----------
    epsilon : float
        Positive; infinity gives 0.
    delta : float
        In (0, 1).
    calibration : {"classic", "analytic"}
        "classic" is the paper's sqrt(2 ln(1.25/delta)) / epsilon, proved for epsilon < 1 only;
        "analytic" is the smallest that suffices, for every epsilon (Balle and Wang, 2018).

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    epsilon, delta = _check.epsilon(epsilon), _check.proportion(delta, "delta")
    _check.one_of(calibration, "calibration", CALIBRATIONS)
    if math.isinf(epsilon):
        return 0.0
    if calibration == "classic":
        return math.sqrt(2 * (math.log(1.25) - math.log(delta))) / epsilon
    target, start = math.log(delta), -0.5 * (math.log(2) + math.log(epsilon))
    return _zero(lambda log: gaussian_log_delta(epsilon, math.exp(log)) - target, start)


def _zero(excess: Callable[[float], float], start: float) -> float:
    """Return exp(x) for the zero x of a decreasing function; the search starts at `start`.

    x is rounded up until the excess is at most 1e-7: for a huge epsilon, delta falls from 1 to 0
    within a few units in the last place of x. A result that overflows becomes infinity, and one
    that underflows becomes a number near 0.
    """
    low = high = start
    while excess(high) > 0:
        high += 1
        if high > _LARGEST_LOG:
            return math.inf
    while excess(low) <= 0:
        low -= 1
        if low < _LEAST_LOG:
            return math.exp(low)
    root = float(
        optimize.brentq(lambda x: max(excess(x), _LEAST_EXCESS), low, high, xtol=1e-15, rtol=1e-14)
    )
    step = 2.0**-52
    while excess(root) > _TOLERANCE:
        root += step * max(1.0, abs(root))
        step *= 2
    return math.exp(root)
