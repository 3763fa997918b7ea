"""The tail bounds of the paper's appendix of useful facts.

Hoeffding's inequality bounds the tails of sums of rewards, and sub-exponential bounds those of
weighted sums of Laplace noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai.noise import exp_bound


def hoeffding(deviation: float, ranges: ArrayLike) -> float:
    """Bound P(S - E S >= deviation) by exp(-2 deviation^2 / sum (b_i - a_i)^2), eq. (25).

    Parameters
    ----------
    deviation : float
        Positive.
    ranges : array_like of shape (n,)
        b_i - a_i, the widths of the ranges of the independent variables; finite, at least 0.
    """
    deviation = _check.number(deviation, "deviation", "(0, inf]")
    widths = _check.vector(ranges, "ranges")
    if not (widths >= 0).all():
        raise ValueError("ranges must be at least 0")
    spread = math.hypot(*widths)  # squares may overflow or underflow
    ratio = deviation / spread if spread and math.isfinite(deviation) else math.inf
    return exp_bound(-2 * ratio * ratio)


def hoeffding_two_sided(deviation: float, ranges: ArrayLike) -> float:
    """Bound P(abs(S - E S) >= deviation): twice `hoeffding`, eq. (26)."""
    return 2 * hoeffding(deviation, ranges)


@dataclass(frozen=True)
class SubExponential:
    """A variable X with E exp(t X) <= exp(t^2 tau^2 / 2) for abs(t) < 1/b.

    Parameters
    ----------
    tau, b : float
        Positive and finite.
    """

    tau: float
    b: float

    def __post_init__(self) -> None:
        _check.fields(self, tau="(0, inf)", b="(0, inf)")

    @classmethod
    def laplace(cls, scale: float) -> SubExponential:
        """Return the parameters of Lap(scale) that the proofs use, tau = b = 2 scale."""
        scale = _check.positive(scale, "scale")
        return cls(2 * scale, 2 * scale)

    @classmethod
    def combination(
        cls, coefficients: Sequence[float], parts: Sequence[SubExponential]
    ) -> SubExponential:
        """Return sum_i a_i X_i of independent parts, Lemma A.3.

        tau^2 = sum a_i^2 tau_i^2 and b = max abs(a_i) b_i; not all coefficients may be 0.
        """
        parts = [_check.kind(part, "parts", cls) for part in _check.sequence(parts, "parts")]
        sizes = np.abs(_check.vector(coefficients, "coefficients"))
        if len(parts) != sizes.size:
            raise ValueError(f"parts must hold {sizes.size} variables, one for each coefficient")
        if not sizes.any():
            raise ValueError("coefficients must not all be 0")
        taus, bs = np.array([(part.tau, part.b) for part in parts]).T
        with np.errstate(over="ignore"):  # infinity is an error in the constructor
            return cls(math.hypot(*(sizes * taus)), float((sizes * bs).max()))

    @property
    def linear_from(self) -> float:
        """tau^2 / b, above which the exponent of the tail bound is linear."""
        return self.tau * (self.tau / self.b)

    def tail(self, deviation: float) -> float:
        """Bound P(X >= deviation), Lemma A.4.

        The bound is exp(-x^2 / (2 tau^2)) for x up to `linear_from`, and exp(-x / (2 b)) above.
        """
        deviation = _check.non_negative(deviation, "deviation")
        if deviation <= self.linear_from:
            ratio = deviation / self.tau
            return exp_bound(-ratio * ratio / 2)
        return exp_bound(-deviation / self.b / 2)


def laplace_sum(coefficients: Sequence[float], scale: float) -> SubExponential:
    """Return the parameters of sum_i a_i Z_i for independent Z_i of law Lap(scale)."""
    coefficients = _check.sequence(coefficients, "coefficients")
    parts = [SubExponential.laplace(scale)] * len(coefficients)
    return SubExponential.combination(coefficients, parts)
