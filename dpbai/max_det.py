"""The Max-Det collection (Definition 3.1): the basis among the arms with the largest determinant.

By Cramer's rule every arm then has coordinates in [-1, 1] with respect to it, and that is all that
the proofs of the paper use. Any basis that no single swap improves has the same property, so above
about a million subsets a swap search takes the place of the full enumeration: the volume of its
basis may be smaller, its coordinates are as good. `certified` says which of the two was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai._ties import first_largest
from dpbai.scaling import balancings, pivots, span_coordinates

MAX_SUBSETS = 10**6
_BATCH_ENTRIES = 2**20
_TIE = 1e-10
_SWAP_GAIN = 1e-10
_MISSED = 1e-9  # of the largest entry of a column
_ROUNDING = 1e-12
_DEPENDENT = "vectors must have independent columns"


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
    vectors = _check.matrix(vectors, "vectors", least_rows=1)
    if not vectors.any(axis=0).all() or len(vectors) < vectors.shape[1]:
        raise ValueError(_DEPENDENT)
    found = []
    for scaled, rows, _ in balancings(vectors):
        units = scaled / np.abs(scaled).max(axis=0)
        indices = pivots(units, vectors.shape[1])
        if rows.any():
            indices = swap_search(units, indices, rows)
        try:
            coordinates = _coordinates(units, indices, rows)
        except np.linalg.LinAlgError:
            raise ValueError(_DEPENDENT) from None
        # No scale of a row may hide the part of another: the coordinates must give the vectors.
        with np.errstate(all="ignore"):
            missed = np.abs(coordinates @ vectors[indices] - vectors) / np.abs(vectors).max(axis=0)
        error = float(missed.max())
        found.append((error if error >= 0 else np.inf, indices, coordinates))
        if error <= _MISSED:
            break
    return min(found, key=lambda basis: basis[0])[1:]


def canonical_basis(vectors: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return a basis that no swap improves, and the coordinates of all rows in it.

    It is searched for in coordinates in which the second moment of all rows is the identity, so it
    is the same, except for rounding, after every linear map of the vectors.
    """
    reduced = span_coordinates(vectors)
    if not reduced.shape[1]:
        return np.empty(0, dtype=np.int64), reduced
    coordinates = basis_coordinates(reduced)[1]
    axes, _ = np.linalg.qr(coordinates)
    basis = swap_search(axes, pivots(axes, reduced.shape[1]))
    return basis, _coordinates(axes, basis)


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
    indices = _best_subset(vectors) if certified else swap_search(vectors, basis)
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
    subsets = chain.from_iterable(combinations(range(arms), dimension))
    size = max(1, _BATCH_ENTRIES // dimension**2) * dimension
    best, best_value = np.arange(dimension), 0.0
    while (entries := np.fromiter(islice(subsets, size), np.int64)).size:
        rows = entries.reshape(-1, dimension)
        values = np.abs(np.linalg.det(vectors[rows]))
        largest = values.max()
        if largest > best_value * (1 + _TIE):
            best, best_value = rows[int(np.argmax(values >= largest * (1 - _TIE)))], largest
    return best


def swap_search(vectors: FloatArray, basis: IntArray, rows: IntArray | None = None) -> IntArray:
    """Swap one arm at a time while that enlarges the volume; return the arms, increasing.

    A swap multiplies the volume by the coordinate that it removes, so the search ends when no
    coordinate exceeds 1. Swaps update the coordinates by a rank-one correction; they are computed
    afresh at the end, and the search goes on if rounding had hidden a swap. With exponents `rows`
    of the vectors, see `balancings`, no correction bears them, so each swap is the last.
    """
    indices, dimension = basis.copy(), basis.size
    while True:
        coordinates = _coordinates(vectors, indices, rows)
        swapped = False
        while True:
            row, column = divmod(first_largest(np.abs(coordinates).ravel()), dimension)
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
