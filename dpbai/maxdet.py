"""The Max-Det collection (Definition 3.1): the basis among the arms with the largest determinant.

By Cramer's rule every arm then has coordinates in [-1, 1] with respect to it, and that is all that
the proofs of the paper use. Any basis that no single swap improves has the same property, so above
about a million subsets a swap search takes the place of the full enumeration: the volume of its
basis may be smaller, its coordinates are as good. `certified` says which of the two was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from dpbai import _check
from dpbai._check import FloatArray, IntArray

BoolArray = NDArray[np.bool_]

MAX_SUBSETS = 10**6
_BATCH_ENTRIES = 2**20
_TIE = 1e-10
_SWAP_GAIN = 1e-10
_ROUNDING = 1e-12
_WIDE, _SWEEPS = 30, 100


@dataclass(frozen=True, eq=False)
class MaxDet:
    """A Max-Det collection of K vectors that span r dimensions.

    Attributes
    ----------
    indices : ndarray of int, shape (r,)
        The rows of the collection, increasing.
    coordinates : ndarray of shape (K, r)
        `vectors = coordinates @ vectors[indices]`, entries in [-1, 1] up to rounding.
    log_abs_det : float
        Logarithm of the volume that the collection spans, in an orthonormal basis of the span.
    certified : bool
        Whether the volume is the largest of all subsets, or only one that no swap improves.
    """

    indices: IntArray
    coordinates: FloatArray
    log_abs_det: float
    certified: bool


def rank(vectors: FloatArray) -> int:
    """Return the rank of the rows, whatever the scales of rows and columns.

    Scaling a row or a column by a non-zero factor changes no rank, so both are brought to unit size
    before the singular values are compared with rounding error.
    """
    return _visible_rank(balanced(vectors)[0]) if vectors.any() else 0


def balanced(vectors: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the vectors with rows and columns of one order of magnitude, and the exponents.

    With vectors whose entries differ by less than 2^30 nothing is done. Beyond, rounding errors of
    long rows and columns would hide short ones. So the largest entry of each row and column is
    brought to order one, by factors that are powers of two, which make no rounding errors. If that
    hides a direction, and to bring the mean of log2 of the non-zero entries to 0 (Curtis and Reid,
    1972) does not, then that is done instead: it serves arms and features of any scales, and would
    be led astray by a few tiny entries.

    Returns
    -------
    scaled : ndarray of shape (K, d)
        `vectors = ldexp(scaled, rows[:, None] + columns)`.
    rows, columns : ndarray of int, shapes (K,) and (d,)
    """
    entries = vectors != 0
    exponents = np.where(entries, np.frexp(vectors)[1], 0).astype(np.float64)
    if not entries.any() or np.ptp(exponents[entries]) < _WIDE:
        rows, columns = (np.zeros(n, dtype=np.int64) for n in vectors.shape)
        return vectors, rows, columns
    tried = []
    for middle in (_half_of_largest, _mean):
        rows, columns = _scales(exponents, entries, middle)
        with np.errstate(over="ignore"):
            scaled = np.ldexp(vectors, -(rows[:, None] + columns))
        tried.append((scaled, rows, columns))
    return max(tried, key=lambda scaled: _visible_rank(scaled[0]))


def _scales(
    exponents: FloatArray, entries: BoolArray, middle: Callable[..., FloatArray]
) -> tuple[IntArray, IntArray]:
    """Return exponents of rows and columns after which the `middle` of each is about 0."""
    rows, columns = (np.zeros(n) for n in exponents.shape)
    for _ in range(_SWEEPS):
        rows = rows + middle(exponents - rows[:, None] - columns, entries, axis=1)
        columns = columns + middle(exponents - rows[:, None] - columns, entries, axis=0)
    return rows.round().astype(np.int64), columns.round().astype(np.int64)


def _half_of_largest(exponents: FloatArray, entries: BoolArray, axis: int) -> FloatArray:
    """Return half of the largest exponent: rows and columns share what there is to remove."""
    largest = np.where(entries, exponents, -np.inf).max(axis=axis)
    return np.where(np.isfinite(largest), largest, 0.0) / 2


