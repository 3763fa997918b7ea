r"""The noise that a phase adds to each released coordinate, and the privacy it buys.

A noise says how well it hides a shift of its released vector: `loss(shift)` is the epsilon at which
the two shifted distributions cannot be told apart. Laplace noise is measured in the L1 norm of the
shift, Gaussian noise in the L2 norm (at the delta that it was made for). An argument outside the
range that is stated for it is a `ValueError`, one of a wrong kind a `TypeError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, special

from dpbai import _check
from dpbai._check import FloatArray

CALIBRATIONS = ("classic", "analytic")
_LEAST = math.ulp(0.0)  # positive double
_BEYOND = 1e150
_LEAST_RATIO = 1e-155  # of deviation to shift: with less, epsilon exceeds every double
_LARGEST_RATIO = 2.0**1022
_NODES, _WEIGHTS = special.roots_legendre(20)
_SERIES_FROM = 30.0
_SEEN = 1e-7
_STEEP = 1e9  # a log that is lower says as much, and may be infinite
_LEAST_LOG, _LARGEST_LOG = -700.0, 709.0  # within the exponents of doubles
_MILLS_SERIES = [(-1) ** k * math.prod(range(1, 2 * k + 2, 2)) for k in range(9)]  # 1, -3, 15, ...


def exp_bound(log: float) -> float:
    """Return exp(log) for an upper bound: the least positive double where it would be told as 0."""
    return math.exp(log) or (0.0 if log == -math.inf else _LEAST)


@runtime_checkable
class Noise(Protocol):
    """Independent, identically distributed noise on each coordinate."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw an array of noise."""

    def loss(self, shift: ArrayLike) -> float:
        """Return the epsilon of releasing a vector that one reward may move by `shift`."""

    @property
    def delta(self) -> float:
        """The delta at which `loss` is told; 0 for pure differential privacy."""

    def delta_at(self, epsilon: float, shift: ArrayLike) -> float:
        """Return a delta such that hiding `shift` is (epsilon, delta)-private."""

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return E exp(i t Z) for real or complex `t`."""

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of one coordinate."""


