"""Argmin, argmax and argsort in which numbers that differ by rounding count as equal.

Rounding errors differ between processors, numbers of threads, and orders of summation. With a
relative tolerance, choices are the same everywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpbai._check import FloatArray, IntArray

TIE = 1e-9


def first_largest(values: ArrayLike, within: float = TIE) -> int:
    """Return the first position of a value that is the largest, or smaller by a share `within`."""
    array = np.asarray(values, dtype=np.float64)
    largest = array.max()
    return int(np.argmax(array >= largest - within * abs(largest)))


def first_smallest(values: ArrayLike, within: float = TIE) -> int:
    """Return the first position of a value that is the smallest, or larger by a share `within`."""
    return first_largest(-np.asarray(values, dtype=np.float64), within)


def ascending(values: FloatArray, within: float = TIE) -> IntArray:
    """Return the order of values, the smallest first, with equal ones in the order given.

    A value at most a share `within` above the one before it counts as equal.
    """
    order = np.argsort(values, kind="stable")
    placed = values[order]
    with np.errstate(invalid="ignore"):  # infinite values are equal to each other
        above = np.diff(placed) > within * np.abs(placed[1:])
    level = np.zeros(len(values), dtype=np.int64)
    level[order[1:]] = np.cumsum(above)
    return np.argsort(level, kind="stable")
