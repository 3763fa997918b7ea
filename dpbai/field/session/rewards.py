"""Checks of private rewards, of which no message quotes one.

Rewards become an exact sum and a count at once. A sum of rewards in another range is mapped to that
of rewards in [0, 1], exactly.
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
    """The least and the largest possible reward; policies and laws are on [0, 1]."""

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
    """Return two doubles, within 2^53 so that integers between them are doubles too."""
    bounds = _check.sequence(value, "reward_range")
    numbers = [_check.number(bound, "reward_range") for bound in bounds]
    low, high = numbers if len(numbers) == 2 else (math.nan, math.nan)
    if not -_check.LARGEST_COUNT <= low < high <= _check.LARGEST_COUNT:
        raise ValueError(
            "reward_range must be the least and the largest possible reward, within 2**53, got "
            f"{_check.quoted(bounds)}"
        )
    return Range(low, high)


def array_sum(rewards: ArrayLike, bounds: Range = UNIT) -> Sum:
    """Return the exact sum and the number of `rewards`, mapped from `bounds` to [0, 1].

    They are 1-D numbers or booleans, at least one. Anything else is refused and not quoted.
    """
    if isinstance(rewards, np.ma.MaskedArray):
        raise TypeError("rewards must not be a masked array: leave out what is masked")
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
    # In single precision, an end of the range such as 0.1 is rounded: it still lies in the range.
    values = np.clip(array.astype(np.float64), bounds.low, bounds.high)
    return stated_sum((exact_sum(values), array.size), bounds)


def stated_sum(pair: Any, bounds: Range = UNIT) -> Sum:
    """Return the total and the count of rewards, mapped to [0, 1].

    The count is at least 1, and the total between count times the ends of the range, with numbers
    taken as the doubles that they are or, if that fails, as the decimals that they are written as
    (as doubles, 2.1 is more than three times 0.7). Anything else is refused and not quoted, because
    the two may be interchanged.
    """
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise TypeError("sums must be pairs of a total and a count")
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
    raise ValueError(f"total must be of count rewards, which lie in {bounds}")


def decimal(value: Any) -> Fraction:
    """Return a number exactly, and a double as the shortest decimal that rounds to it."""
    return Fraction(repr(value) if isinstance(value, float) else value)


def exact_sum(rewards: FloatArray) -> Fraction:
    """Return the exact sum of finite doubles, which does not depend on their order."""
    values, total = rewards.tolist(), Fraction()
    while part := math.fsum(values):  # which is rounded; the rest is again a sum of doubles
        total += Fraction(part)
        values.append(-part)
    return total
