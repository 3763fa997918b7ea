"""Cumulant generating functions of the independent terms of a release: means of rewards, and noise.

A term X is given by log E exp(z (X - mean)) at complex z. It is centred because at many pulls z
times the mean would be much larger than the rest. For the mean of n rewards Y it is n times log E
exp(w Y'), where w = z / n and Y' = Y - E Y. The factor n, which may be 10^9, multiplies the
rounding error, too. So each logarithm is computed to a small *relative* error, however small w is.
For rewards with few values it is log(1 + E(e^(w Y') - 1 - w Y')), because E Y' = 0. Nothing cancels
in this expectation, a sum over the values: for real x, e^x - 1 - x is never negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special

from dpbai._check import FloatArray, IntArray
from dpbai.instance import Instance
from dpbai.noise import Gaussian, Laplace, Noise, NoNoise
from dpbai.phase import Phase
from dpbai.rewards import Bernoulli, Empirical, RewardLaw, Uniform

ComplexArray = NDArray[np.complex128]

_LARGEST_EXPONENT = 600.0
_LARGE = 1e150  # the product of two such numbers is finite
_SERIES_BELOW = 0.25
_EXP_SERIES = 1 / special.factorial(np.arange(2, 15))  # of (e^x - 1 - x) / x^2
_SINH_SERIES = 1 / special.factorial(np.arange(3, 22, 2))  # of sinh(x) / x, from x^2 on


class NotExactError(ValueError):
    """An exact probability cannot be computed; `simulate` can estimate it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no exact probability: {reason}; estimate it with simulate")


def second_order(x: ComplexArray) -> ComplexArray:
    """Return e^x - 1 - x with a small relative error."""
    result: ComplexArray = np.asarray(np.exp(x) - (1 + x))
    small = np.abs(x) < _SERIES_BELOW
    near = x[small]
    result[small] = near**2 * np.polynomial.polynomial.polyval(near, _EXP_SERIES)
    return result


def discrete_log_mgf(w: ComplexArray, deviations: FloatArray, shares: FloatArray) -> ComplexArray:
    """Return log E exp(w Y), up to multiples of 2 pi i, for Y with mean 0 and few values.

    `deviations` are the values of Y and `shares` their probabilities, both of shape (m,). The real
    parts of `w` times the deviations must be below 700.
    """
    excess = np.zeros(w.shape, dtype=complex)
    for deviation, share in zip(deviations, shares, strict=True):
        excess += share * second_order(w * deviation)
    with np.errstate(divide="ignore"):
        return np.asarray(special.log1p(excess))


@dataclass(frozen=True)
class Term:
    """One of the independent summands X of a linear form.

    `transform(z, *parameters)` returns log E exp(z (X - mean)), up to multiples of 2 pi i, for an
    array of complex z; the parameters may be arrays, too. It is finite for real z with abs(z) <
    limit. If `pole` is true, E exp(z (X - mean)) has simple poles at +-limit. `decays` is false for
    rewards with atoms, for which it does not tend to 0 along vertical lines.
    """

    transform: Callable[..., ComplexArray]
    parameters: tuple[float, ...]
    limit: float
    mean: float
    deviation: float
    decays: bool
    pole: bool = False

    def log_mgf(self, z: ComplexArray) -> ComplexArray:
        """Return log E exp(z (X - mean)), up to multiples of 2 pi i."""
        return self.transform(z, *self.parameters)


def independent_terms(phase: Phase, instance: Instance) -> list[Term]:
    """Return the terms of a phase: means of the pulled arms, then the noise of the coordinates."""
    means = [
        mean_term(instance.laws[arm], n) for arm, n in zip(phase.pulled, phase.pulls, strict=True)
    ]
    return means + [noise_term(phase.noise)] * phase.coordinates


def noise_term(noise: Noise) -> Term:
    """Return the noise of one coordinate; NotExactError if its transform is unknown."""
    if isinstance(noise, Laplace):
        scale, deviation = noise.scale, noise.standard_deviation
        return Term(_laplace, (scale,), 1 / scale, 0.0, deviation, decays=True, pole=True)
    if isinstance(noise, Gaussian | NoNoise):
        deviation = noise.standard_deviation
        return Term(_normal, (deviation,), math.inf, 0.0, deviation, decays=True)
    raise NotExactError(
        f"dpbai does not know the moment generating function of {type(noise).__name__} noise"
    )


def _laplace(z: ComplexArray, scale: FloatArray) -> ComplexArray:
    """Return -log(1 - (scale z)^2), on either side of its poles."""
    z = scale * z
    if np.abs(z).max(initial=0.0) < _LARGE:
        return np.asarray(-np.log((1 - z) * (1 + z)))
    return np.asarray(-np.log(1 - z) - np.log(1 + z))


def _normal(z: ComplexArray, deviation: FloatArray) -> ComplexArray:
    return np.asarray(0.5 * (deviation * z) ** 2)


