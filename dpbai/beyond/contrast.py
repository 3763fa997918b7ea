r"""The difference of two means, estimated by one released number from rewards of any arms.

Let estimates of the means have errors with covariance S = L L' + diag(t), and let c = e_i - e_k be
the contrast of two arms. Divide N more pulls in proportion to |u_j|, and release an estimate of
sum_j u_j mean_j with one Laplace noise. Its variance is ||u||_1^2 / w(N), where w(N) is the
information of `private.information`. Pulling only the two arms is the case u = c. Together with the
estimates so far, the release leaves the contrast with variance

    min over u of (c - u)' S (c - u) + ||u||_1^2 / w(N).

If S is large, this is a c-optimal design (Elfving, 1952): u has the least ||u||_1 among those with
sum_j u_j a_j = a_i - a_k, which is at most 2. The term diag(t), by how much means are expected to
differ from linear ones, keeps u near c.

Since ||u||_1^2 is the least sum of u_j^2 / p_j over shares p of the pulls, u and p are optimized
alternately. For given shares, u is that of a ridge regression: with v = 1 / w(N), u_j = p_j h_j for

    h = (S c - L y) / (t p + v),    y = (1 + L' diag(q) L)^-1 L' diag(q) S c,    q = p / (t p + v).

For given u, the best shares are proportional to |u_j|. Taking p_j |h_j|^1.8 instead makes larger
steps that are still stable.
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from dpbai._check import FloatArray, IntArray

_POWER = 1.8
_STEPS = 15, 80  # first with all arms, then with those whose weights are not small
_SMALL = 1e-3  # of the largest weight: arms with smaller weights are left out
_LEAST = 1e-100  # keeps denominators positive


def shortest(vectors: FloatArray, contrast: FloatArray) -> FloatArray:
    """Return u, shape (K,), with the least ||u||_1 such that sum_j u_j a_j = `contrast`."""
    both, scale = np.vstack([vectors, -vectors]), np.abs(contrast).max()
    # Scaled, since the solver treats numbers below 1e-7 as 0.
    found = optimize.linprog(np.ones(len(both)), A_eq=both.T, b_eq=contrast / scale).x
    assert found is not None  # the contrast lies in the span
    return np.asarray(scale * (found[: len(vectors)] - found[len(vectors) :]))


def combination(factor: FloatArray, own: FloatArray, pair: IntArray, variance: float) -> FloatArray:
    """Return the weights u of one pair of arms, shape (K,), where small ones are 0."""
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
    """Return the weights u of each of P pairs of arms, shape (P, K).

    `factor` is L, shape (K, r), `own` is t, shape (K,), `pairs` has shape (P, 2), and `variance` is
    1 / w(N).
    """
    arms, rank = factor.shape
    rows, (one, other) = np.arange(len(pairs)), pairs.T
    target = (factor[one] - factor[other]) @ factor.T
    target[rows, one] += own[one]
    target[rows, other] -= own[other]
    squares = (factor[:, :, None] * factor[:, None]).reshape(arms, -1)
    shares = weights = np.full(target.shape, 1 / arms)
    for _ in range(steps):
        scale = own * shares + variance
        moments = (shares / scale @ squares).reshape(-1, rank, rank) + np.eye(rank)
        linear = np.linalg.solve(moments, (shares / scale * target @ factor)[:, :, None])[:, :, 0]
        gains = (target - linear @ factor.T) / scale
        weights = shares * gains
        gains = np.abs(gains)
        updated = shares * (gains / np.maximum(gains.max(axis=1, keepdims=True), _LEAST)) ** _POWER
        sums = updated.sum(axis=1, keepdims=True)
        shares = np.where(sums > 0, updated / np.maximum(sums, _LEAST), shares)
    return weights