class _Law:
    """What the laws of this module share: no instance and no subclass has anything of its own.

    Their loss is computed from their parameters, so what they add must follow from these alone.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if cls.__bases__ != (_Law,):
            raise TypeError(
                f"{cls.__bases__[0].__name__} cannot be subclassed, since its loss would be that "
                "of another law: write a class with the members of dpbai.noise.Noise"
            )


@dataclass(frozen=True, slots=True)
class NoNoise(_Law):
    """No noise, and no privacy: any shift shows."""

    delta: ClassVar[float] = 0.0

    def sample(
        self,
        rng: np.random.Generator,  # noqa: ARG002
        shape: tuple[int, ...],
    ) -> FloatArray:
        """Return zeros; `rng` is left alone."""
        return np.zeros(shape)

    def loss(self, shift: ArrayLike) -> float:
        """Return infinity, or 0 for no shift at all."""
        return math.inf if np.any(np.asarray(shift)) else 0.0

    def delta_at(self, epsilon: float, shift: ArrayLike) -> float:  # noqa: ARG002
        """Return 1, or 0 for no shift at all."""
        return 1.0 if np.any(np.asarray(shift)) else 0.0

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return 1."""
        return np.ones(np.shape(t), dtype=complex)

    @property
    def standard_deviation(self) -> float:
        """Zero."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Laplace(_Law):
    """Laplace noise of density exp(-abs(z)/scale) / (2 scale), Lap(scale) in the paper.

    Parameters
    ----------
    scale : float
        Positive and finite; sensitivity divided by epsilon (in the L1 norm).
    """

    scale: float
    delta: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        _check.fields(self, scale="(0, inf)")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw an array of noise."""
        return rng.laplace(scale=self.scale, size=shape)

    def loss(self, shift: ArrayLike) -> float:
        """Return the L1 norm of `shift` divided by the scale: epsilon, with delta = 0."""
        with np.errstate(over="ignore"):
            length = float(np.abs(np.asarray(shift, dtype=float)).sum())
        return max(length / self.scale, _LEAST) if length else 0.0

    def delta_at(self, epsilon: float, shift: ArrayLike) -> float:
        """Return the delta that `epsilon` below the loss of `shift` leaves.

        It is 1 - exp((epsilon - loss) / 2): exact for a shift of one coordinate, and an upper bound
        for others. To move several coordinates one after the other is no harder to tell than to
        move one of them all the way (Dong, Roth and Su, 2022, on groups).
        """
        excess = self.loss(shift) - epsilon if epsilon < math.inf else 0.0
        return -math.expm1(-excess / 2) if excess > 0 else 0.0

    def log_density(self, x: ArrayLike) -> FloatArray:
        """Return -abs(x)/scale - log(2 scale)."""
        return np.asarray(-np.abs(np.asarray(x) / self.scale) - math.log(2 * self.scale))

    def log_cdf(self, x: ArrayLike) -> FloatArray:
        """Return log P(Z <= x): log(exp(x/scale)/2) up to 0, log(1 - exp(-x/scale)/2) above."""
        tail = -np.abs(np.asarray(x) / self.scale) - math.log(2)
        return np.where(np.asarray(x) < 0, tail, np.log1p(-np.exp(tail)))

    def log_cdf_of_difference(self, x: ArrayLike) -> FloatArray:
        """Return log P(Z - Z' <= x); at -y <= 0 it is log((2 + y) e^-y / 4), y in scales."""
        y = np.abs(np.asarray(x) / self.scale)
        tail = np.log((2 + y) / 4) - y
        return np.where(np.asarray(x) < 0, tail, np.log1p(-np.exp(tail)))

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return 1 / (1 + scale^2 t^2); for complex `t`, where abs(imag t) < 1/scale."""
        return np.asarray(1 / (1 + (self.scale * np.asarray(t, dtype=complex)) ** 2))

    @property
    def standard_deviation(self) -> float:
        """sqrt(2) times the scale."""
        return math.sqrt(2) * self.scale


@dataclass(frozen=True, slots=True)
class Gaussian(_Law):
    """Gaussian noise, with the delta at which its privacy loss is told.

    Parameters
    ----------
    sigma : float
        Standard deviation, positive and finite.
    delta : float
        The delta of (epsilon, delta)-differential privacy, in (0, 1).
    """

    sigma: float
    delta: float

    def __post_init__(self) -> None:
        _check.fields(self, sigma="(0, inf)", delta="(0, 1)")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw an array of noise."""
        return rng.normal(scale=self.sigma, size=shape)

    def loss(self, shift: ArrayLike) -> float:
        """Return the least epsilon for which the release is (epsilon, delta)-private, exactly."""
        length = _length(shift)
        return _gaussian_epsilon(self.sigma / length, self.delta) if length else 0.0

    def delta_at(self, epsilon: float, shift: ArrayLike) -> float:
        """Return the least delta for which the release is (epsilon, delta)-private, exactly.

        Where it is smaller than any positive double, it is rounded up to the least of them.
        """
        length = _length(shift)
        if not length or epsilon == math.inf:
            return 0.0
        return math.exp(gaussian_log_delta(epsilon, self.sigma / length)) or _LEAST

    def log_density(self, x: ArrayLike) -> FloatArray:
        """Return -(x/sigma)^2 / 2 - log(sigma sqrt(2 pi))."""
        constant = math.log(self.sigma) + 0.5 * math.log(2 * math.pi)
        return np.asarray(-0.5 * (np.asarray(x) / self.sigma) ** 2 - constant)

    def log_cdf(self, x: ArrayLike) -> FloatArray:
        """Return log Phi(x/sigma)."""
        return np.asarray(special.log_ndtr(np.asarray(x) / self.sigma))

    def log_cdf_of_difference(self, x: ArrayLike) -> FloatArray:
        """Return log Phi(x / (sigma sqrt(2)))."""
        return self.log_cdf(np.asarray(x) / math.sqrt(2))

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return exp(-sigma^2 t^2 / 2), also for complex `t`."""
        return np.asarray(np.exp(-0.5 * (self.sigma * np.asarray(t, dtype=complex)) ** 2))

    @property
    def standard_deviation(self) -> float:
        """The parameter sigma."""
        return self.sigma


LAWS = (NoNoise, Laplace, Gaussian)
"""The laws whose loss is proved; that of another class rests on its own word."""


def _length(shift: ArrayLike) -> float:
    """Return the L2 norm; squares of coordinates could underflow or overflow, their lengths not."""
    return math.hypot(*np.ravel(np.asarray(shift, dtype=float)).tolist())


def gaussian_log_delta(epsilon: float, sigma: float) -> float:
    """Return log delta of Gaussian noise of deviation `sigma` that hides a shift of length 1.

    Parameters
    ----------
    epsilon : float
        At least 0.
    sigma : float
        Standard deviation divided by the L2 sensitivity, positive.

    Returns
    -------
    float
        log(Phi(u - v) - e^epsilon Phi(-u - v)), u = 1/(2 sigma), v = epsilon sigma.

    Notes
    -----
    Balle and Wang (2018), Theorem 8. With Mills' ratio R = (1 - Phi)/phi the difference is
    phi(v - u) (R(v - u) - R(v + u)), which neither overflows nor underflows. For small u the
    bracket would cancel: it is the integral of -R'(x) = 1 - x R(x) over [v - u, v + u].
    """
    epsilon = _check.non_negative(epsilon, "epsilon")
    sigma = _check.non_negative(sigma, "sigma")
    if epsilon == math.inf or sigma < _LEAST_RATIO:
        return -math.inf if epsilon == math.inf else 0.0
    sigma = min(sigma, _LARGEST_RATIO)  # with less noise than there is, no less shows
    u, v = 1 / (2 * sigma), epsilon * sigma
    if v - u > _BEYOND:  # delta is 0 to any precision, and its exponent would overflow
        return -math.inf
    if u - v > _BEYOND:  # and here it is 1
        return 0.0
    log_density = -0.5 * (v - u) ** 2 - 0.5 * math.log(2 * math.pi)
    if v < u - 1:
        missing = special.ndtr(v - u) + math.exp(log_density) * float(_mills(u + v))
        return math.log1p(-missing) if missing < 1 else -math.inf
    if u < max(1.0, v / 4):
        fall = float(_WEIGHTS @ _mills_fall(v + u * _NODES))
        return log_density + math.log(u) + math.log(fall)
    return log_density + math.log(float(_mills(v - u) - _mills(v + u)))


def _mills(x: ArrayLike) -> FloatArray:
    return np.asarray(math.sqrt(math.pi / 2) * special.erfcx(np.asarray(x) / math.sqrt(2)))


def _mills_fall(x: FloatArray) -> FloatArray:
    """Return 1 - x R(x); where that cancels, by R's asymptotic series, to 1e-14."""
    result = 1 - x * _mills(x)
    far = x > _SERIES_FROM
    inverse = x[far] ** -2.0
    result[far] = inverse * np.polynomial.polynomial.polyval(inverse, _MILLS_SERIES)
    return result


