"""Ranks and coordinates of vectors, for any units of arms and features.

Rounding errors depend on these units. Here, and only here, rows and columns are scaled to the same
order of magnitude.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from dpbai import _check
from dpbai._check import BoolArray, FloatArray, IntArray
from dpbai._ties import first_largest

_WIDE = 30  # the range of binary exponents from which on vectors are scaled
_SWEEPS = 100  # iterations of the scaling
_SWAP_GAIN = 1e-10  # relative gain of volume that is worth a swap
_TOLERANCE = 1e-9  # of the largest entry of a column
_ROUNDING = 1e-12  # of coordinates of order one
_EPSILON = 2.0**-52
_WELL_CONDITIONED = 1e-9  # reciprocal condition number, far above rounding errors of 1e-13


@dataclass(frozen=True, eq=False)
class Span:
    """The span of vectors: its dimension, and their coordinates, computed on first use.

    Parameters
    ----------
    vectors : ndarray of shape (K, d)
        Finite rows of any rank r, K >= 1. `Span.of` checks them.
    """

    vectors: FloatArray

    @classmethod
    def of(cls, vectors: ArrayLike | Span) -> Span:
        """Return the span of unchecked vectors, or the one that is given."""
        if isinstance(vectors, Span):
            return vectors
        return cls(_check.matrix(vectors, "vectors", least_rows=1))

    @cached_property
    def rank(self) -> int:
        """r, from singular values after scaling rows and columns, which keeps the rank."""
        arms, dimension = self.vectors.shape
        tall = self.vectors if arms >= dimension else self.vectors.T
        if _well_conditioned(tall):
            return int(tall.shape[1])
        return _numerical_rank(balancings(self.vectors)[0][0])

    @cached_property
    def reduced(self) -> FloatArray:
        """The vectors in coordinates of their span, eq. (9), shape (K, r).

        Vectors of full column rank are returned unchanged. Otherwise the basis is orthonormal, so
        that lengths and angles do not change.
        """
        vectors = self.vectors
        if self.rank == vectors.shape[1]:
            return vectors
        ways = balancings(vectors)
        if ways[0][0] is vectors:
            # Scaling rows changes rounding errors, but not the span.
            return np.asarray(vectors @ pivots(unit_rows(vectors), self.rank)[1].T)
        # All rows are combinations of r of them, whose triangular factor preserves lengths and
        # angles. The scaling in which these combinations have the smallest error is used.
        found = []
        for scaled, rows, columns in ways:
            indices, _ = pivots(unit_rows(scaled), self.rank)
            parts = linalg.lstsq(scaled[indices].T, scaled.T)[0].T
            residuals = _times_powers(parts @ scaled[indices] - scaled, rows[:, None] + columns)
            largest = np.abs(vectors).max(axis=0)
            error = float(np.abs(residuals / np.where(largest > 0, largest, 1.0)).max())
            found.append((error, _times_powers(scaled[indices], columns), parts, rows))
        _, basis, parts, rows = min(found, key=lambda way: way[0])
        # Pivoting, with the longest coordinates first, makes each of them accurate.
        longest = np.argsort(-np.abs(basis).max(axis=0))
        triangle, order = linalg.qr(basis[:, longest].T, mode="r", pivoting=True)
        return _times_powers(parts[:, order] @ triangle[: self.rank].T, rows[:, None])

    @property
    def basis(self) -> IntArray:
        """Rows that form a basis, shape (r,); coordinates of scaled rows are of order one."""
        return self._in_basis[0]

    @property
    def coordinates(self) -> FloatArray:
        """The coordinates of all rows in this basis, shape (K, r)."""
        return self._in_basis[1]

    @cached_property
    def _in_basis(self) -> tuple[IntArray, FloatArray]:
        vectors, found = self.reduced, []
        if not self.rank:
            return np.empty(0, dtype=np.int64), vectors
        for scaled, rows, _ in balancings(vectors):
            units = _divided(scaled, np.abs(scaled).max(axis=0))
            with np.errstate(all="ignore"):  # if a direction is lost, the error below is large
                indices, _ = pivots(units, self.rank)
            if rows.any():
                indices = swap_search(units, indices, rows)
            coordinates = coordinates_in(units, indices, rows)
            # The coordinates must reproduce the vectors, whatever the scales of rows.
            largest = np.abs(vectors).max(axis=0)
            with np.errstate(all="ignore"):
                error = float((np.abs(coordinates @ vectors[indices] - vectors) / largest).max())
            found.append((error if error >= 0 else np.inf, indices, coordinates))
            if error <= _TOLERANCE:
                break
        return min(found, key=lambda basis: basis[0])[1:]

    def log_volume(self, rows: IntArray) -> float:
        """Return the log of the volume that r rows span, in an orthonormal basis of the span."""
        columns = np.abs(self.reduced).max(axis=0)
        of_basis = np.linalg.slogdet(self.reduced[self.basis] / columns)[1] + np.log(columns).sum()
        return float(np.linalg.slogdet(self.coordinates[rows])[1] + of_basis)

    @cached_property
    def canonical(self) -> tuple[IntArray, FloatArray]:
        """A basis that no swap improves, and the coordinates of all rows in it.

        The search uses coordinates in which the second moment of all rows is the identity, so an
        invertible linear map of the vectors changes the result by rounding errors only.
        """
        if not self.rank:
            return self._in_basis
        axes, _ = np.linalg.qr(self.coordinates)
        basis = swap_search(axes, pivots(axes, self.rank)[0])
        return basis, coordinates_in(axes, basis)


def rank(vectors: ArrayLike) -> int:
    """Return the rank of the rows, whatever the scales of rows and columns: `Span.rank`."""
    return Span.of(vectors).rank


def span_coordinates(vectors: ArrayLike) -> FloatArray:
    """Return the rows in coordinates of their span, eq. (9): `Span.reduced`."""
    return Span.of(vectors).reduced


def _well_conditioned(vectors: FloatArray) -> bool:
    """Return whether the columns are independent by a wide margin.

    This Cholesky factorization takes a tenth of the time of singular values, which few vectors
    need.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        moments = vectors.T @ vectors
        factor, failed = linalg.lapack.dpotrf(moments)
        condition = linalg.lapack.dpocon(factor, np.abs(moments).sum(axis=0).max())[0]
    return bool(not failed and condition > _WELL_CONDITIONED)


