"""Argmin, argmax and argsort with a relative tolerance.

Rounding errors depend on the processor, the number of threads, and the order of summation. With a
tolerance, choices do not depend on them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpbai._check import FloatArray, IntArray

TIE = 1e-9


def first_largest(values: ArrayLike, within: float = TIE) -> int:
    """Return the first position of a value within a relative tolerance of the largest."""
    array = np.asarray(values, dtype=np.float64)
    largest = array.max()
    return int(np.argmax(array >= largest - within * abs(largest)))


def first_smallest(values: ArrayLike, within: float = TIE) -> int:
    """Return the first position of a value within a relative tolerance of the smallest."""
    return first_largest(-np.asarray(values, dtype=np.float64), within)


def ascending(values: FloatArray) -> IntArray:
    """Return the order of values, the smallest first; equal values keep their order.

    A value counts as equal to the next smaller one if it exceeds it by at most a share `TIE`.
    """
    order = np.argsort(values, kind="stable")
    placed = values[order]
    with np.errstate(invalid="ignore"):  # infinite values are equal to each other
        above = np.diff(placed) > TIE * np.abs(placed[1:])
    level = np.zeros(len(values), dtype=np.int64)
    level[order[1:]] = np.cumsum(above)
    return np.argsort(level, kind="stable")
