"""The Max-Det collection (Definition 3.1): the basis of arms with the largest determinant.

By Cramer's rule, every arm has coordinates in [-1, 1] with respect to it, and the proofs of the
paper use nothing else. A basis that cannot be improved by swapping one arm also has this property,
so a swap search replaces the enumeration of more than a million subsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai.scaling import Span, coordinates_in, swap_search

MAX_SUBSETS = 10**6
_BATCH_ENTRIES = 2**20
_TIE = 1e-10


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
        Whether the volume is known to be the largest, not only one that no swap increases.
    """

    indices: IntArray
    coordinates: FloatArray
    log_abs_det: float
    certified: bool


def max_det(vectors: ArrayLike | Span, *, max_subsets: int = MAX_SUBSETS) -> MaxDet:
    """Find a Max-Det collection of the rows of `vectors`.

    Parameters
    ----------
    vectors : array_like of shape (K, d)
        Feature vectors, K >= 1, or their `Span`. They need not span R^d: the collection has as many
        arms as the rank r.
    max_subsets : int, default 10**6
        The largest number of subsets of r arms that are compared; of several best ones, the first
        is returned. If there are more, a swap search (maxvol, Goreinov et al., 2010) starts from a
        column-pivoted QR decomposition.
    """
    span = Span.of(vectors)
    _check.whole(max_subsets, "max_subsets", least=0)
    if not span.rank:
        return MaxDet(span.basis, span.coordinates, 0.0, True)
    rows = span.coordinates  # a change of basis multiplies all determinants by the same factor
    certified = comb(len(rows), span.rank) <= max_subsets
    indices = _best_subset(rows) if certified else swap_search(rows, span.basis)
    return MaxDet(indices, coordinates_in(rows, indices), span.log_volume(indices), certified)


def _best_subset(vectors: FloatArray) -> IntArray:
    """Return the first subset, in lexicographic order, with the largest absolute determinant."""
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
