"""Laws of the noise on released coordinates, and the privacy loss of a release.

`loss(shift, delta)` is an epsilon for which noise added to a vector, which one reward may move by
`shift`, makes it (epsilon, delta)-private. For Laplace noise it depends on the L1 norm of the
shift, and delta may be 0; for Gaussian noise on the L2 norm, and it is infinite for delta = 0. The
delta is not part of the law: a policy states it in its plans. A `Mechanism` draws noise of a law on
a computer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from dpbai import _check
from dpbai._check import FloatArray
from dpbai._gaussian import gaussian_epsilon
from dpbai._gaussian import gaussian_log_delta as gaussian_log_delta
from dpbai._gaussian import gaussian_sigma as gaussian_sigma

Shift = tuple[float, ...]
"""How far one reward can move each coordinate of a release."""

_LEAST = math.ulp(0.0)  # the least positive double


def exp_bound(log: float) -> float:
    """Return exp(log) for an upper bound: 0 only for log = -inf, not by underflow."""
    return math.exp(log) or (0.0 if log == -math.inf else _LEAST)


@runtime_checkable
class Noise(Protocol):
    """Independent, identically distributed noise on each coordinate."""

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw an array of noise."""

    def loss(self, shift: ArrayLike, delta: float = 0.0) -> float:
        """Return an epsilon for which this noise makes `shift` (epsilon, delta)-private."""

    def delta_at(self, epsilon: float, shift: ArrayLike) -> float:
        """Return a delta for which this noise makes `shift` (epsilon, delta)-private."""

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return E exp(i t Z) for real or complex `t`."""

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of one coordinate."""


@runtime_checkable
class Mechanism(Protocol):
    """A sampler of noise in floating-point numbers, with its own privacy accounting."""

    @property
    def name(self) -> str:
        """Its name in certificates and saved sessions."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Caveats that a certificate must state."""

    def add(self, noise: Noise, statistic: Sequence[float], *, phase: int) -> tuple[float, ...]:
        """Return the statistic of phase number `phase` plus independent `noise` on each entry."""

    def loss(self, noise: Noise, shift: Shift, delta: float) -> float:
        """Return the epsilon at `delta` of adding `noise` to a vector that can move by `shift`."""


class _Law:
    """Base of the laws of this module, which cannot be subclassed or changed.

    Their losses are computed from their parameters, so samples must depend on nothing else.
    """

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if cls.__bases__ != (_Law,):
            raise TypeError(
                f"{cls.__bases__[0].__name__} cannot be subclassed, because the loss of a subclass "
                "may be another: write a class with the members of dpbai.noise.Noise"
            )


@dataclass(frozen=True, slots=True)
class NoNoise(_Law):
    """No noise, and no privacy: any shift has an infinite loss."""

    def sample(self, rng: object, shape: tuple[int, ...]) -> FloatArray:  # noqa: ARG002
        """Return zeros."""
        return np.zeros(shape)

    def loss(self, shift: ArrayLike, delta: float = 0.0) -> float:  # noqa: ARG002
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

    def __post_init__(self) -> None:
        _check.fields(self, scale="(0, inf)")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw an array of noise."""
        return rng.laplace(scale=self.scale, size=shape)

    def loss(self, shift: ArrayLike, delta: float = 0.0) -> float:  # noqa: ARG002
        """Return the L1 norm of `shift` divided by the scale, the least epsilon for delta = 0."""
        with np.errstate(over="ignore"):
            length = float(np.abs(np.asarray(shift, dtype=float)).sum())
        return max(length / self.scale, _LEAST) if length else 0.0

    def delta_at(self, epsilon: float, shift: ArrayLike) -> float:
        """Return 1 - exp((epsilon - loss) / 2) for an epsilon below the loss, and 0 otherwise.

        This is exact for a shift of one coordinate. A shift of several is no easier to detect than
        that of a single coordinate with the same L1 norm (Dong, Roth and Su, 2022, on groups).
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
        """Return log P(Z - Z' <= x), which is log((2 + y) e^-y / 4) for x = -y scale <= 0."""
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
    """Gaussian noise of mean 0.

    Parameters
    ----------
    sigma : float
        Standard deviation, positive and finite.
    """

    sigma: float

    def __post_init__(self) -> None:
        _check.fields(self, sigma="(0, inf)")

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Draw an array of noise."""
        return rng.normal(scale=self.sigma, size=shape)

    def loss(self, shift: ArrayLike, delta: float = 0.0) -> float:
        """Return the least epsilon at `delta`; infinity for delta = 0."""
        length = _length(shift)
        return gaussian_epsilon(self.sigma / length, delta) if length else 0.0

    def delta_at(self, epsilon: float, shift: ArrayLike) -> float:
        """Return the least delta, or the least positive double if that underflows."""
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
"""The laws whose loss is proved; another class is trusted to state its own."""


def _length(shift: ArrayLike) -> float:
    """Return the L2 norm; `math.hypot` neither underflows nor overflows."""
    return math.hypot(*np.ravel(np.asarray(shift, dtype=float)).tolist())
