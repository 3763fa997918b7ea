"""G-optimal designs with small support, the allocation of OD-LinBAI and DP-OD (App. E).

By the equivalence theorem (Kiefer and Wolfowitz, 1960) a design that maximises det V, with V =
sum_i pi_i a_i a_i', is the one that minimises the largest variance max_i a_i' V^-1 a_i, and that
variance is then r, the rank. So the optimality gap is known at every step, and the solver stops on
it. The support is then reduced to at most r(r+1)/2 arms without changing V, because rounding up the
pulls adds at most one for each of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from dpbai import _check
from dpbai._check import FloatArray, IntArray
from dpbai._threads import one_thread
from dpbai._ties import TIE, first_largest, first_smallest
from dpbai.scaling import Span

_REFRESH = 50  # steps between Newton steps, after which the inverse is recomputed
_MAX_STEPS = 100_000
_ILL_CONDITIONED = 1e3
_CORRECTIONS = 3
_LEAST_TOLERANCE = 1e-12  # below, rounding errors dominate
_DEPENDENT = 1e-9  # singular values below this share of the largest count as 0


@dataclass(frozen=True, eq=False)
class Design:
    """A G-optimal design of K vectors that span r dimensions.

    Attributes
    ----------
    weights : ndarray of shape (K,)
        The share of pulls of each arm; non-negative, sum 1.
    support : ndarray of int
        The arms with positive weight, increasing; at most r(r+1)/2 of them.
    max_variance : float
        max_i a_i' V(weights)^-1 a_i, at least r; r exactly when optimal.
    """

    weights: FloatArray
    support: IntArray
    max_variance: float


@one_thread
def g_optimal_design(vectors: ArrayLike | Span, *, tolerance: float = 1e-8) -> Design:
    """Find a G-optimal design of the rows of `vectors`.

    Parameters
    ----------
    vectors : array_like of shape (K, d)
        Feature vectors, K >= 1, of any rank r; or their `Span`.
    tolerance : float, default 1e-8
        At least 1e-12. The search ends when the largest variance is at most r (1 + tolerance).

    Returns
    -------
    Design
        With a support of at most r(r+1)/2 arms. If K = r, all weights are exactly 1/r. If all
        vectors are zero, all weights are zero and the support is empty.

    Raises
    ------
    RuntimeError
        If the gap does not reach `tolerance` in 100000 steps, or because of rounding error.

    Notes
    -----
    The method is vertex exchange (Harman, Filová and Richtárik, 2018): each step moves weight
    from the arm of the support with the smallest variance to the arm with the largest, by the
    amount that maximises the determinant. Every 50 steps, a Newton step on the support speeds up
    convergence near the optimum. The first design is uniform on a basis by column-pivoted QR.
    """
    span = Span.of(vectors)
    tolerance = _check.number(tolerance, "tolerance", f"[{_LEAST_TOLERANCE}, inf)")
    weights = np.zeros(len(span.vectors))
    if not span.rank:
        return Design(weights, span.basis, 0.0)
    # The design does not depend on the basis; in this one all numbers are of order one.
    rows = _refined(span.coordinates, span.reduced, span.reduced[span.basis])
    weights[span.basis] = 1 / span.rank
    weights = _exchange(rows, weights, tolerance)
    weights = _reduce_support(rows, weights)
    variance = float(_variances(rows, weights).max())
    if np.count_nonzero(weights) > span.rank:
        # Weights may be wrong by about the gap, 1e-8; after a Newton step, by its square.
        refined = _newton(rows, weights)
        if (smaller := float(_variances(rows, refined).max())) < variance:
            weights, variance = refined, smaller
    # A variance below the rank is due to rounding.
    return Design(weights, np.flatnonzero(weights), max(float(span.rank), variance))


def whitening(
    vectors: FloatArray, weights: FloatArray, prior: FloatArray | float = 0.0
) -> FloatArray:
    """Return W with W'VW = I, for a positive definite V = `prior` + sum_i weight_i a_i a_i'."""
    root, failed = linalg.lapack.dpotrf(prior + (vectors.T * weights) @ vectors, lower=1)
    if failed:
        raise np.linalg.LinAlgError(
            "weights must be positive on vectors that span all others; if they are, rescale the "
            "vectors, whose scales differ too much for double precision"
        )
    return np.asarray(linalg.lapack.dtrtri(root, lower=1)[0].T)


def least_squares(
    edges: FloatArray, coordinates: FloatArray, support: IntArray, pulls: IntArray
) -> FloatArray:
    """Return the least-squares decoder A V^-1 of the moment vector B' diag(n) x.

    Here V = B' diag(n) B. With coordinates C in a basis E, A = C E, the decoder is C W^-1 E^-T for
    W = C_B' diag(n) C_B, which does not square the condition number of E.
    """
    if not support.size:
        return coordinates
    triangle = np.linalg.qr(np.sqrt(pulls)[:, None] * coordinates[support], mode="r")
    moments = linalg.lapack.dpotrs(triangle, coordinates.T)[0]  # W = triangle' triangle
    columns = np.abs(edges).max(axis=0)
    edges = edges / columns
    rows = np.abs(edges).max(axis=1, keepdims=True)
    return np.asarray(np.linalg.solve(edges / rows, moments / rows).T / columns)


def _refined(coordinates: FloatArray, vectors: FloatArray, basis: FloatArray) -> FloatArray:
    """Return coordinates that fulfil `vectors = coordinates @ basis` to within their own rounding.

    For an ill-conditioned basis, they are corrected by residuals that are computed exactly.
    """
    columns = np.frexp(np.abs(vectors).max(axis=0))[1]
    vectors, basis = np.ldexp(vectors, -columns), np.ldexp(basis, -columns)
    if not np.linalg.cond(basis) > _ILL_CONDITIONED:
        return coordinates
    for _ in range(_CORRECTIONS):
        # Products of halves are exact.
        products = [x[:, :, None] * y for x in _halves(coordinates) for y in _halves(-basis)]
        terms = np.concatenate([vectors[:, None], *products], axis=1)
        residuals = [[math.fsum(entry) for entry in row] for row in terms.transpose(0, 2, 1)]
        coordinates = coordinates + np.linalg.solve(basis.T, np.array(residuals).T).T
    return coordinates


def _halves(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Split x exactly into the sum of two numbers with half the digits (Veltkamp, 1968)."""
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _variances(vectors: FloatArray, weights: FloatArray) -> FloatArray:
    return np.asarray(((vectors @ whitening(vectors, weights)) ** 2).sum(axis=1))