def _mean(exponents: FloatArray, entries: BoolArray, axis: int) -> FloatArray:
    return np.asarray((exponents * entries).sum(axis=axis) / np.maximum(1, entries.sum(axis=axis)))


def _visible_rank(scaled: FloatArray) -> int:
    """Return the rank that rounding errors leave; -1 where entries overflow."""
    if not np.isfinite(scaled).all():
        return -1
    return int(np.linalg.matrix_rank(_unit_rows(_unit_columns(scaled))))


def span_coordinates(vectors: FloatArray) -> FloatArray:
    """Return the rows in coordinates of their span, eq. (dim_reduce).

    Vectors of full column rank keep the coordinates they have. Otherwise the basis is orthonormal.

    Parameters
    ----------
    vectors : ndarray of shape (K, d)
        Rows of rank r.

    Returns
    -------
    ndarray of shape (K, r)
        The same vectors in r coordinates; lengths and angles are unchanged.
    """
    dimension = rank(vectors)
    if dimension == vectors.shape[1]:
        return vectors
    scaled, rows, columns = balanced(vectors)
    if scaled is vectors:
        # Scaling rows leaves their span alone, and lets no long arm hide a short one.
        axes = linalg.svd(_unit_rows(vectors), full_matrices=False)[2]
        return np.asarray(vectors @ axes[:dimension].T)
    # Rows are combinations of some of them, of which a triangle tells lengths and angles. With
    # pivots, and the longest coordinates first, it is right for each coordinate, however short.
    indices = _pivots(_unit_rows(scaled), dimension)
    basis = np.ldexp(scaled[indices], columns)
    longest = np.argsort(-np.abs(basis).max(axis=0))
    triangle, order = linalg.qr(basis[:, longest].T, mode="r", pivoting=True)
    coordinates = linalg.lstsq(scaled[indices].T, scaled.T)[0].T
    return np.ldexp(coordinates[:, order] @ triangle[:dimension].T, rows[:, None])