@lru_cache(maxsize=1024)
def _gaussian_epsilon(ratio: float, delta: float) -> float:
    """Return the epsilon of Gaussian noise of deviation `ratio` that hides a shift of length 1."""
    if ratio < _LEAST_RATIO:
        return math.inf
    ratio, target = min(ratio, _LARGEST_RATIO), math.log(delta)

    def excess(log_epsilon: float) -> float:
        return gaussian_log_delta(math.exp(log_epsilon), ratio) - target

    if gaussian_log_delta(0.0, ratio) <= target:
        return 0.0
    return _zero(excess, -math.log(ratio))


def gaussian_sigma(epsilon: float, delta: float, calibration: str) -> float:
    """Return the standard deviation that hides a shift of length 1 at (epsilon, delta).

    Parameters
    ----------
    epsilon : float
        Positive; infinity gives 0.
    delta : float
        In (0, 1).
    calibration : {"classic", "analytic"}
        "classic" is the paper's sqrt(2 ln(1.25/delta)) / epsilon, proved for epsilon < 1 only;
        "analytic" is the smallest that is enough, for every epsilon (Balle and Wang, 2018).

    Raises
    ------
    ValueError
        If an argument is out of range, or the deviation overflows.
    """
    epsilon, delta = _check.epsilon(epsilon), _check.proportion(delta, "delta")
    _check.choice(calibration, "calibration", CALIBRATIONS)
    if math.isinf(epsilon):
        return 0.0
    if calibration == "classic":
        return math.sqrt(2 * (math.log(1.25) - math.log(delta))) / epsilon
    target = math.log(delta)

    def excess(log_sigma: float) -> float:
        return gaussian_log_delta(epsilon, math.exp(log_sigma)) - target

    return _zero(excess, -0.5 * (math.log(2) + math.log(epsilon)))


def _zero(excess: Callable[[float], float], start: float) -> float:
    """Return exp(x) for the zero x of a decreasing function, which is searched from `start` on.

    It is as little more than that as it takes for no excess that is seen: for a huge epsilon, delta
    falls from 1 to 0 within the last digits. Beyond the doubles it is infinity, or next to 0.
    """
    low = high = start
    while excess(high) > 0:
        high += 1
        if high > _LARGEST_LOG:
            return math.inf
    while excess(low) <= 0:
        low -= 1
        if low < _LEAST_LOG:  # only rounding tells it from 0
            return math.exp(low)

    def bounded(x: float) -> float:
        return max(excess(x), -_STEEP)

    root = float(optimize.brentq(bounded, low, high, xtol=1e-15, rtol=1e-14))
    step = 2.0**-52
    while excess(root) > _SEEN:
        root += step * max(1.0, abs(root))
        step *= 2
    return math.exp(root)
