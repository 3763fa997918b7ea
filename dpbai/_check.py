"""Checks of arguments that several modules share.

Each check returns the argument in the form that the code uses, or raises an error that names the
argument, the rule, and the offending value. Nothing is clipped, rounded or dropped. All of these
arguments are public. Private rewards are checked where they are read, and never quoted.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Kind = TypeVar("Kind")
Seed = int | np.random.SeedSequence | np.random.Generator

MOST_TRIALS = 10**10
"""The largest number of runs that can be simulated in practice."""

LARGEST_COUNT = 2**53
"""Integers up to this one are exact as floats."""

_MAX_QUOTED = 100  # characters
_IN_WORDS = {
    "(0, inf]": "be positive",
    "(0, inf)": "be positive and finite",
    "[0, inf]": "be at least 0",
    "[0, inf)": "be finite and at least 0",
    "(0, 1)": "lie strictly between 0 and 1",
}
"""The wording of common intervals in messages."""


def quoted(value: Any) -> str:
    """Return the representation of a public value for an error message: one line, truncated."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # from a user's class, or for an integer with too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}..."


def whole(value: Any, name: str, *, least: int = 1, most: int = LARGEST_COUNT) -> int:
    """Return `value` as an `int`, at least `least` and at most `most`."""
    # isinstance(value, Integral) is slow, and most values are int.
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
        raise TypeError(f"{name} must be an integer, got {quoted(value)}")
    result = int(value)
    if result < least:
        raise ValueError(f"{name} must be at least {least}, got {quoted(result)}")
    if result > most:
        raise ValueError(f"{name} must be at most {most}, got {quoted(result)}")
    return result


def trials(value: Any, *, least: int = 1) -> int:
    """Return `value` as a number of runs to simulate."""
    return whole(value, "trials", least=least, most=MOST_TRIALS)


def number(value: Any, name: str, interval: str = "[-inf, inf]") -> float:
    """Return `value` as a `float` that lies in an interval such as "[0, 1)"; NaN is an error."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, got {quoted(value)}")
    try:
        result = float(value)
    except OverflowError:
        raise ValueError(f"{name} must fit a double, got {quoted(value)}") from None
    if math.isnan(result):
        raise ValueError(f"{name} must not be NaN")
    low, high = map(float, interval[1:-1].split(","))
    ends = {end for end, bracket in ((low, interval[0]), (high, interval[-1])) if bracket in "[]"}
    if not (low < result < high or result in ends):
        rule = _IN_WORDS.get(interval, f"lie in {interval}")
        raise ValueError(f"{name} must {rule}, got {result}")
    return result


def positive(value: Any, name: str) -> float:
    """Return `value` as a positive and finite `float`."""
    return number(value, name, "(0, inf)")


def non_negative(value: Any, name: str) -> float:
    """Return `value` as a `float` of at least 0."""
    return number(value, name, "[0, inf]")


def proportion(value: Any, name: str) -> float:
    """Return `value` as a `float` strictly between 0 and 1."""
    return number(value, name, "(0, 1)")


def epsilon(value: Any) -> float:
    """Return the privacy parameter: in [1e-300, 1e300], or infinity, which means no noise.

    Outside this interval, noise of scale 1/epsilon would overflow or underflow.
    """
    result = number(value, "epsilon", "(0, inf]")
    if math.isinf(result):
        return result
    return number(value, "epsilon, unless it is infinite (no noise),", "[1e-300, 1e300]")


def fields(record: Any, **intervals: str) -> None:
    """Convert fields of a frozen dataclass to floats, and check that each is in its interval."""
    for name, interval in intervals.items():
        checked = number(getattr(record, name), f"{name} of {type(record).__name__}", interval)
        object.__setattr__(record, name, checked)


def one_of(value: Any, name: str, options: Sequence[str]) -> str:
    """Return `value` if it is one of `options`."""
    if not isinstance(value, str) or value not in options:
        allowed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {allowed}, got {quoted(value)}")
    return value


def flag(value: Any, name: str) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {quoted(value)}")
    return bool(value)


def sequence(value: Any, name: str) -> tuple[Any, ...]:
    """Return the entries of a sequence or iterator; strings, mappings and scalars are errors."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a sequence, got {type(value).__name__}")
    try:
        return tuple(value)
    except TypeError:  # a 0-d array is an instance of Iterable
        raise TypeError(f"{name} must be a sequence, got a 0-d array") from None


