"""Choices among numbers of which some are equal: by position, and not by their last digits.

Rounding errors differ between processors, between numbers of threads, and between orders of the
same sum. Numbers that differ by no more than a stated share count as equal here, so that a choice
is the same everywhere.
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
    """Return the order of values, the smallest first; those that are equal keep their order.

    Values are equal if each is at most a share `within` above the one before.
    """
    order = np.argsort(values, kind="stable")
    placed = values[order]
    with np.errstate(invalid="ignore"):  # infinite values are equal to each other
        above = np.diff(placed) > within * np.abs(placed[1:])
    level = np.zeros(len(values), dtype=np.int64)
    level[order[1:]] = np.cumsum(above)
    return np.argsort(level, kind="stable")