def _exchange(vectors: FloatArray, weights: FloatArray, tolerance: float) -> FloatArray:
    """Move weight between pairs of arms until the largest variance is within the tolerance."""
    rank, tie = vectors.shape[1], min(TIE, tolerance / 10)
    for step in range(_MAX_STEPS):
        if step % _REFRESH == 0:
            if step:
                weights = _newton(vectors, weights)
            inverse = np.linalg.inv((vectors * weights[:, None]).T @ vectors)
            variances = np.einsum("ij,jk,ik->i", vectors, inverse, vectors)
        entering = first_largest(variances, tie)
        if variances.max() <= rank * (1 + tolerance):
            if _variances(vectors, weights).max() <= rank * (1 + tolerance):
                return weights
            if step % _REFRESH == 0:
                break
        leaving = first_smallest(np.where(weights > 0, variances, np.inf), tie)
        pair = vectors[[entering, leaving]]
        columns = inverse @ pair.T
        (more, shared), (_, less) = (pair @ columns).tolist()
        spread = more * less - shared**2
        amount = float(weights[leaving])
        if 2 * amount * spread * (1 - TIE) > more - less:
            amount = (more - less) / (2 * spread)
        if not amount > 0:
            break
        weights[entering] += amount
        weights[leaving] = 0.0 if amount == weights[leaving] else weights[leaving] - amount
        # det V grows by the factor 1 + amount (more - less) - amount^2 spread (matrix determinant
        # lemma); the inverse follows by a correction of rank two, and the variances with it.
        up, down, cross = 1 + amount * more, 1 - amount * less, amount * shared
        correction = np.array([[down, cross], [cross, -up]]) * (amount / (up * down + cross**2))
        inverse -= columns @ correction @ columns.T
        moves = columns.T @ vectors.T
        variances -= (correction @ moves * moves).sum(axis=0)
    raise RuntimeError(f"no design within tolerance {tolerance} was found; increase the tolerance")


def _newton(vectors: FloatArray, weights: FloatArray) -> FloatArray:
    """Take a Newton step on the support, cut where a weight becomes 0, if it increases det V.

    The gradient of log det V is the vector v of variances, and its Hessian is -H with H_ij = (a_i'
    V^-1 a_j)^2. As H w = v, the step leads from w to 2 w - H^-1 1 / (1' H^-1 1).
    """
    support = np.flatnonzero(weights)
    arms, share = vectors[support], weights[support]
    information = (arms * share[:, None]).T @ arms
    curvature = (arms @ np.linalg.solve(information, arms.T)) ** 2
    solution = linalg.lstsq(curvature, np.ones(support.size), cond=_LEAST_TOLERANCE)[0]
    moved = _moved(share, share - solution / solution.sum(), 1.0)
    before, after = (np.linalg.slogdet((arms * w[:, None]).T @ arms)[1] for w in (share, moved))
    result = weights.copy()
    if after > before - _LEAST_TOLERANCE:
        result[support] = moved
    return result


def _moved(weights: FloatArray, direction: FloatArray, most: float) -> FloatArray:
    """Move weights along a direction, by a length `most` or until one of them is 0."""
    falling = direction < 0
    ratios = np.full(weights.size, np.inf)
    ratios[falling] = weights[falling] / -direction[falling]
    length = min(most, ratios.min())
    moved = np.maximum(weights + length * direction, 0.0)
    return np.asarray(np.where(ratios > length * (1 + TIE), moved, 0.0))


def _reduce_support(vectors: FloatArray, weights: FloatArray) -> FloatArray:
    """Remove arms until at most r(r+1)/2 are left, without changing V (Caratheodory).

    The matrices a_i a_i' of r(r+1)/2 + 1 arms are linearly dependent, so weight can be moved along
    a dependency until one weight is zero. At the optimum the weights still sum to 1, because
    trace(V^-1 a_i a_i') = r on the whole support.
    """
    rank = vectors.shape[1]
    rows, columns = np.triu_indices(rank)
    weights = weights.copy()
    support = np.flatnonzero(weights)
    while support.size > rows.size:
        some = support[: rows.size + 1]
        # The projection of an arm on all dependencies does not depend on a basis of these.
        _, sizes, axes = linalg.svd((vectors[some][:, rows] * vectors[some][:, columns]).T)
        free = axes[np.count_nonzero(sizes > _DEPENDENT * sizes[0]) :]
        projection = free.T @ free
        direction = projection[first_largest(projection.diagonal())]
        weights[some] = _moved(weights[some], np.asarray(-direction), np.inf)
        support = np.flatnonzero(weights)
    if support.size == rank:  # the best weights on a basis are equal
        weights[support] = 1.0
    return np.asarray(weights / weights.sum())