def balancings(vectors: FloatArray) -> list[tuple[FloatArray, IntArray, IntArray]]:
    """Return one or two ways to scale rows and columns to the same order of magnitude.

    Vectors whose non-zero entries differ by factors below 2^30 are not scaled. Otherwise rows and
    columns are multiplied by powers of two, which causes no rounding errors, in two ways: so that
    the largest entry of each is of order one, and so that the mean of log2 of its non-zero entries
    is 0 (Curtis and Reid, 1972). The second suits arms and features of any scales, but not a few
    tiny entries. The ways with the largest numerical rank are returned, in this order.

    A way consists of arrays of shapes (K, d), (K,) and (d,) with
    `vectors = ldexp(scaled, rows[:, None] + columns)`.
    """
    entries = vectors != 0
    exponents = np.frexp(vectors)[1]
    if not entries.any() or np.ptp(exponents[entries]) < _WIDE:
        rows, columns = (np.zeros(n, dtype=np.int64) for n in vectors.shape)
        return [(vectors, rows, columns)]
    exponents = exponents.astype(np.float64)
    tried = []
    for middle in (_half_of_largest, _mean):
        rows, columns = _scales(exponents, entries, middle)
        with np.errstate(over="ignore"):
            scaled = _times_powers(vectors, -(rows[:, None] + columns))
        if np.isfinite(scaled).all():  # with a mean of 0, a few large entries may overflow
            tried.append((scaled, rows, columns))
    ranks = [_numerical_rank(scaled) for scaled, _, _ in tried]
    return [found for found, rank in zip(tried, ranks, strict=True) if rank == max(ranks)]


def _scales(
    exponents: FloatArray, entries: BoolArray, middle: Callable[..., FloatArray]
) -> tuple[IntArray, IntArray]:
    """Return the exponents of rows and columns that bring the `middle` of each to about 0."""
    rows, columns = (np.zeros(n) for n in exponents.shape)
    for _ in range(_SWEEPS):
        rows = rows + middle(exponents - rows[:, None] - columns, entries, axis=1)
        columns = columns + middle(exponents - rows[:, None] - columns, entries, axis=0)
    return rows.round().astype(np.int64), columns.round().astype(np.int64)


