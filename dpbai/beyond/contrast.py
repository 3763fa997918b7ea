r"""One number that tells two arms apart, made of rewards of any arms.

Let estimates of the means have errors with covariance S = L L' + diag(t), and let c = e_i - e_k be
the contrast of two arms. N more pulls, divided in proportion to |w_j|, and one Laplace noise on the
whole make an estimate of sum_j w_j mean_j with variance ||w||_1^2 / w(N), where w(N) is the
information of `private.information`; the pulls of the two arms alone are the case w = c. Used with
the estimates so far, it leaves the contrast with variance

    min over w of (c - w)' S (c - w) + ||w||_1^2 / w(N).

Where S is large this is a c-optimal design (Elfving, 1952): w has the least ||w||_1 among those
with sum_j w_j a_j = a_i - a_k, at most 2. What keeps w near c is diag(t), by how much means are
expected to be off from linear ones.

Since ||w||_1^2 is the least sum of w_j^2 / p_j over shares p of the pulls, the two are found in
turn. For given shares, w is that of a ridge regression: with v = 1 / w(N), w_j = p_j h_j for

    h = (S c - L y) / (t p + v),    y = (1 + L' diag(q) L)^-1 L' diag(q) S c,    q = p / (t p + v).

For given w the best shares are |w_j|; to move there in larger steps, as far as is stable, p_j
|h_j|^1.8 is taken.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from dpbai._check import FloatArray, IntArray

_POWER = 1.8
_STEPS = 15, 80  # with all arms, and with those that are left
_SMALL = 1e-3  # of the largest weight: an arm with less is left out
_LEAST = 1e-100


def shortest(vectors: FloatArray, contrast: FloatArray) -> FloatArray:
    """Return the w of least ||w||_1 with sum_j w_j a_j = contrast, shape (K,): S is infinite."""
    both, scale = np.vstack([vectors, -vectors]), np.abs(contrast).max()
    # Scaled, as the solver takes what is less than 1e-7 for 0.
    found = optimize.linprog(np.ones(len(both)), A_eq=both.T, b_eq=contrast / scale).x
    assert found is not None  # the contrast lies in the span
    return np.asarray(scale * (found[: len(vectors)] - found[len(vectors) :]))


def combination(factor: FloatArray, own: FloatArray, pair: IntArray, variance: float) -> FloatArray:
    """Return the weights w of one pair of arms, shape (K,); small ones are 0."""
    some, weights = np.arange(len(factor)), np.zeros(len(factor))
    for steps in _STEPS:
        at = np.searchsorted(some, pair)[None]
        found = combinations(factor[some], own[some], at, variance, steps)[0]
        near = np.abs(found) > _SMALL * np.abs(found).max()
        weights[:] = 0
        weights[some[near]] = found[near]
        near[at] = True
        some = some[near]
    return weights


def combinations(
    factor: FloatArray, own: FloatArray, pairs: IntArray, variance: float, steps: int
) -> FloatArray:
    """Return the weights w of each of P pairs of arms, shape (P, K).

    `factor` is L, shape (K, r), `own` is t, shape (K,), `pairs` has shape (P, 2), and `variance` is
    1 / w(N).
    """
    arms, rank = factor.shape
    rows, (one, other) = np.arange(len(pairs)), pairs.T
    wanted = (factor[one] - factor[other]) @ factor.T
    wanted[rows, one] += own[one]
    wanted[rows, other] -= own[other]
    squares = (factor[:, :, None] * factor[:, None]).reshape(arms, -1)
    shares = weights = np.full(wanted.shape, 1 / arms)
    for _ in range(steps):
        price = own * shares + variance
        moments = (shares / price @ squares).reshape(-1, rank, rank) + np.eye(rank)
        linear = np.linalg.solve(moments, (shares / price * wanted @ factor)[:, :, None])[:, :, 0]
        gains = (wanted - linear @ factor.T) / price
        weights = shares * gains
        gains = np.abs(gains)
        grown = shares * (gains / np.maximum(gains.max(axis=1, keepdims=True), _LEAST)) ** _POWER
        sums = grown.sum(axis=1, keepdims=True)
        shares = np.where(sums > 0, grown / np.maximum(sums, _LEAST), shares)
    return weights