def path(value: Any, name: str) -> Path:
    """Return the path of a file, which need not exist; a directory is an error."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a string or path-like, got {quoted(value)}")
    try:
        result = Path(value)
        result.lstat()
    except FileNotFoundError:
        return result
    except (TypeError, ValueError, OSError):  # bytes, a null character, a name that is too long
        raise ValueError(f"{name} must be the path of a file, got {quoted(value)}") from None
    if result.is_dir():
        raise ValueError(f"{name} must be a file, but {result} is a directory")
    return result


def kind(value: Kind, name: str, expected: Any) -> Kind:
    """Return `value` if it is an instance of a class, or has the members of a protocol."""
    if isinstance(value, type):
        raise TypeError(
            f"{name} must be an object of type {expected.__name__}, got the class "
            f"{value.__name__} itself"
        )
    if getattr(expected, "_is_protocol", False):
        # Since Python 3.12, isinstance ignores `__getattr__` for protocols.
        fits = all(getattr(value, member, None) is not None for member in _members(expected))
    else:
        fits = isinstance(value, expected)
    if not fits:
        raise TypeError(f"{name} must be of type {expected.__name__}, got {type(value).__name__}")
    return value


@cache
def _members(protocol: Any) -> frozenset[str]:
    declared = (getattr(kind, "__annotations__", ()) for kind in protocol.__mro__)
    return frozenset(name for name in (*dir(protocol), *chain(*declared)) if name[0] != "_")


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
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"{name} must be finite, got {array[row, column]} at [{row}, {column}]")
    array.setflags(write=False)
    return array


def vector(value: ArrayLike, name: str, length: int | None = None) -> FloatArray:
    """Return a read-only float copy of a finite 1-D array; errors quote none of its values."""
    return shaped(value, name, (length,))


def shaped(value: ArrayLike, name: str, shape: tuple[int | None, ...]) -> FloatArray:
    """Return a read-only float copy of a finite array of a shape; None allows any length."""
    array = np.array(_real(value, name), dtype=np.float64)
    if array.ndim != len(shape):
        raise ValueError(f"{name} must be {len(shape)}-D, got {array.ndim}-D")
    if any(want not in (None, n) for n, want in zip(array.shape, shape, strict=True)):
        wanted = str(shape).replace("None", "any")
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    array.setflags(write=False)
    return array


def reals(value: ArrayLike, name: str, *, least: float) -> FloatArray:
    """Return a float array of any shape, whose entries are at least `least`, or infinite."""
    array = np.asarray(_real(value, name), dtype=np.float64)
    if not (array >= least).all():
        raise ValueError(f"{name} must be at least {least:g}")
    return array


def _real(value: ArrayLike, name: str) -> NDArray[Any]:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must not be a masked array: leave out the masked values")
    try:
        array = np.asarray(value)
    except ValueError:  # NumPy's message may quote a value
        raise ValueError(f"{name} must be an array whose rows have the same length") from None
    except Exception:  # an object of a user's class may raise anything
        raise TypeError(f"{name} must hold real numbers, got a {type(value).__name__}") from None
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array


def active_set(value: Any, arms: int, name: str = "active") -> tuple[int, ...]:
    """Return the active set as sorted, distinct arms in 0..arms-1."""
    result = whole_numbers(value, name, least=0)
    if not result:
        raise ValueError(f"{name} must hold at least one arm, got none")
    if result[-1] >= arms or not all(map(operator.lt, result, result[1:])):
        raise ValueError(f"{name} must be distinct arms in 0..{arms - 1}, in increasing order")
    return result


def whole_numbers(value: Any, name: str, *, least: int) -> tuple[int, ...]:
    """Return integers, each at least `least`, as a tuple of `int`."""
    result = value if type(value) is tuple else sequence(value, name)
    # Engines pass a tuple of int for every active set, for which one test of all entries is faster.
    if set(map(type, result)) - {int} or (
        result and not least <= min(result) <= max(result) <= LARGEST_COUNT
    ):
        result = tuple(whole(entry, f"each of {name}", least=least) for entry in result)
    return result


def generator(seed: Seed) -> np.random.Generator:
    """Return a generator for `seed`: an int, a `SeedSequence` or a `Generator`."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(seed_sequence(seed))


def seed_sequence(seed: Any) -> np.random.SeedSequence:
    """Return a seed sequence for `seed`, whose entropy is drawn if `seed` is a `Generator`."""
    if isinstance(seed, np.random.SeedSequence):
        # A copy, so that spawning from it does not change the caller's.
        return np.random.SeedSequence(**seed.state)
    if isinstance(seed, np.random.Generator):
        return np.random.SeedSequence(seed.integers(2**63, size=4).tolist())
    rule = "seed must be a non-negative int, a SeedSequence or a Generator"
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"{rule}, got {quoted(seed)}")
    if seed < 0:
        raise ValueError(f"{rule}, got {quoted(seed)}")
    return np.random.SeedSequence(int(seed))
