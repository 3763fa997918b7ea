"""Checks of private rewards. No message quotes a reward.

Rewards are replaced by their exact sum and their count at once. If they lie in another range, the
sum is mapped exactly to that of rewards in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai._check import FloatArray

Sum = tuple[Fraction, int]
"""The exact sum of rewards in [0, 1], and their number."""


class Range(NamedTuple):
    """The smallest and the largest possible reward; policies use rewards in [0, 1]."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """The length of the range."""
        return self.high - self.low

    def shown(self, mean: Any) -> Any:
        """Return a mean in [0, 1], or an array of them, in the units of rewards."""
        return self.low + self.width * mean

    def __str__(self) -> str:
        return f"[{self.low:.15g}, {self.high:.15g}]"


UNIT = Range(0.0, 1.0)


def checked_range(value: Any) -> Range:
    """Return the range as doubles within 2^53, so that integers between them are doubles too."""
    bounds = _check.sequence(value, "reward_range")
    numbers = [_check.number(bound, "reward_range") for bound in bounds]
    low, high = numbers if len(numbers) == 2 else (math.nan, math.nan)
    if not -_check.LARGEST_COUNT <= low < high <= _check.LARGEST_COUNT:
        raise ValueError(
            "reward_range must be the smallest and the largest possible reward, within 2**53, got "
            f"{_check.quoted(bounds)}"
        )
    return Range(low, high)


def array_sum(rewards: ArrayLike, bounds: Range = UNIT) -> Sum:
    """Return the exact sum and the number of `rewards`, mapped from `bounds` to [0, 1].

    They must be a 1-D array of numbers or booleans, at least one. Errors do not quote them.
    """
    if isinstance(rewards, np.ma.MaskedArray):
        raise TypeError("rewards must not be a masked array: remove the masked entries first")
    try:
        array = np.asarray(rewards)
    except Exception:
        raise TypeError("rewards must be a 1-D array of numbers") from None
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError("rewards must be doubles, integers or booleans")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"rewards must be 1-D and not empty, got shape {array.shape}")
    least, most = math.ceil(bounds.low), math.floor(bounds.high)
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            least, most = map(array.dtype.type, bounds)
    if not (np.isfinite(array) & (array >= least) & (array <= most)).all():
        raise ValueError(f"rewards must lie in {bounds}, and one or more do not")
    # In single precision, an end of the range such as 0.1 is rounded. It still lies in the range.
    values = np.clip(array.astype(np.float64), bounds.low, bounds.high)
    return stated_sum((exact_sum(values), array.size), bounds)


def stated_sum(pair: Any, bounds: Range = UNIT) -> Sum:
    """Return the total and the count of rewards, mapped to [0, 1].

    The count must be at least 1, and the total between `count` times the ends of the range.
    Numbers are taken as doubles or, if this fails, as the decimals that they are printed as (as
    doubles, 2.1 is more than three times 0.7). Errors do not quote the count either, because it may
    be interchanged with the total.
    """
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise TypeError("sums must be pairs (total, count)")
    total, count = pair
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
    if count < 1:
        raise ValueError("count must be at least 1")
    for exact in (Fraction, decimal):
        low, high = map(exact, bounds)
        if 0 <= (mapped := (exact(total) - int(count) * low) / (high - low)) <= count:
            return mapped, int(count)
    raise ValueError(f"total must be the sum of count rewards in {bounds}, which it cannot be")


def decimal(value: Any) -> Fraction:
    """Return a number exactly, where a double is the shortest decimal that rounds to it."""
    return Fraction(repr(value) if isinstance(value, float) else value)


def exact_sum(rewards: FloatArray) -> Fraction:
    """Return the exact sum of finite doubles, which does not depend on their order."""
    values, total = rewards.tolist(), Fraction()
    while part := math.fsum(values):  # rounded; the remainder is a sum of doubles again
        total += Fraction(part)
        values.append(-part)
    return total