def _times_powers(values: FloatArray, exponents: IntArray) -> FloatArray:
    """Return values times powers of two; `ldexp` accepts int64 on some platforms only."""
    return np.asarray(np.ldexp(values, exponents.astype(np.intc)))


def _half_of_largest(exponents: FloatArray, entries: BoolArray, axis: int) -> FloatArray:
    # rows take one half of the largest exponent, and columns the other
    largest = np.where(entries, exponents, -np.inf).max(axis=axis)
    return np.where(np.isfinite(largest), largest, 0.0) / 2


def _mean(exponents: FloatArray, entries: BoolArray, axis: int) -> FloatArray:
    return np.asarray((exponents * entries).sum(axis=axis) / np.maximum(1, entries.sum(axis=axis)))


def _numerical_rank(scaled: FloatArray) -> int:
    """Return the number of singular values above rounding errors."""
    units = unit_rows(_divided(scaled, np.abs(scaled).max(axis=0)))
    singular = linalg.lapack.dgesdd(units, compute_uv=0)[1]
    return int(np.count_nonzero(singular > singular[0] * max(units.shape) * _EPSILON))


def pivots(vectors: FloatArray, dimension: int) -> tuple[IntArray, FloatArray]:
    """Return rows that form a basis: the longest, the one farthest from its span, and so on.

    The result is their indices, and their Gram-Schmidt basis of shape (dimension, d), which is the
    same on all machines.
    """
    left, axes = vectors, np.empty((0, vectors.shape[1]))
    indices = np.empty(dimension, dtype=np.int64)
    for number in range(dimension):
        indices[number] = first_largest((left * left).sum(axis=1))
        row = left[indices[number]] - (left[indices[number]] @ axes.T) @ axes
        axis = row / np.linalg.norm(row)
        axes = np.vstack([axes, axis])
        left = left - np.outer(left @ axis, axis)
    return indices, axes


def unit_rows(vectors: FloatArray) -> FloatArray:
    """Return the rows divided by their lengths; zero rows remain zero."""
    safe = _divided(vectors, np.abs(vectors).max(axis=1, keepdims=True))
    return _divided(safe, np.sqrt((safe * safe).sum(axis=1, keepdims=True)))


def _divided(vectors: FloatArray, sizes: FloatArray) -> FloatArray:
    return np.asarray(vectors / np.where(sizes > 0, sizes, 1.0))


def coordinates_in(
    vectors: FloatArray, indices: IntArray, rows: IntArray | None = None
) -> FloatArray:
    """Return the coordinates of all rows in the basis `indices`; for `rows`, see `balancings`."""
    try:
        coordinates = np.asarray(np.linalg.solve(vectors[indices].T, vectors.T).T)
    except np.linalg.LinAlgError:
        raise ValueError(
            "vectors must not differ so much in scale that rounding errors hide which of them are "
            "independent: use units in which all arms and features are of similar size"
        ) from None
    if rows is not None and rows.any():
        # Scaled rows have coordinates of order one: tiny ones are rounding errors of zeros.
        coordinates[np.abs(coordinates) < _ROUNDING] = 0.0
        coordinates = _times_powers(coordinates, rows[:, None] - rows[indices])
    coordinates[indices] = np.eye(len(indices))
    return coordinates


def swap_search(vectors: FloatArray, basis: IntArray, rows: IntArray | None = None) -> IntArray:
    """Swap one arm at a time while this increases the volume; return the arms, increasing.

    A swap multiplies the volume by the size of one coordinate, so the search ends when no size
    exceeds 1. Each swap updates the coordinates by a rank-one correction, and they are recomputed
    at the end. With exponents `rows` (see `balancings`), they are recomputed after each swap.
    """
    indices, dimension = basis.copy(), basis.size
    while True:
        coordinates = coordinates_in(vectors, indices, rows)
        swapped = False
        while True:
            row, column = divmod(first_largest(np.abs(coordinates).ravel(), _SWAP_GAIN), dimension)
            pivot = coordinates[row, column]
            if not abs(pivot) > 1 + _SWAP_GAIN:
                break
            swapped = True
            if rows is not None:
                indices[column] = row
                break
            step = coordinates[row].copy()
            step[column] -= 1
            coordinates -= np.outer(coordinates[:, column] / pivot, step)
            indices[column] = row
        if not swapped:
            return np.sort(indices)