def basis_coordinates(vectors: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return rows that form a basis, and the coordinates of all rows in it.

    The basis is that of a column-pivoted QR decomposition, so the coordinates are of order one
    however badly scaled the vectors are: computations that do not depend on the basis go there.

    Parameters
    ----------
    vectors : ndarray of shape (K, r)
        Rows of rank r.

    Returns
    -------
    indices : ndarray of int, shape (r,)
    coordinates : ndarray of shape (K, r)
        `vectors = coordinates @ vectors[indices]`.
    """
    scaled, rows, _ = balanced(vectors)
    scaled = scaled / np.abs(scaled).max(axis=0)
    indices = _pivots(scaled, vectors.shape[1])
    if rows.any():
        indices = _swap_search(scaled, indices, rows)
    return indices, _coordinates(scaled, indices, rows)


def _pivots(vectors: FloatArray, dimension: int) -> IntArray:
    """Return rows that form a basis, by a column-pivoted QR decomposition."""
    order = linalg.qr(vectors.T, mode="r", pivoting=True)[1]
    return np.asarray(order[:dimension], dtype=np.int64)


def _coordinates(
    vectors: FloatArray, indices: IntArray, rows: IntArray | None = None
) -> FloatArray:
    """Return coordinates in a basis; of `vectors` with exponents `rows`, if these are given."""
    coordinates = np.asarray(np.linalg.solve(vectors[indices].T, vectors.T).T)
    if rows is not None and rows.any():
        # Balanced rows have coordinates of order one: what is left of a zero must not be enlarged.
        coordinates[np.abs(coordinates) < _ROUNDING] = 0.0
        coordinates = np.ldexp(coordinates, rows[:, None] - rows[indices])
    coordinates[indices] = np.eye(len(indices))
    return coordinates


def max_det(vectors: ArrayLike, *, max_subsets: int = MAX_SUBSETS) -> MaxDet:
    """Find a Max-Det collection of the rows of `vectors`.

    Parameters
    ----------
    vectors : array_like of shape (K, d)
        Feature vectors, K >= 1. They need not span R^d: the collection has as many arms as the
        rank r.
    max_subsets : int, default 10**6
        All subsets of r arms are compared if there are at most so many; above, a swap search starts
        from a column-pivoted QR decomposition.

    Returns
    -------
    MaxDet
        Ties between subsets go to the smallest indices.

    Raises
    ------
    ValueError
        If `vectors` is not a finite 2-D array with at least one row and one column.

    Notes
    -----
    Definition 3.1 and Lemma "property of Max-Det" of the paper. The swap search is maxvol
    (Goreinov, Oseledets, Savostyanov, Tyrtyshnikov, Zamarashkin, 2010).
    """
    array = _check.matrix(vectors, "vectors", least_rows=1)
    _check.whole(max_subsets, "max_subsets", least=0)
    reduced = span_coordinates(array)
    arms, dimension = reduced.shape
    if dimension == 0:
        return MaxDet(np.empty(0, dtype=np.int64), np.empty((arms, 0)), 0.0, True)
    # A change of basis multiplies all determinants alike; in this one, numbers are of order one.
    basis, vectors = basis_coordinates(reduced)
    certified = comb(arms, dimension) <= max_subsets
    indices = _best_subset(vectors) if certified else _swap_search(vectors, basis)
    columns = np.abs(reduced).max(axis=0)
    log_abs_det = float(
        np.linalg.slogdet(vectors[indices])[1]
        + np.linalg.slogdet(reduced[basis] / columns)[1]
        + np.log(columns).sum()
    )
    return MaxDet(indices, _coordinates(vectors, indices), log_abs_det, certified)


def _best_subset(vectors: FloatArray) -> IntArray:
    """Compare all subsets in batches, in lexicographic order; a later one must be truly larger."""
    arms, dimension = vectors.shape
    norms = np.linalg.norm(vectors, axis=1)
    with np.errstate(divide="ignore"):
        log_norms = np.log(norms)
    unit = _unit_rows(vectors)
    subsets = combinations(range(arms), dimension)
    size = max(1, _BATCH_ENTRIES // dimension**2)
    best, best_value = np.arange(dimension), -np.inf
    while batch := list(islice(subsets, size)):
        rows = np.array(batch)
        values = np.linalg.slogdet(unit[rows])[1] + log_norms[rows].sum(axis=1)
        largest = values.max()
        if largest > best_value + _TIE or best_value == -np.inf:
            first = int(np.argmax(values >= largest - _TIE))
            best, best_value = rows[first], largest
    return best


def _swap_search(vectors: FloatArray, basis: IntArray, rows: IntArray | None = None) -> IntArray:
    """Swap one arm at a time while that enlarges the volume; return the arms, increasing.

    A swap multiplies the volume by the coordinate that it removes, so the search ends when no
    coordinate exceeds 1. Swaps update the coordinates by a rank-one correction; they are computed
    afresh at the end, and the search goes on if rounding had hidden a swap.

    Parameters
    ----------
    vectors : ndarray of shape (K, r)
        Coordinates in the basis of the start.
    basis : ndarray of int, shape (r,)
        Where the search starts.
    rows : ndarray of int, shape (K,), optional
        Exponents of the rows, see `balanced`; no correction bears them, so each swap is the last.
    """
    indices, dimension = basis.copy(), basis.size
    while True:
        coordinates = _coordinates(vectors, indices, rows)
        swapped = False
        while True:
            row, column = divmod(int(np.argmax(np.abs(coordinates))), dimension)
            pivot = coordinates[row, column]
            if abs(pivot) <= 1 + _SWAP_GAIN:
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


def _unit_columns(vectors: FloatArray) -> FloatArray:
    largest = np.abs(vectors).max(axis=0, initial=0.0)
    return np.asarray(vectors[:, largest > 0] / largest[largest > 0])


def _unit_rows(vectors: FloatArray) -> FloatArray:
    largest = np.abs(vectors).max(axis=1, initial=0.0, keepdims=True)
    safe = vectors / np.where(largest > 0, largest, 1.0)
    lengths = np.linalg.norm(safe, axis=1, keepdims=True)
    return np.asarray(safe / np.where(lengths > 0, lengths, 1.0))
