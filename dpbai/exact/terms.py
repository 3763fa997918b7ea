r"""The terms of a released coordinate, means of rewards and noise, by their transforms.

A term is known by its log moment generating function at complex arguments, centred: at many pulls,
log E exp(z (X - mean)) has no large part that a small remainder would drown in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from dpbai._check import FloatArray
from dpbai._transforms import ComplexArray, beta_log_mgf, discrete_log_mgf
from dpbai.noise import Gaussian, Laplace, Noise, NoNoise
from dpbai.rewards import Bernoulli, Beta, Empirical, RewardLaw, Uniform

LogTransform = Callable[[ComplexArray], ComplexArray]

_LARGEST_EXPONENT = 600.0
_CIRCLE = 64
_TAYLOR_TERMS = 20
_SINH = 1 / special.factorial(np.arange(3, 22, 2))  # of sinh(x)/x, from x^2 on


class NotExactError(ValueError):
    """The probability has no integral that this package knows; `simulate` estimates it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no exact probability: {reason}; estimate it with simulate")


@dataclass(frozen=True)
class Term:
    """One of the independent summands X of a variable.

    Attributes
    ----------
    log_mgf : callable
        log E exp(z (X - mean)) for an array of complex z, up to multiples of 2 pi i.
    limit : float
        It is finite for real z with abs(z) < limit.
    mean, deviation : float
    decays : bool
        Whether the moment generating function decays along vertical lines. That of a variable with
        atoms does not: it comes back to near its largest modulus again and again.
    """

    log_mgf: LogTransform
    limit: float
    mean: float
    deviation: float
    decays: bool

    def times(self, weight: float) -> Term:
        """Return `weight` X, for a weight other than 0."""
        size = abs(weight)
        return Term(
            lambda z: self.log_mgf(weight * z),
            self.limit / size,
            self.mean * weight,
            self.deviation * size,
            self.decays,
        )


def noise_term(noise: Noise, mean: float = 0.0) -> Term:
    """Return the noise of one coordinate, with `mean` added to it.

    Raises
    ------
    NotExactError
        If where it has exponential moments is unknown.
    """
    if isinstance(noise, Laplace):
        scale = noise.scale
        # log 1/(1 - (scale z)^2); at large z it has no cancellation, at small z log1p has none.
        return Term(
            lambda z: np.asarray(-special.log1p(-((scale * z) ** 2))),
            1 / scale,
            mean,
            noise.standard_deviation,
            decays=True,
        )
    if isinstance(noise, Gaussian | NoNoise):
        deviation = noise.standard_deviation
        return Term(
            lambda z: np.asarray(0.5 * (deviation * z) ** 2),
            math.inf,
            mean,
            deviation,
            decays=True,
        )
    raise NotExactError(f"where {type(noise).__name__} noise has exponential moments is unknown")


def mean_term(law: RewardLaw, pulls: int) -> Term:
    """Return the mean of `pulls` rewards: the logarithm of its transform is so many times one's."""
    one, variance = _one_reward(law)

    def log_mgf(z: ComplexArray) -> ComplexArray:
        with np.errstate(invalid="ignore"):  # a logarithm of 0 has no phase
            return np.asarray(pulls * one(z / pulls))

    limit = _LARGEST_EXPONENT / (max(map(abs, law.support)) or 1.0) * pulls
    smooth = isinstance(law, Uniform | Beta) and law.mean > 0
    return Term(log_mgf, limit, law.mean, math.sqrt(variance / pulls), decays=smooth)


def _one_reward(law: RewardLaw) -> tuple[LogTransform, float]:
    """Return the centred log moment generating function of one reward, and its variance.

    The laws of ``dpbai.rewards`` have one that is right to a small relative error. All that is
    known of another is its characteristic function (a subclass may have changed that, too).
    """
    if type(law) is Uniform:
        return lambda w: _uniform_log_mgf(law.mean * w), law.mean**2 / 3
    if type(law) is Beta:
        variance = law.mean * (1 - law.mean) / (law.concentration + 1)
        return lambda w: beta_log_mgf(w, *law.shapes), variance
    if type(law) in (Bernoulli, Empirical):
        values, shares = atoms(law)
        deviations = values - law.mean
        return lambda w: discrete_log_mgf(w, deviations, shares), float(shares @ deviations**2)
    return _from_characteristic_function(law)


def atoms(law: RewardLaw) -> tuple[FloatArray, FloatArray]:
    """Return the values of `Bernoulli` or `Empirical` rewards, and their probabilities."""
    if isinstance(law, Bernoulli):
        return np.array([0.0, 1.0]), np.array([1 - law.mean, law.mean])
    assert isinstance(law, Empirical)
    return law.values, law.shares


def two_values(law: RewardLaw) -> tuple[float, float, float] | None:
    """Return the lower and the higher value of rewards, and the probability of the higher one.

    The two are the same if the reward is certain. It is None for rewards of more values.
    """
    if type(law) not in (Bernoulli, Empirical) or atoms(law)[0].size > 2:
        return None
    values, shares = atoms(law)
    if shares.max() == 1:
        values = values[shares == 1]
    return float(values[0]), float(values[-1]), float(shares[-1])


def _uniform_log_mgf(x: ComplexArray) -> ComplexArray:
    """Return log(sinh(x) / x)."""
    x = np.where(x.real < 0, -x, x)  # the function is even
    result: ComplexArray = np.zeros(x.shape, dtype=complex)
    near = np.abs(x) < 1
    small, large = x[near], x[~near]
    result[near] = special.log1p(np.polynomial.polynomial.polyval(small**2, _SINH) * small**2)
    with np.errstate(divide="ignore"):
        result[~near] = large + np.log(-np.expm1(-2 * large) / (2 * large))
    return result


def _from_characteristic_function(law: RewardLaw) -> tuple[LogTransform, float]:
    """Return what the characteristic function tells.

    Its rounding errors are of the size of machine epsilon. Near 0, where all that matters lies when
    there are many pulls, Taylor's series about the exact mean leaves errors that shrink with
    abs(w)^2. Its coefficients (the cumulants) come from values on a circle on which the moment
    generating function is within e^0.5 - 1 < 1 of 1, and so has no zeros.
    """
    bound = max(map(abs, law.support)) or 1.0
    radius = 0.5 / bound
    circle = radius * np.exp(2j * np.pi * np.arange(_CIRCLE) / _CIRCLE)
    values = np.log(law.characteristic_function(-1j * circle))
    coefficients = np.fft.fft(values).real[:_TAYLOR_TERMS] / _CIRCLE
    coefficients[:2] = 0.0

    def log_mgf(w: ComplexArray) -> ComplexArray:
        near = np.abs(w) < radius / 8
        result = np.empty(w.shape, dtype=complex)
        result[near] = np.polynomial.polynomial.polyval(w[near] / radius, coefficients)
        with np.errstate(all="ignore"):
            result[~near] = (
                np.log(law.characteristic_function(-1j * w[~near])) - law.mean * w[~near]
            )
        return result

    variance = 2 * float(coefficients[2]) / radius**2
    return log_mgf, variance if variance > 1e-14 * bound**2 else 0.0
