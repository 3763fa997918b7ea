"""Checks of arguments that several modules share.

Each returns the argument in the form that the code uses, or raises an error that names the
argument, the rule, and the offending value. Nothing is clipped, rounded or dropped on the way.
All of these arguments are public; private rewards are checked where they arrive, and never quoted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Seed = int | np.random.SeedSequence | np.random.Generator

LARGEST_COUNT = 2**53
"""Counts up to here are exact as floats; a larger budget has no use and would lose pulls."""


def whole(value: Any, name: str, *, least: int = 1) -> int:
    """Return `value` as an `int`, at least `least` and at most 2^53."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    result = int(value)
    if result < least:
        raise ValueError(f"{name} must be at least {least}, got {result}")
    if result > LARGEST_COUNT:
        raise ValueError(f"{name} must be at most 2**53, got {result}")
    return result


def number(value: Any, name: str) -> float:
    """Return `value` as a `float`; NaN and non-numbers are errors, infinity is not."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    if math.isnan(value):
        raise ValueError(f"{name} must not be NaN")
    return float(value)


def epsilon(value: Any) -> float:
    """Return the privacy parameter: positive, infinity meaning no noise."""
    result = number(value, "epsilon")
    if result <= 0:
        raise ValueError(f"epsilon must be positive, got {result}")
    if math.isinf(1 / result):
        raise ValueError(f"epsilon must be large enough for 1/epsilon to be finite, got {result}")
    return result


def delta(value: Any) -> float:
    """Return the privacy parameter delta, strictly between 0 and 1."""
    return proportion(value, "delta")


def proportion(value: Any, name: str) -> float:
    """Return `value` as a `float` strictly between 0 and 1."""
    result = number(value, name)
    if not 0 < result < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {result}")
    return result


def choice(value: Any, name: str, options: Sequence[str]) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {allowed}, got {value!r}")
    return value


def matrix(value: ArrayLike, name: str, *, least_rows: int) -> FloatArray:
    """Return a read-only float copy of a finite 2-D array with at least `least_rows` rows."""
    array = _real(value, name)
    if array.ndim != 2:
        raise ValueError(f"{name} must be 2-D (arms x dimension), got {array.ndim}-D")
    if array.shape[0] < least_rows or array.shape[1] < 1:
        raise ValueError(
            f"{name} must have at least {least_rows} rows (arms) and 1 column (dimension), "
            f"got shape {array.shape}"
        )
    array = np.array(array, dtype=np.float64, order="C")
    finite = np.isfinite(array)
    if not finite.all():
        row, column = (int(index[0]) for index in np.nonzero(~finite))
        raise ValueError(f"{name} must be finite, got {array[row, column]} at [{row}, {column}]")
    array.setflags(write=False)
    return array


def vector(value: ArrayLike, name: str) -> FloatArray:
    """Return a read-only float copy of a finite 1-D array; errors quote none of its values."""
    array = _real(value, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D, got {array.ndim}-D")
    array = np.array(array, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    array.setflags(write=False)
    return array


def _real(value: ArrayLike, name: str) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain array, got a masked one")
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array


def active_set(value: Sequence[int], arms: int) -> tuple[int, ...]:
    """Return the active set as sorted, distinct arms in 0..arms-1."""
    result = tuple(whole(arm, "active arm", least=0) for arm in value)
    if not result:
        raise ValueError("active must hold at least one arm, got none")
    if list(result) != sorted(set(result)) or result[-1] >= arms:
        raise ValueError(f"active must be distinct arms of 0..{arms - 1} in increasing order")
    return result


def generator(seed: Seed) -> np.random.Generator:
    """Return a generator for `seed`: an int, a `SeedSequence` or a `Generator`."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(seed_sequence(seed))


def seed_sequence(seed: Any) -> np.random.SeedSequence:
    """Return a seed sequence for `seed`; a `Generator` gives a child of its own."""
    if isinstance(seed, np.random.SeedSequence):
        # A copy: to spawn from it leaves the caller's own as it was, so that it can be used again.
        return np.random.SeedSequence(
            seed.entropy,
            spawn_key=seed.spawn_key,
            pool_size=seed.pool_size,
            n_children_spawned=seed.n_children_spawned,
        )
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(2**63, size=4).tolist())
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise TypeError(
            f"seed must be a non-negative int, a SeedSequence or a Generator, got {seed!r}"
        )
    return np.random.SeedSequence(int(seed))
