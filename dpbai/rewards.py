"""Reward laws of an arm, with exact sums of many rewards.

The policies of the paper use rewards only through the sum of all rewards of one arm in one phase,
so a law draws that sum directly, at a cost that does not grow with the number of pulls (except for
`Beta`). The experiments of the paper use `Uniform` (Sec. 5, App. E), and its lower bound uses
`Bernoulli`. An argument out of its range raises `ValueError`, one of a wrong type `TypeError`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbai import _check
from dpbai._check import FloatArray

_BITS = 53
_DIRECT_BELOW = 600  # pulls; fewer rewards are drawn faster one by one
_BLOCK = 2**16  # half a megabyte, to fit the cache
_MOST_DRAWN = 10**9


@runtime_checkable
class RewardLaw(Protocol):
    """The distribution of the rewards of one arm, as engines use it."""

    @property
    def mean(self) -> float:
        """Expected reward."""

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible reward."""

    def sums(self, pulls: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` sums of `pulls` independent rewards each, exactly; shape (size,)."""


class _Law(ABC):
    """Base of the laws of this module."""

    @abstractmethod
    def _sums(self, pulls: int, size: int, rng: np.random.Generator) -> FloatArray:
        """As `sums`, for checked arguments."""

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible reward."""
        return 0.0, 1.0

    def sums(self, pulls: int, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw `size` independent sums of `pulls` rewards each."""
        _check.kind(rng, "rng", np.random.Generator)
        return self._sums(_check.whole(pulls, "pulls"), _check.whole(size, "size", least=0), rng)


def _summed_in_blocks(
    draw: Callable[[tuple[int, int]], FloatArray], pulls: int, size: int
) -> FloatArray:
    """Sum rewards that are drawn one by one, in blocks of bounded size."""
    total = np.zeros(size)
    rows = max(1, _BLOCK // max(1, pulls))
    for start in range(0, size, rows):
        stop = min(start + rows, size)
        for done in range(0, pulls, _BLOCK):
            block = draw((stop - start, min(_BLOCK, pulls - done)))
            total[start:stop] += np.einsum("ij->i", block)  # faster than sum for short rows
    return total


@dataclass(frozen=True)
class Uniform(_Law):
    """Uniform rewards on [0, 2 mean].

    Parameters
    ----------
    mean : float
        Expected reward, at least 0; at most 1/2 for rewards in [0, 1] (Sec. 5).

    Notes
    -----
    A uniform variate of 53 bits is sum_k 2^-k B_k with fair independent bits B_k, so a sum of n has
    the law of sum_k 2^-k Binomial(n, 1/2), with 53 terms. Fewer than 600 rewards are drawn one by
    one.
    """

    mean: float

    def __post_init__(self) -> None:
        _check.fields(self, mean="[0, inf)")

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible reward, (0, 2 mean)."""
        return 0.0, 2 * self.mean

    def _sums(self, pulls: int, size: int, rng: np.random.Generator) -> FloatArray:
        if pulls < _DIRECT_BELOW:
            total = _summed_in_blocks(rng.random, pulls, size)
        else:
            total = np.zeros(size)
            for bit in range(_BITS, 0, -1):
                total += np.ldexp(rng.binomial(pulls, 0.5, size), -bit)
        total *= 2 * self.mean
        return total

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return E exp(i t X) = exp(i t mean) sin(t mean) / (t mean), also for complex `t`."""
        angle = np.asarray(t, dtype=complex) * self.mean
        return np.asarray(np.exp(1j * angle) * np.sinc(angle / np.pi))


@dataclass(frozen=True)
class Bernoulli(_Law):
    """Rewards 0 and 1.

    Parameters
    ----------
    mean : float
        Probability of reward 1, in [0, 1].
    """

    mean: float

    def __post_init__(self) -> None:
        _check.fields(self, mean="[0, 1]")

    def _sums(self, pulls: int, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.binomial(pulls, self.mean, size).astype(np.float64)

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return E exp(i t X) = 1 - mean + mean exp(i t), also for complex `t`."""
        return np.asarray(1 - self.mean + self.mean * np.exp(1j * np.asarray(t, dtype=complex)))


@dataclass(frozen=True)
class Beta(_Law):
    """Beta(mean c, (1 - mean) c) rewards on [0, 1], with concentration c.

    Parameters
    ----------
    mean : float
        Expected reward, strictly between 0 and 1.
    concentration : float, default 2
        Sum of the two shape parameters, positive; the variance is mean (1 - mean) / (c + 1).

    Notes
    -----
    A sum of n rewards takes n variates. To draw more than 10^9 variates at once is an error.
    """

    mean: float
    concentration: float = 2.0

    def __post_init__(self) -> None:
        _check.fields(self, mean="(0, 1)", concentration="(0, inf)")

    @property
    def shapes(self) -> tuple[float, float]:
        """The two shape parameters of the Beta distribution."""
        return self.mean * self.concentration, (1 - self.mean) * self.concentration

    def _sums(self, pulls: int, size: int, rng: np.random.Generator) -> FloatArray:
        if pulls * size > _MOST_DRAWN:
            raise ValueError(
                f"rewards must not be Beta for {size} sums of {pulls} rewards: they are drawn one "
                f"by one, and more than {_MOST_DRAWN:.0e} take minutes; use fewer trials, a "
                "smaller budget, or a law whose sums are drawn directly, such as Uniform"
            )
        return _summed_in_blocks(lambda shape: rng.beta(*self.shapes, shape), pulls, size)


@dataclass(frozen=True, eq=False)
class Empirical(_Law):
    """Rewards drawn with replacement from given values.

    Parameters
    ----------
    values : array_like of shape (m,)
        Finite values; a repeated value is drawn proportionally more often.
    weights : array_like of shape (m,), optional
        Non-negative weights of the values, with a positive sum; equal by default.
    """

    values: FloatArray
    weights: FloatArray | None = None

    def __post_init__(self) -> None:
        values = _check.vector(self.values, "values")
        if not values.size:
            raise ValueError("values must not be empty")
        given = np.ones(values.size) if self.weights is None else self.weights
        weights = _check.vector(given, "weights", values.size)
        if (weights < 0).any():
            raise ValueError("weights must be at least 0")
        if not 0 < weights.sum() < np.inf:
            raise ValueError("weights must have a positive, finite sum")
        distinct, where = np.unique(values, return_inverse=True)
        total = np.bincount(where, weights=weights)
        distinct, total = distinct[total > 0], total[total > 0]
        object.__setattr__(self, "values", distinct)
        object.__setattr__(self, "weights", total)

    @cached_property
    def shares(self) -> FloatArray:
        """Probabilities of the distinct values, in increasing order of the values."""
        assert self.weights is not None
        return np.asarray(self.weights / self.weights.sum())

    @property
    def mean(self) -> float:
        """Expected reward."""
        return float(self.values @ self.shares)

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest possible reward."""
        return float(self.values[0]), float(self.values[-1])

    def _sums(self, pulls: int, size: int, rng: np.random.Generator) -> FloatArray:
        total = np.zeros(size)
        remaining = np.full(size, pulls)
        tails = np.cumsum(self.shares[::-1])[::-1]
        for value, weight, tail in zip(self.values, self.shares, tails, strict=True):
            count = rng.binomial(remaining, min(1.0, weight / tail))
            total += value * count
            remaining -= count
        return total

    def characteristic_function(self, t: ArrayLike) -> NDArray[np.complex128]:
        """Return E exp(i t X), a finite sum, also for complex `t`."""
        angles = np.multiply.outer(1j * np.asarray(t, dtype=complex), self.values)
        return np.asarray(np.exp(angles) @ self.shares)