def mean_term(law: RewardLaw, pulls: int) -> Term:
    """Return the mean of `pulls` rewards; NotExactError if its transform is unknown."""
    transform: Callable[..., ComplexArray]
    parameters: tuple[float, ...] = (pulls, law.mean)
    if type(law) is Uniform:
        transform, variance = _uniform_log_mgf, law.mean**2 / 3
    elif type(law) is Bernoulli:
        transform, variance = _bernoulli_log_mgf, law.mean * (1 - law.mean)
    elif type(law) is Empirical:
        deviations, shares = law.values - law.mean, law.shares
        transform, parameters = partial(_mean_log_mgf, deviations, shares), (pulls,)
        variance = float(shares @ deviations**2)
    else:
        raise NotExactError(
            f"dpbai does not know the moment generating function of {type(law).__name__} rewards"
        )
    limit = _LARGEST_EXPONENT / (max(map(abs, law.support)) or 1.0) * pulls
    smooth = type(law) is Uniform and law.mean > 0
    deviation = math.sqrt(variance / pulls)
    return Term(transform, parameters, limit, law.mean, deviation, decays=smooth)


def atoms(law: RewardLaw) -> tuple[FloatArray, FloatArray]:
    """Return the values of `Bernoulli` or `Empirical` rewards, and their probabilities."""
    if isinstance(law, Bernoulli):
        return np.array([0.0, 1.0]), np.array([1 - law.mean, law.mean])
    assert isinstance(law, Empirical)
    return law.values, law.shares


def two_values(law: RewardLaw) -> tuple[float, float, float] | None:
    """Return the lower and the higher value of rewards, and the probability of the higher one.

    The two values are equal if the reward is certain. For other rewards return None.
    """
    if type(law) is Uniform and law.mean == 0:
        return 0.0, 0.0, 1.0
    if type(law) not in (Bernoulli, Empirical) or atoms(law)[0].size > 2:
        return None
    values, shares = atoms(law)
    if shares.max() == 1:
        values = values[shares == 1]
    return float(values[0]), float(values[-1]), float(shares[-1])


def _uniform_log_mgf(z: ComplexArray, pulls: FloatArray, mean: FloatArray) -> ComplexArray:
    """Return pulls * log(sinh(x) / x) for x = mean z / pulls."""
    x = mean / pulls * z
    x = np.where(x.real < 0, -x, x)  # the function is even
    result: ComplexArray = np.zeros(x.shape, dtype=complex)
    near = np.abs(x) < 1
    small, large = x[near], x[~near]
    series = np.polynomial.polynomial.polyval(small**2, _SINH_SERIES)
    result[near] = special.log1p(series * small**2)
    with np.errstate(divide="ignore"):
        result[~near] = large + np.log(-np.expm1(-2 * large) / (2 * large))
    return np.asarray(pulls * result)


def _mean_log_mgf(
    deviations: FloatArray, shares: FloatArray, z: ComplexArray, pulls: FloatArray
) -> ComplexArray:
    with np.errstate(invalid="ignore"):  # pulls * log(0): the phase of 0 is undefined
        return np.asarray(pulls * discrete_log_mgf(z / pulls, deviations, shares))


def _bernoulli_log_mgf(z: ComplexArray, pulls: FloatArray, mean: FloatArray) -> ComplexArray:
    return _mean_log_mgf(np.stack([-mean, 1 - mean]), np.stack([1 - mean, mean]), z, pulls)


class Terms:
    """T independent terms, whose transforms are evaluated together."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.means: FloatArray = np.array([term.mean for term in terms])
        self.deviations: FloatArray = np.array([term.deviation for term in terms])
        self.limits: FloatArray = np.array([term.limit for term in terms])
        self.decay = np.array([term.decays for term in terms], dtype=bool)
        self.poles = np.array([term.pole for term in terms], dtype=bool)
        kinds = list(dict.fromkeys((term.transform, len(term.parameters)) for term in terms))
        self._kinds = kinds
        self._kind = np.array([kinds.index((t.transform, len(t.parameters))) for t in terms], int)
        self._parameters = np.zeros((max((n for _, n in kinds), default=0), len(terms)))
        for k, term in enumerate(terms):
            self._parameters[: len(term.parameters), k] = term.parameters

    def log_mgf(self, index: IntArray, z: ComplexArray) -> ComplexArray:
        """Return log E exp(z (X - mean)) for the terms with these indices.

        The shape of `index` can be broadcast to that of `z`, and has as many rows.
        """
        kind = self._kind[index]
        first = kind.flat[0]
        if (kind == first).all():
            transform, count = self._kinds[first]
            return np.asarray(transform(z, *self._parameters[:count, index]))
        result: ComplexArray = np.empty(z.shape, dtype=complex)
        for k in np.unique(kind).tolist():
            (where,) = np.nonzero((kind == k).reshape(len(kind)))
            transform, count = self._kinds[k]
            result[where] = transform(z[where], *self._parameters[:count, index[where]])
        return result
