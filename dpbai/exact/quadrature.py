"""Integrals, in logarithms, of positive functions with kinks or jumps at known points."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import linalg

from dpbai._check import FloatArray

SMALLEST_LOG = -575.0
"""Logarithm of 1e-250; smaller probabilities, whose products could underflow, are returned as 0."""

_MOST_PANELS = 2**13


class RoughDensityError(ValueError):
    """A distribution is not smooth enough to be integrated or inverted numerically."""


# Two Gauss-Legendre rules: the finer one gives the integral, and their difference its error.
_COARSE, _FINE = (np.polynomial.legendre.leggauss(order) for order in (10, 16))
_NODES = np.concatenate([_COARSE[0], _FINE[0]])
_WEIGHTS = linalg.block_diag(_COARSE[1], _FINE[1])


def log_integral(
    log_function: Callable[[FloatArray, FloatArray], FloatArray],
    log_bound: Callable[[FloatArray], FloatArray],
    scan: FloatArray,
    knots: FloatArray,
    rtol: float,
) -> float:
    """Return the logarithm of the integral of a positive function, or -inf if it is below 1e-250.

    `log_function(x, slack)` returns lower and upper bounds on the logarithm of the integrand, shape
    (2, N), at points x of shape (N,), with a slack as in `Variables`. `log_bound(x)` is a cheaper
    estimate of its order of magnitude. The increasing points `scan` are so dense that the integrand
    is negligible between them if it is at them; it may have kinks or jumps at `knots`. Panels are
    halved until the integral has a relative error of `rtol`. RoughDensityError is raised if that
    does not converge, or if the lower and the upper bound differ by more than `rtol`.
    """
    rough = log_bound(scan)
    peak = float(rough.max())
    if peak + math.log(scan[-1] - scan[0]) < SMALLEST_LOG:
        return -math.inf
    kept = np.flatnonzero(rough > peak + math.log(rtol) - 10)
    first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, scan.size - 1)
    edges = scan[np.linspace(first, last, 7).astype(int)]
    inside = knots[(edges[0] < knots) & (knots < edges[-1])]
    edges = np.unique(np.concatenate([edges, inside]))
    most_panels = max(_MOST_PANELS, 4 * edges.size)
    left, right = edges[:-1], edges[1:]

    def panels(left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the integrals by both rules, shape (rules, bounds, panels)."""
        nodes = (left + right)[:, None] / 2 + np.multiply.outer((right - left) / 2, _NODES)
        x = nodes.ravel()
        logs = log_function(x, np.maximum(peak - log_bound(x), 0.0))
        values = np.exp(logs - peak).reshape(2, *nodes.shape)
        return np.asarray((values @ _WEIGHTS.T * (right - left)[:, None] / 2).transpose(2, 0, 1))

    done = np.zeros(2)
    while left.size:
        if left.size > most_panels:
            raise RoughDensityError("an integral does not converge")
        coarse, fine = panels(left, right)
        # All panels that have not converged are halved at once.
        tolerance = rtol / 30 * (done[1] + fine[1].sum())
        good = (np.abs(fine - coarse) <= tolerance).all(axis=0)
        done += fine[:, good].sum(axis=1)
        left, right = left[~good], right[~good]
        middle = (left + right) / 2
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    with np.errstate(divide="ignore"):
        low, high = (peak + np.log(done)).tolist()
    if high < SMALLEST_LOG:
        return -math.inf
    if high - low > rtol:
        raise RoughDensityError("too much of an integral lies where rounding errors are large")
    return float(high)
