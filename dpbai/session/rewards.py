"""Checks of private rewards where they arrive. No message ever repeats one.

Rewards become an exact sum and a count at once, and nothing else of them is kept.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbai._check import FloatArray

Sum = tuple[Fraction, int]
"""A sum of rewards, exact, and how many they are."""

_HALF = 26  # bits in the lower half of a 53-bit mantissa


def array_sum(rewards: ArrayLike) -> Sum:
    """Return the exact sum and the number of `rewards`.

    Parameters
    ----------
    rewards : array_like of shape (n,), n >= 1
        Numbers or booleans in [0, 1].

    Raises
    ------
    TypeError, ValueError
        If they are anything else. What they are is not told.
    """
    if isinstance(rewards, np.ma.MaskedArray):
        raise TypeError("rewards must not be a masked array: what is masked is not a reward")
    try:
        array = np.asarray(rewards)
    except Exception:
        raise TypeError("rewards must be a 1-D array of numbers") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError("rewards must be doubles, integers or booleans")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"rewards must be 1-D and not empty, got shape {array.shape}")
    # NaN fails every comparison.
    if not ((array >= 0) & (array <= 1)).all():
        raise ValueError("rewards must lie in [0, 1], and one or more do not")
    return exact_sum(array.astype(np.float64)), array.size


def stated_sum(total: Any, count: Any) -> Sum:
    """Return a sum of `count` rewards that someone else added up.

    Parameters
    ----------
    total : real number
        In [0, count]; taken as exact.
    count : int
        At least 1.

    Raises
    ------
    TypeError, ValueError
        If they are anything else. What they are is not told: they may be the wrong way round.
    """
    if isinstance(count, bool) or not isinstance(count, Integral):
        raise TypeError("count must be an integer")
    if isinstance(total, bool) or not isinstance(total, Real):
        raise TypeError("total must be a real number")
    if not isinstance(total, Rational):
        if not math.isfinite(total):
            raise ValueError("total must be finite")
        if float(total) != total:
            raise TypeError("total must be a rational number or a double")
        total = float(total)
    exact = Fraction(total)
    if count < 1:
        raise ValueError("count must be at least 1")
    if not 0 <= exact <= int(count):
        raise ValueError("total must lie between 0 and count, since rewards lie in [0, 1]")
    return exact, int(count)


def exact_sum(rewards: FloatArray) -> Fraction:
    """Return the sum of doubles in [0, 1] without any rounding, so that order is no matter."""
    fractions, exponents = np.frexp(rewards)
    mantissas = np.ldexp(fractions, 53).astype(np.int64)
    total = Fraction()
    for exponent in np.unique(exponents).tolist():
        part = mantissas[exponents == exponent]
        # In two halves, neither of which can overflow below 2^36 rewards.
        high, low = int((part >> _HALF).sum()), int((part & (2**_HALF - 1)).sum())
        total += ((high << _HALF) + low) * Fraction(2) ** (exponent - 53)
    return total
